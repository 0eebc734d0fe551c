// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user who makes cgroups and opens events of them pays for their memory: it is charged to the
 * user's own memory cgroup. If that is full, the user's calls fail or the kernel kills a process of
 * the user's, and other users' events continue.
 *
 * The kernel has CONFIG_MEMCG. It reports in its log that it kills a process (run --expect oom).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "event.h"
#include "file.h"
#include "fixture.h"
#include "memory.h"
#include "rights.h"
#include "target.h"

#define ROOT		"/tmp/cgroup"
#define USER		ROOT "/user"
#define OTHER		ROOT "/other"
#define UID		1000
#define FILES		20000
#define EVENTS		4000
#define N		100000UL

/* The number of events of one cgroup, which may have 1024 events at most. */
#define EVENTS_OF_ONE	400

FIXTURE(memory)
{
	int paranoid;		/* perf_event_paranoid before the test */
	struct target target;	/* a task in OTHER */
	pid_t user;		/* a process in USER */
	int ready[2];		/* pipe from the process */
	int start_pipe[2];	/* pipe to the process */
};

static int open_event(const char *path)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	return event_open_of_cgroup(&event_maker_perfmon, attr, path, -1);
}

static long long charged_bytes(void)
{
	return read_number(USER "/memory.current");
}

/* Removes the cgroups that the user's process has made. */
static void remove_cgroups(void)
{
	char path[64];
	int i;

	for (i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), USER "/%d", i);
		if (rmdir(path) && errno == ENOENT)
			break;
	}
}

FIXTURE_SETUP(memory)
{
	const struct rlimit files = { FILES, FILES };

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	self->paranoid = paranoid_read();
	ASSERT_EQ(0, paranoid_write(-1));
	/* The files of the device and of the cgroups belong to root. */
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	mkdir(ROOT, 0755);
	ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
	ASSERT_EQ(0, write_file(ROOT "/cgroup.subtree_control", "+memory"));
	ASSERT_EQ(0, mkdir(USER, 0755));
	ASSERT_EQ(0, chown(USER, UID, UID));
	ASSERT_EQ(0, mkdir(OTHER, 0755));
	ASSERT_EQ(0, target_start(&self->target, -1, false));
}

FIXTURE_TEARDOWN(memory)
{
	if (self->user > 0) {
		kill(self->user, SIGKILL);
		waitpid(self->user, NULL, 0);
	}
	target_kill(&self->target);
	remove_cgroups();
	rmdir(USER);
	rmdir(OTHER);
	umount(ROOT);
	chmod(_PATH_PERFMON, 0600);
	paranoid_write(self->paranoid);
}

/* Opens @count events of cgroups that this process makes. Returns 0 or a negative errno. */
static int open_events(int count)
{
	char path[64];
	int i, fd;

	for (i = 0; i < count; i++) {
		snprintf(path, sizeof(path), USER "/%d", i / EVENTS_OF_ONE);
		if (i % EVENTS_OF_ONE == 0 && mkdir(path, 0755))
			return -errno;
		fd = open_event(path);
		if (fd < 0)
			return fd;
	}
	return 0;
}

/*
 * Starts a process of the user's, which waits for a byte in @start_pipe, opens @count events, and
 * waits for ever.
 */
static void start_user(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self, int count)
{
	int result = 0;
	char byte;

	ASSERT_EQ(0, pipe(self->ready));
	ASSERT_EQ(0, pipe(self->start_pipe));
	self->user = fork();
	ASSERT_LE(0, self->user);
	if (self->user)
		return;
	/* The signal at the parent's death is set last, because a change of the user resets it. */
	if (write_file(USER "/cgroup.procs", "0") || become_user(UID, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    write(self->ready[1], &result, sizeof(result)) < 0 ||
	    read(self->start_pipe[0], &byte, 1) != 1)
		_exit(1);
	result = open_events(count);
	if (write(self->ready[1], &result, sizeof(result)) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* Waits for the user's process. Returns 0 or the error of its calls. */
static int wait_for_user(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self)
{
	int result = -EIO;

	EXPECT_EQ((ssize_t)sizeof(result), read(self->ready[0], &result, sizeof(result)));
	return result;
}

TEST_F(memory, memory_of_events_is_charged_to_the_user)
{
	long long before, after;
	long slab;

	start_user(_metadata, self, EVENTS);
	ASSERT_EQ(0, wait_for_user(_metadata, self));
	slab = memory_slab_kb();
	before = charged_bytes();
	ASSERT_EQ(1, write(self->start_pipe[1], "", 1));
	ASSERT_EQ(0, wait_for_user(_metadata, self));
	slab = memory_slab_kb() - slab;
	after = charged_bytes();
	TH_LOG("%d events: the user is charged for %lld bytes each; the slabs have %ld more",
	       EVENTS, (after - before) / EVENTS, slab * 1024 / EVENTS);
	/* Expects at least a page for ten events. Nearly all memory is charged. */
	EXPECT_LT(EVENTS * 400LL, after - before);
	EXPECT_LT(slab * 1024 * 9 / 10, after - before);
	kill(self->user, SIGKILL);
	ASSERT_EQ(self->user, waitpid(self->user, NULL, 0));
	self->user = 0;
}

/* The user's process has no memory for so many events. */
TEST_F(memory, user_without_memory_does_not_disturb_others)
{
	const struct job job = { .n = N, .pieces = 1 };
	struct perf_event_attr attr = event_instructions();
	int cgroup, task, status, result = 0, jobs = 0;
	char limit[32], number[16];
	__s64 before, expected;
	bool is_over;

	attr.disabled = 0;
	snprintf(number, sizeof(number), "%d", self->target.pid);
	ASSERT_EQ(0, write_file(OTHER "/cgroup.procs", number));
	cgroup = open_event(OTHER);
	ASSERT_LE(0, cgroup);
	task = event_maker_perfmon.open(&attr, self->target.tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, task);
	ASSERT_EQ(0, target_run_job(&self->target, job));
	expected = event_count(cgroup);
	start_user(_metadata, self, FILES);
	ASSERT_EQ(0, wait_for_user(_metadata, self));
	ASSERT_EQ(0, fcntl(self->ready[0], F_SETFL, O_NONBLOCK));
	snprintf(limit, sizeof(limit), "%lld", charged_bytes() + 4 * 1024 * 1024);
	ASSERT_EQ(0, write_file(USER "/memory.max", limit));
	ASSERT_EQ(1, write(self->start_pipe[1], "", 1));
	do {
		/* The loop ends with a job that runs after the end of the user's process. */
		is_over = waitpid(self->user, &status, WNOHANG) == self->user;
		if (!is_over && read(self->ready[0], &result, sizeof(result)) > 0)
			kill(self->user, SIGKILL);
		before = event_count(cgroup);
		ASSERT_EQ(0, target_run_job(&self->target, job));
		ASSERT_EQ(expected, event_count(cgroup) - before);
		ASSERT_EQ(event_count(task), event_count(cgroup));
		jobs += !is_over;
	} while (!is_over);
	self->user = 0;
	/* If the process has reported no result, the kernel must have killed it. */
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	if (result)
		EXPECT_EQ(-ENOMEM, result);
	TH_LOG("the user's process %s; %d jobs of the other task meanwhile",
	       result ? "had no memory" : "was killed", jobs);
	close(task);
	close(cgroup);
}

TEST_HARNESS_MAIN
