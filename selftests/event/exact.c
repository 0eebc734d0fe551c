// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact counts of one task: of the test itself, another process or a thread; and the effect of
 * each ioctl on the count.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "target.h"

#define N	1000000UL

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
	prepare_maker(_metadata, variant);
	self->fd = open_instructions(_metadata, variant->maker, 0);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	close(self->fd);
	restore_maker(_metadata, variant);
}

TEST_F(event, open_leaves_a_disabled_event_at_zero)
{
	loop(N);
	EXPECT_EQ(0, event_count(self->fd));
}

TEST_F(event, event_counts_each_instruction_of_the_loop)
{
	__s64 overhead = event_loop_count(self->fd, 1) - (__s64)LOOP_INSNS;
	int i;

	EXPECT_LE(0, overhead);
	EXPECT_GE(CALL_OVERHEAD, overhead);
	for (i = 1; i <= 16; i *= 2) {
		ASSERT_EQ((__s64)(LOOP_INSNS * N * i) + overhead,
			  event_loop_count(self->fd, N * i));
	}
}

/* Many short loops together make narrow counters overflow. */
TEST_F(event, short_counts_are_exact_too)
{
	__s64 overhead = event_loop_count(self->fd, 1) - (__s64)LOOP_INSNS;
	unsigned long n;

	for (n = 2; n < 2000; n++) {
		ASSERT_EQ((__s64)(LOOP_INSNS * n) + overhead,
			  event_loop_count(self->fd, n));
	}
}

TEST_F(event, disable_keeps_the_count)
{
	__s64 value;

	ASSERT_LT(0, event_loop_count(self->fd, N));
	value = event_count(self->fd);
	loop(N);
	EXPECT_EQ(value, event_count(self->fd));
	EXPECT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(value, event_count(self->fd));
}

TEST_F(event, enable_continues_from_the_old_count)
{
	__s64 each = event_loop_count(self->fd, N);

	loop(N);
	EXPECT_EQ(each, event_loop_count(self->fd, N));
	EXPECT_EQ(2 * each, event_count(self->fd));
}

TEST_F(event, enable_when_enabled_has_no_effect)
{
	__s64 value;

	ASSERT_EQ(0, event_enable(self->fd));
	loop(N);
	EXPECT_LE(0, event_loop_count(self->fd, N));
	value = event_count(self->fd);
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + 3 * CALL_OVERHEAD, value);
}

TEST_F(event, read_while_it_counts_gives_the_present_count)
{
	__s64 first;
	int i;

	ASSERT_EQ(0, event_enable(self->fd));
	first = event_loop_count_running(self->fd, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), first);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	for (i = 0; i < 100; i++)
		ASSERT_EQ(first, event_loop_count_running(self->fd, N));
}

TEST_F(event, reset_zeroes_and_continues)
{
	__s64 value;

	EXPECT_LT(0, event_loop_count(self->fd, N));
	EXPECT_EQ(0, event_reset(self->fd));
	EXPECT_EQ(0, event_count(self->fd));

	ASSERT_EQ(0, event_enable(self->fd));
	loop(3 * N);
	ASSERT_EQ(0, event_reset(self->fd));
	loop(N);
	value = event_count(self->fd);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, value);
}

TEST_F(event, two_events_count_the_same)
{
	int other = open_instructions(_metadata, variant->maker, 0);
	__s64 value[2], other_value[2];
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, event_enable(other));
		value[i] = event_loop_count(self->fd, i ? N : 1);
		ASSERT_EQ(0, event_disable(other));
		other_value[i] = event_count(other);
	}
	EXPECT_EQ((__s64)(LOOP_INSNS * (N - 1)), value[1] - value[0]);
	EXPECT_EQ(other_value[0] + value[1] - value[0], other_value[1] - other_value[0]);
	close(other);
}

/*
 * The loop of the task is in user mode. The number of instructions in the kernel, for interrupts
 * and system calls, depends on the host. The event of both modes is enabled before the others, and
 * disabled after them.
 */
TEST_F(event, modes_are_counted_apart)
{
	const __s64 insns = 20 * LOOP_INSNS * N;
	struct perf_event_attr attr = event_instructions();
	__s64 user, kernel, both;
	int fd[2];

	attr.exclude_user = 1;
	attr.exclude_kernel = 0;
	fd[0] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd[0]);
	attr.exclude_user = 0;
	fd[1] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd[1]);

	ASSERT_EQ(0, event_enable(fd[1]));
	ASSERT_EQ(0, event_enable(fd[0]));
	user = event_loop_count(self->fd, 20 * N);
	ASSERT_EQ(0, event_disable(fd[0]));
	ASSERT_EQ(0, event_disable(fd[1]));
	kernel = event_count(fd[0]);
	both = event_count(fd[1]);
	EXPECT_LE(insns, user);
	EXPECT_GE(insns + CALL_OVERHEAD, user);
	EXPECT_LT(0, kernel);
	EXPECT_GT(insns / 2, llabs(both - user - kernel)) {
		TH_LOG("user %lld, kernel %lld, both %lld", user, kernel, both);
	}
	EXPECT_LT(user + kernel / 2, both);
	close(fd[0]);
	close(fd[1]);
}

/* Counts two jobs of the target, which differ by a known number of instructions. */
static void expect_exact(struct __test_metadata *_metadata, int fd, struct target *t,
			 struct job job)
{
	struct job least = job;
	__s64 value[3];

	least.n = 1;
	value[0] = event_count(fd);
	ASSERT_EQ(0, target_run_job(t, least));
	value[1] = event_count(fd);
	ASSERT_EQ(0, target_run_job(t, job));
	value[2] = event_count(fd);
	EXPECT_EQ(value[1] - value[0] + (__s64)(LOOP_INSNS * (job.n - 1) * job.pieces),
		  value[2] - value[1]);
}

static void expect_target_exact(struct __test_metadata *_metadata,
				const FIXTURE_VARIANT(event) *variant,
				struct target *target, bool threaded)
{
	int fd;

	ASSERT_EQ(0, target_start(target, -1, threaded));
	fd = open_instructions(_metadata, variant->maker, target->tid);
	ASSERT_EQ(0, target_run_job(target, (struct job) { N, 1, STEP_NONE }));
	EXPECT_EQ(0, event_count(fd));
	ASSERT_EQ(0, event_enable(fd));
	expect_exact(_metadata, fd, target, (struct job) { N, 1, STEP_NONE });
	expect_exact(_metadata, fd, target, (struct job) { 10 * N, 1, STEP_NONE });
	expect_exact(_metadata, fd, target, (struct job) { 999, 1000, STEP_YIELD });
	expect_exact(_metadata, fd, target, (struct job) { 999, 1000, STEP_MOVE });
	close(fd);
}

TEST_F(event, another_process_is_counted)
{
	expect_target_exact(_metadata, variant, &self->target, false);
}

TEST_F(event, thread_of_another_process_is_counted)
{
	expect_target_exact(_metadata, variant, &self->target, true);
}

/* An event of the first thread does not count the process's other threads. */
TEST_F(event, other_threads_are_not_counted)
{
	int fd;

	ASSERT_EQ(0, target_start(&self->target, -1, true));
	/* The first thread sleeps while the second thread works. */
	ASSERT_EQ(0, wait_until_asleep(self->target.pid));
	fd = open_instructions(_metadata, variant->maker, self->target.pid);
	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	EXPECT_EQ(0, event_count(fd));
	close(fd);
}

/*
 * Disables and enables an event again and again while the task executes. Another event counts the
 * whole job.
 */
TEST_F(event, enable_and_disable_while_another_cpu_executes)
{
	__s64 parts = 0, part, whole;
	int fd[2], i, times = 0;
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, pin_to_first_cpu() < 0);
	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (i = 0; i < 2; i++)
		fd[i] = open_instructions(_metadata, variant->maker, self->target.tid);
	ASSERT_EQ(0, event_enable(fd[0]));
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { N, 40, STEP_MOVE }));
	while (!target_is_done(&self->target)) {
		ASSERT_EQ(0, event_enable(fd[1]));
		ASSERT_EQ(0, event_disable(fd[1]));
		part = event_count(fd[1]);
		ASSERT_LE(parts, part);
		parts = part;
		times++;
	}
	ASSERT_EQ(0, target_wait_job(&self->target));
	whole = event_count(fd[0]);
	EXPECT_LE((__s64)(40 * LOOP_INSNS * N), whole);
	EXPECT_LE(parts, whole);
	TH_LOG("%d times, %lld of %lld", times, parts, whole);
	close(fd[0]);
	close(fd[1]);
}

/* The event counts the whole new program, and nothing before the exec. */
TEST_F(event, enable_on_exec_counts_the_new_program)
{
	struct perf_event_attr attr = event_instructions();
	static const char *const argument[] = { "0000001", "1000000" };
	__s64 value[2];
	int i, fd, start_pipe[2], status;
	pid_t pid;
	char c;

	attr.enable_on_exec = 1;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pipe2(start_pipe, O_CLOEXEC));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (read(start_pipe[0], &c, 1) != 1)
				_exit(1);
			loop(12345);
			execlp("pmctl_loop", "pmctl_loop", argument[i], NULL);
			_exit(127);
		}
		fd = variant->maker->open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		ASSERT_EQ(1, write(start_pipe[1], "", 1));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		value[i] = event_count(fd);
		close(fd);
		close(start_pipe[0]);
		close(start_pipe[1]);
	}
	EXPECT_LE((__s64)LOOP_INSNS, value[0]);
	EXPECT_GE((__s64)LOOP_INSNS + CALL_OVERHEAD, value[0]);
	EXPECT_EQ((__s64)(LOOP_INSNS * (1000000 - 1)), value[1] - value[0]);
}

TEST_HARNESS_MAIN
