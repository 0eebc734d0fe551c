// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of tasks in another PID namespace: records have the IDs in the opener's namespace. A module
 * that was loaded in such a namespace gives all users the same rights.
 */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define PERIOD	10007UL
#define PERIODS	20
/* The loops end in the middle of a period, so no sample is taken after the loops. */
#define LOOPS	((2 * PERIODS + 1) * PERIOD / 2 / LOOP_INSNS)
#define ORDER	4

#include "sampler_fixture.h"

/* Forks the first process of a new PID namespace. It starts after a byte to @start_pipe. */
static pid_t fork_first(struct __test_metadata *_metadata, int *start_pipe)
{
	pid_t pid;

	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	pid = fork_waiting(start_pipe);
	ASSERT_LE(0, pid);
	return pid;
}

/* Lets the process start, and expects that its exit code is 0. */
static void expect_success(struct __test_metadata *_metadata, pid_t pid, int start_pipe)
{
	int status;

	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* perf's fdinfo has no pid. */
TEST_F(event, fdinfo_has_the_pid_in_the_openers_namespace)
{
	pid_t pid;
	int start_pipe;

	if (variant->maker == &event_maker_perf)
		return;
	pid = fork_first(_metadata, &start_pipe);
	if (!pid) {
		int fd = event_open_instructions(variant->maker, 0);
		pid_t child;

		if (getpid() != 1 || event_fdinfo_number(fd, "pid") != 1)
			_exit(1);
		/* fdinfo has the same PID after the opener's own PID has become invalid. */
		child = fork_waiting(&start_pipe);
		fd = event_open_instructions(variant->maker, child);
		close(start_pipe);
		_exit(waitpid(child, NULL, 0) != child || event_fdinfo_number(fd, "pid") != child);
	}
	expect_success(_metadata, pid, start_pipe);
}

/* The expected IDs in samples and records, and the numbers of right and wrong IDs. */
struct id_findings {
	__u32 pid, tid;
	unsigned long right, wrong;
};

static void check_numbers(const struct sample *s, void *data)
{
	struct id_findings *n = data;

	if (s->pid == n->pid && s->tid == n->tid)
		n->right++;
	else
		n->wrong++;
}

static struct perf_event_attr with_names(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.comm = 1;
	attr.sample_id_all = 1;
	return attr;
}

static void make_records(void)
{
	labelled_loop(LOOPS);
	prctl(PR_SET_NAME, "renamed");
}

/*
 * Reads the samples and the record of the name. Returns whether all of them have the IDs @pid and
 * @tid. perf also writes a record of the exit.
 */
static bool have_numbers(struct sampler *s, __u32 pid, __u32 tid)
{
	struct id_findings n = { .pid = pid, .tid = tid };
	unsigned int names = 0;
	struct sample part;

	while (event_ring_next(&s->ring, &s->record)) {
		switch (s->record.header.type) {
		case PERF_RECORD_SAMPLE:
			if (!sample_parse(&s->record, &s->parts, &part))
				return false;
			check_numbers(&part, &n);
			break;
		case PERF_RECORD_COMM:
			names++;
			if (s->record.words[0] != (pid | (__u64)tid << 32) ||
			    !sample_parse_trailer(&s->record, s->parts.type, &part) ||
			    part.pid != pid || part.tid != tid)
				return false;
		}
	}
	return n.right == PERIODS && !n.wrong && names == 1;
}

TEST_F(event, self_sampling_task_has_its_own_pid)
{
	struct perf_event_attr attr = with_names();
	struct sampler *s = &self->sampler;
	pid_t pid;
	int start_pipe;

	pid = fork_first(_metadata, &start_pipe);
	if (!pid) {
		if (getpid() != 1 || sampler_open(s, variant->maker, &attr, 0, -1, ORDER) ||
		    event_enable(s->fd))
			_exit(1);
		make_records();
		event_disable(s->fd);
		_exit(have_numbers(s, 1, 1) ? 0 : 2);
	}
	expect_success(_metadata, pid, start_pipe);
}

TEST_F(event, outer_opener_sees_pids_of_its_own_namespace)
{
	struct perf_event_attr attr = with_names();
	struct sampler *s = &self->sampler;
	pid_t pid;
	int start_pipe;

	pid = fork_first(_metadata, &start_pipe);
	if (!pid) {
		make_records();
		_exit(getpid() != 1);
	}
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, pid, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	expect_success(_metadata, pid, start_pipe);
	EXPECT_TRUE(have_numbers(s, pid, pid));
}

/* An event of a CPU samples tasks that have no id in the opener's namespace. */
TEST_F(event, tasks_outside_of_the_namespace_have_pid_zero)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct target *t = &self->target;
	struct sampler *s = &self->sampler;
	struct id_findings n = { .pid = 0, .tid = 0 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int start_pipe, cpu;
	long switches;
	pid_t pid;

	cpu = pin_to_first_cpu();
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, target_start(t, cpu, false));
	switches = target_switches(t);
	pid = fork_first(_metadata, &start_pipe);
	if (!pid) {
		if (sampler_open(s, variant->maker, &attr, -1, cpu, ORDER) || event_enable(s->fd) ||
		    target_run_job(t, (struct job) { LOOPS, 1, STEP_NONE }) || event_disable(s->fd))
			_exit(1);
		sampler_read(s, &sums, check_numbers, &n);
		/*
		 * Other samples are of this process, or of a process that is exiting. Each time
		 * such a process has run in the middle of the loop, it may have taken a sample of
		 * the target.
		 */
		switches = target_switches(t) - switches;
		_exit(n.right + switches >= PERIODS && n.right > n.wrong && !sums.malformed ?
		      0 : 2);
	}
	expect_success(_metadata, pid, start_pipe);
}

#define USER	1000

/* Loads the module anew in a PID namespace, which ends then. */
static bool reload_in_namespace(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(1);
		pid = fork();
		if (!pid)
			_exit(module_reload("") ? 2 : 0);
		_exit(waitpid(pid, &status, 0) == pid && !status ? 0 : 3);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

/* A container may have loaded the driver. Users outside of the container can count nevertheless. */
TEST_F(event, user_may_count_a_child_if_a_container_has_loaded_the_module)
{
	int start_pipe, fd, status;
	pid_t pid, child;

	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_TRUE(reload_in_namespace());
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (become_user(USER, 0))
			_exit(1);
		/* setuid(2) clears the dumpable flag. */
		prctl(PR_SET_DUMPABLE, 1);
		child = fork_waiting(&start_pipe);
		if (!child)
			_exit(0);
		fd = event_open_instructions(variant->maker, child);
		close(start_pipe);
		waitpid(child, NULL, 0);
		_exit(fd < 0 ? -fd : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status) {
		TH_LOG("%s", strerror(WEXITSTATUS(status)));
	}
	EXPECT_EQ(0, module_reload(""));
}

TEST_HARNESS_MAIN
