// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of tasks that exit or execute a program: a task, one of several threads, a program with
 * other credentials. poll(2) reports the end. Events outlive the descriptor of the device and the
 * process that opened them, and keep the module loaded.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "target.h"

#define N		1000000UL
#define NOBODY		65534
#define PROGRAM		"/usr/lib/perfmon/pmctl_loop"
#define SETUID_PROGRAM	"/tmp/event_lifetime_setuid"
#define LIMIT_MS	60000	/* much longer than needed */

/* Arguments of the program, which executes the same instructions around both loops. */
static const char *const argument[] = { "0000001", "1000000" };

FIXTURE(event)
{
	struct target target;
	int fd;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->fd = -1;
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	close(self->fd);
	unlink(SETUID_PROGRAM);
	restore_maker(_metadata, variant);
}

/* Runs a job after which the target exits. Returns its count. */
static __s64 count_until_exit(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			      const struct event_maker *maker, unsigned long n, bool threaded)
{
	__s64 value;

	ASSERT_EQ(0, target_start(&self->target, -1, threaded));
	self->fd = open_instructions(_metadata, maker, self->target.tid);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { n, 1, STEP_EXIT }));
	value = event_count(self->fd);
	target_kill(&self->target);
	EXPECT_EQ(value, event_count(self->fd));
	return value;
}

/*
 * As soon as a program can see that the task has exited, the count includes the task's last
 * instructions.
 */
TEST_F(event, count_is_complete_when_the_task_has_exited)
{
	__s64 value[2];
	int threaded;

	for (threaded = 0; threaded < 2; threaded++) {
		value[0] = count_until_exit(_metadata, self, variant->maker, 1, threaded);
		close(self->fd);
		value[1] = count_until_exit(_metadata, self, variant->maker, N, threaded);
		EXPECT_EQ(value[0] + (__s64)(LOOP_INSNS * (N - 1)), value[1]);
		close(self->fd);
	}
	self->fd = -1;
}

TEST_F(event, calls_work_after_the_task_has_exited)
{
	EXPECT_LT(0, count_until_exit(_metadata, self, variant->maker, N, false));
	EXPECT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(0, event_enable(self->fd));
	EXPECT_NE(0ULL, event_id(self->fd));
	EXPECT_LT(0, event_count(self->fd));
	EXPECT_EQ(0, event_reset(self->fd));
	EXPECT_EQ(0, event_count(self->fd));
}

static void run_program(const char *n)
{
	pid_t pid = vfork();

	if (!pid) {
		execl(PROGRAM, PROGRAM, n, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

/* When wait(2) returns, the parent's event has the counts of its children. */
TEST_F(event, inherited_count_is_complete_after_wait)
{
	struct perf_event_attr attr = event_instructions();
	__s64 value[2], before;
	int i, k;

	attr.inherit = 1;
	self->fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	for (i = 0; i < 2; i++) {
		before = event_count(self->fd);
		ASSERT_EQ(0, event_enable(self->fd));
		for (k = 0; k < 20; k++)
			run_program(argument[i]);
		ASSERT_EQ(0, event_disable(self->fd));
		value[i] = event_count(self->fd) - before;
	}
	EXPECT_EQ(value[0] + 20 * (__s64)(LOOP_INSNS * (N - 1)), value[1]);
}

/* A process whose children start and exit on all CPUs, until it is asked to exit. */
static void begin_and_end_children(int start_pipe)
{
	int i, pending = 0;
	char c;

	if (read(start_pipe, &c, 1) != 1)
		_exit(1);
	for (i = 0; i < 200; i++) {
		if (!fork()) {
			loop(N / 100);
			_exit(0);
		}
		if (++pending == 8) {
			wait(NULL);
			pending--;
		}
	}
	while (wait(NULL) > 0)
		;
	_exit(0);
}

/*
 * Reads while tasks that inherit the event start, move and exit. No sum is less than the sum
 * before. At the end, each count has been added exactly once. A sibling that is not read during the
 * test has the same sum.
 */
TEST_F(event, reads_do_not_disturb_the_sum_of_children)
{
	struct perf_event_attr attr = event_instructions();
	__s64 before = 0, value;
	int fd, start_pipe[2], reads = 0;
	char c = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(start_pipe));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		begin_and_end_children(start_pipe[0]);
	attr.inherit = 1;
	self->fd = variant->maker->open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	attr.disabled = 0;
	fd = variant->maker->open(&attr, pid, -1, self->fd, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(1, write(start_pipe[1], &c, 1));
	while (!waitpid(pid, NULL, WNOHANG)) {
		value = event_count(self->fd);
		ASSERT_LE(before, value);
		before = value;
		reads++;
	}
	value = event_count(self->fd);
	EXPECT_LE(before, value);
	EXPECT_LT(200 * (__s64)(LOOP_INSNS * (N / 100)), value);
	EXPECT_EQ(event_count(fd), value) {
		TH_LOG("after %d reads", reads);
	}
	close(fd);
	close(start_pipe[0]);
	close(start_pipe[1]);
}

/* Without inherit, an event does not count children. */
TEST_F(event, children_are_not_counted_without_inherit)
{
	int status;
	pid_t pid;

	self->fd = open_instructions(_metadata, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		loop(20 * N);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_LT(0, event_count(self->fd));
	EXPECT_GT((__s64)(LOOP_INSNS * N), event_count(self->fd));
}

/* The event also counts the program that its task executes. */
TEST_F(event, event_continues_over_exec)
{
	__s64 value[2];
	int i, start_pipe;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		pid = fork_waiting(&start_pipe);
		ASSERT_LE(0, pid);
		if (!pid) {
			execl(PROGRAM, PROGRAM, argument[i], NULL);
			_exit(127);
		}
		ASSERT_EQ(0, wait_until_asleep(pid));
		self->fd = open_instructions(_metadata, variant->maker, pid);
		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(1, write(start_pipe, "", 1));
		close(start_pipe);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		value[i] = event_count(self->fd);
		close(self->fd);
	}
	self->fd = -1;
	EXPECT_EQ(value[0] + (__s64)(LOOP_INSNS * (N - 1)), value[1]);
}

/*
 * With remove_on_exec the event ends at exec, and keeps its count. The same holds for events
 * that a child has inherited.
 */
TEST_F(event, exec_removes_the_event)
{
	struct perf_event_attr attr = event_instructions();
	struct pollfd end = { .events = POLLIN };
	__s64 count, least;
	int inherited;

	attr.disabled = 0;
	attr.remove_on_exec = 1;
	for (inherited = 0; inherited < 2; inherited++) {
		int start_pipe;
		pid_t pid = fork_waiting(&start_pipe);

		ASSERT_LE(0, pid);
		if (!pid && !inherited) {
			loop(N);
			execl(PROGRAM, PROGRAM, argument[1], NULL);
			_exit(127);
		} else if (!pid) {
			run_program(argument[1]);
			loop(N);
			_exit(0);
		}
		ASSERT_EQ(0, wait_until_asleep(pid));
		attr.inherit = inherited;
		self->fd = variant->maker->open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(1, write(start_pipe, "", 1));
		close(start_pipe);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		count = event_count(self->fd);
		/*
		 * The event has counted the loop before the exec, and not the loop of the new
		 * program.
		 */
		least = LOOP_INSNS * (__s64)N;
		EXPECT_LE(least, count);
		EXPECT_GT(least + least / 2, count);
		end.fd = self->fd;
		EXPECT_EQ(1, poll(&end, 1, 0));
		EXPECT_TRUE(end.revents & POLLHUP);
		close(self->fd);
	}
	self->fd = -1;
}

/* A process whose second thread executes a program on request. */
static struct {
	int start_pipe[2], tid[2];
	const char *n;
} threads;

static void *exec_on_request(void *unused)
{
	pid_t tid = gettid();
	char byte;

	(void)unused;
	if (write(threads.tid[1], &tid, sizeof(tid)) == sizeof(tid) &&
	    read(threads.start_pipe[0], &byte, 1) == 1)
		execl(PROGRAM, PROGRAM, threads.n, NULL);
	_exit(127);
}

/* Starts the process and its second thread, which sleep. */
static void start_threads(struct __test_metadata *_metadata, const char *n, pid_t *pid,
			  pid_t *tid)
{
	pthread_t thread;

	threads.n = n;
	ASSERT_EQ(0, pipe2(threads.start_pipe, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(threads.tid, O_CLOEXEC));
	*pid = fork();
	ASSERT_LE(0, *pid);
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, exec_on_request, NULL))
			_exit(1);
		for (;;)
			pause();
	}
	ASSERT_EQ((ssize_t)sizeof(*tid), read(threads.tid[0], tid, sizeof(*tid)));
	ASSERT_EQ(0, wait_until_asleep(*pid));
	ASSERT_EQ(0, wait_until_asleep(*tid));
}

/*
 * When a thread executes a program, the leader of its process exits, and the thread gets the
 * leader's ID. The event stays with the thread.
 */
TEST_F(event, event_stays_with_the_thread_that_executes)
{
	__s64 value[2][2];
	pid_t pid, tid;
	int i, leader;

	for (i = 0; i < 2; i++) {
		start_threads(_metadata, argument[i], &pid, &tid);
		leader = open_instructions(_metadata, variant->maker, pid);
		self->fd = open_instructions(_metadata, variant->maker, tid);
		ASSERT_EQ(0, event_enable(leader));
		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(1, write(threads.start_pipe[1], "", 1));
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		value[i][0] = event_count(leader);
		value[i][1] = event_count(self->fd);
		close(leader);
		close(self->fd);
		close(threads.start_pipe[0]);
		close(threads.start_pipe[1]);
		close(threads.tid[0]);
		close(threads.tid[1]);
	}
	self->fd = -1;
	EXPECT_EQ(0, value[0][0]);
	EXPECT_EQ(0, value[1][0]);
	EXPECT_LE((__s64)LOOP_INSNS, value[0][1]);
	EXPECT_EQ(value[0][1] + (__s64)(LOOP_INSNS * (N - 1)), value[1][1]);
}

/*
 * Counts a child that executes @program as user @uid without rights. Stores in @uncounted the
 * number of tasks that the event no longer counts, from fdinfo.
 */
static __s64 count_program(const struct event_maker *maker, const char *program, unsigned int uid,
			   __s64 *uncounted)
{
	struct perf_event_attr attr = event_instructions();
	int start_pipe, fd;
	pid_t pid;

	attr.disabled = 0;
	if (become_user(uid, 0) || prctl(PR_SET_DUMPABLE, 1))
		return -errno;
	pid = fork_waiting(&start_pipe);
	if (!pid) {
		execl(program, program, argument[1], NULL);
		_exit(127);
	}
	fd = maker->open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	if (write(start_pipe, "", 1) != 1 || waitpid(pid, NULL, 0) != pid)
		return -errno;
	*uncounted = event_fdinfo_number(fd, "left");
	return event_count(fd);
}

static __s64 count_program_as(struct __test_metadata *_metadata, const struct event_maker *maker,
			      const char *program, unsigned int uid, __s64 uncounted)
{
	__s64 *result = map_shared(_metadata, 2 * sizeof(*result)), value;
	int paranoid = paranoid_read();
	pid_t pid;

	ASSERT_EQ(0, paranoid_write(2));
	/* The device belongs to root after the module is loaded. */
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	pid = fork();
	if (!pid) {
		result[0] = count_program(maker, program, uid, &result[1]);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	value = result[0];
	/* Only the module's fdinfo has the number of uncounted tasks. */
	if (maker != &event_maker_perf)
		EXPECT_EQ(uncounted, result[1]);
	munmap(result, 2 * sizeof(*result));
	EXPECT_EQ(0, paranoid_write(paranoid));
	EXPECT_EQ(0, chmod(_PATH_PERFMON, 0600));
	return value;
}

static void copy_program(struct __test_metadata *_metadata, mode_t mode)
{
	char command[128];

	snprintf(command, sizeof(command), "cp %s %s", PROGRAM, SETUID_PROGRAM);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(SETUID_PROGRAM, mode));
}

/* A user may not count a program with other credentials. */
TEST_F(event, exec_of_a_setuid_program_ends_the_event)
{
	__s64 value;

	copy_program(_metadata, 0755);
	value = count_program_as(_metadata, variant->maker, SETUID_PROGRAM, NOBODY, 0);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	copy_program(_metadata, 04755);
	value = count_program_as(_metadata, variant->maker, SETUID_PROGRAM, NOBODY, 1);
	EXPECT_LT(0, value);
	EXPECT_GT((__s64)(LOOP_INSNS * N), value);
	/* A user may not count a program without permission to read it. */
	copy_program(_metadata, 0711);
	value = count_program_as(_metadata, variant->maker, SETUID_PROGRAM, NOBODY, 1);
	EXPECT_LT(0, value);
	EXPECT_GT((__s64)(LOOP_INSNS * N), value);
}

/* Root without capabilities may not count a program, because exec gives it all capabilities. */
TEST_F(event, exec_that_regains_capabilities_ends_the_event)
{
	__s64 value = count_program_as(_metadata, variant->maker, PROGRAM, 0, 1);

	EXPECT_LT(0, value);
	EXPECT_GT((__s64)(LOOP_INSNS * N), value);
}

/* Maps the page of the event, because poll(2) of an event of perf without a page does not wait. */
static void map_page(struct __test_metadata *_metadata, const struct event_maker *maker, int fd)
{
	if (!maker->polls_pages_only)
		return;
	ASSERT_NE(MAP_FAILED, mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0));
}

/* Returns the events that poll(2) reports within @ms. */
static int poll_event(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, ms);

	return n < 0 ? -errno : n ? p.revents : 0;
}

TEST_F(event, poll_reports_the_exit_of_the_task)
{
	pid_t pid;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->fd = open_instructions(_metadata, variant->maker, self->target.tid);
	map_page(_metadata, variant->maker, self->fd);
	EXPECT_EQ(0, poll_event(self->fd, 0));
	ASSERT_EQ(0, event_enable(self->fd));
	EXPECT_EQ(0, poll_event(self->fd, 20));

	/* poll(2) wakes up when the task exits. */
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		usleep(50000);
		kill(self->target.pid, SIGKILL);
		_exit(0);
	}
	EXPECT_EQ(POLLHUP, poll_event(self->fd, LIMIT_MS));
	EXPECT_EQ(POLLHUP, poll_event(self->fd, 0));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
}

/*
 * poll(2) reports the exit when all tasks that inherit the event have exited. An inherited
 * event can have a page only on one CPU.
 */
TEST_F(event, poll_waits_for_inheriting_tasks)
{
	struct perf_event_attr attr = event_instructions();
	int hold[2], start_pipe, status, cpu = pin_to_first_cpu();
	pid_t parent;
	char byte;

	ASSERT_LE(0, cpu);
	attr.inherit = 1;
	ASSERT_EQ(0, pipe2(hold, O_CLOEXEC));
	parent = fork_waiting(&start_pipe);
	ASSERT_LE(0, parent);
	if (!parent) {
		close(hold[1]);
		if (!fork())
			_exit(read(hold[0], &byte, 1));
		_exit(0);
	}
	self->fd = variant->maker->open(&attr, parent, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	map_page(_metadata, variant->maker, self->fd);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(parent, waitpid(parent, &status, 0));
	EXPECT_EQ(0, poll_event(self->fd, 50));
	close(hold[1]);
	EXPECT_EQ(POLLHUP, poll_event(self->fd, LIMIT_MS));
	close(hold[0]);
}

/* The descriptor keeps the event when its opener has exited. */
TEST_F(event, event_outlives_its_opener)
{
	__s64 value;
	int i, start_pipe;
	pid_t pid;
	char byte;

	/* A child that shares the descriptor table opens the event. */
	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->fd = open_instructions(_metadata, variant->maker, self->target.tid);
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(event_enable(self->fd) || event_count(self->fd));
	close(self->fd);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	ASSERT_EQ(pid, waitpid(pid, &i, 0));
	EXPECT_EQ(0, i);
	close(start_pipe);

	/* Then a child that has the last descriptor counts its parent. */
	self->fd = open_instructions(_metadata, variant->maker, self->target.tid);
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid) {
		value = event_count(self->fd);
		_exit(value >= (__s64)(LOOP_INSNS * N) ? 0 : 1);
	}
	ASSERT_EQ(0, event_enable(self->fd));
	close(self->fd);
	self->fd = -1;
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	ASSERT_EQ(1, write(start_pipe, &byte, 1));
	ASSERT_EQ(pid, waitpid(pid, &i, 0));
	EXPECT_EQ(0, i);
	close(start_pipe);
}

/*
 * The fdinfo of both makers has the type and the config. The module's also has the counter, the
 * tasks and more.
 */
TEST_F(event, fdinfo_describes_the_event)
{
	self->fd = open_instructions(_metadata, variant->maker, 0);
	if (variant->maker == &event_maker_perf) {
		EXPECT_EQ(PERF_TYPE_HARDWARE, event_fdinfo_number(self->fd, "perf_event_attr.type"));
		EXPECT_EQ(PERF_COUNT_HW_INSTRUCTIONS,
			  event_fdinfo_number(self->fd, "perf_event_attr.config"));
	} else {
		EXPECT_EQ((long long)event_id(self->fd),
			  event_fdinfo_number(self->fd, "perfmon-event"));
		EXPECT_EQ(getpid(), event_fdinfo_number(self->fd, "pid"));
		EXPECT_EQ(-1, event_fdinfo_number(self->fd, "cpu"));
		EXPECT_EQ(0, event_fdinfo_number(self->fd, "inherit"));
		EXPECT_EQ(0, event_fdinfo_number(self->fd, "enabled"));
		ASSERT_EQ(0, event_enable(self->fd));
		EXPECT_EQ(1, event_fdinfo_number(self->fd, "enabled"));
		EXPECT_LE(0, event_fdinfo_number(self->fd, "counter"));
		EXPECT_LE(0, event_fdinfo_number(self->fd, "select"));
	}
}

TEST(module_stays_while_an_event_lives)
{
	int fd, start_pipe, status;
	pid_t pid;

	SKIP_WITHOUT_PMU();
	fd = open_instructions(_metadata, &event_maker_perfmon, 0);
	EXPECT_EQ(-EAGAIN, module_unload());
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(0);
	close(fd);
	EXPECT_EQ(-EAGAIN, module_unload());
	ASSERT_EQ(1, write(start_pipe, "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, module_unload());
	EXPECT_EQ(0, module_load());
	close(start_pipe);
}

TEST_HARNESS_MAIN
