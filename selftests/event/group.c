// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups of events, which count as a unit, and are enabled and disabled as a unit. Their members
 * become single events when the leader is closed. Invalid groups are refused.
 */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "group_fixture.h"
#include "loop.h"

#define N	100000UL

/* Opens a group of instructions of a thread. Only the leader is disabled. */
static void open_group(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		       const struct event_maker *maker, pid_t tid)
{
	struct perf_event_attr attr = event_instructions();
	int i;

	for (i = 0; i < MEMBERS; i++) {
		attr.disabled = !i;
		self->fd[i] = maker->open(&attr, tid, -1, i ? self->fd[0] : -1, 0);
		ASSERT_LE(0, self->fd[i]) {
			TH_LOG("%s: member %d: %s", maker->name, i, strerror(-self->fd[i]));
		}
	}
}

TEST_F(event, siblings_count_while_the_leader_does)
{
	__s64 first[MEMBERS], second[MEMBERS];
	int i;

	open_group(_metadata, self, variant->maker, 0);
	loop(N);
	for (i = 0; i < MEMBERS; i++)
		EXPECT_EQ(0, event_count(self->fd[i]));

	EXPECT_LT(0, event_loop_count(self->fd[0], N));
	for (i = 0; i < MEMBERS; i++) {
		first[i] = event_count(self->fd[i]);
		EXPECT_LE((__s64)(LOOP_INSNS * N), first[i]);
		EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, first[i]);
		/* The events start and stop in the kernel, so they count the same. */
		EXPECT_EQ(first[0], first[i]);
	}
	EXPECT_LT(0, event_loop_count(self->fd[0], 2 * N));
	for (i = 0; i < MEMBERS; i++) {
		second[i] = event_count(self->fd[i]) - first[i];
		EXPECT_EQ(first[i] + (__s64)(LOOP_INSNS * N), second[i]);
	}
}

TEST_F(event, sibling_with_another_clock_is_refused)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	open_group(_metadata, self, variant->maker, 0);
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	EXPECT_EQ(-EINVAL, variant->maker->open(&attr, 0, -1, self->fd[0], 0));
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_F(event, disabled_sibling_keeps_its_count)
{
	__s64 value;

	open_group(_metadata, self, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	loop(N);
	ASSERT_EQ(0, event_disable(self->fd[1]));
	value = event_count(self->fd[1]);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	loop(N);
	EXPECT_EQ(value, event_count(self->fd[1]));
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), event_count(self->fd[0]));
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), event_count(self->fd[2]));
	ASSERT_EQ(0, event_enable(self->fd[1]));
	loop(N);
	ASSERT_EQ(0, event_disable(self->fd[0]));
	EXPECT_LE(value + (__s64)(LOOP_INSNS * N), event_count(self->fd[1]));
	EXPECT_GE(value + (__s64)(LOOP_INSNS * N) + 2 * CALL_OVERHEAD,
		  event_count(self->fd[1]));
}

/* Enabling a sibling does not start it while its leader is disabled. */
TEST_F(event, enabled_sibling_waits_for_the_leader)
{
	open_group(_metadata, self, variant->maker, 0);
	ASSERT_EQ(0, event_disable(self->fd[1]));
	ASSERT_EQ(0, event_enable(self->fd[1]));
	loop(N);
	EXPECT_EQ(0, event_count(self->fd[1]));
	EXPECT_LT(0, event_loop_count(self->fd[0], N));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[1]));
}

/* With PERF_IOC_FLAG_GROUP, an ioctl of any member acts on all members. */
TEST_F(event, flag_group_means_all_members)
{
	int i, from;

	open_group(_metadata, self, variant->maker, 0);
	for (from = 0; from < MEMBERS; from++) {
		for (i = 0; i < MEMBERS; i++)
			ASSERT_EQ(0, event_disable(self->fd[i]));
		ASSERT_EQ(0, event_ioctl(self->fd[from], PERF_EVENT_IOC_ENABLE,
					 PERF_IOC_FLAG_GROUP));
		loop(N);
		ASSERT_EQ(0, event_ioctl(self->fd[from], PERF_EVENT_IOC_DISABLE,
					 PERF_IOC_FLAG_GROUP));
		for (i = 0; i < MEMBERS; i++) {
			EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[i])) {
				TH_LOG("from %d, member %d", from, i);
			}
		}
		ASSERT_EQ(0, event_ioctl(self->fd[from], PERF_EVENT_IOC_RESET,
					 PERF_IOC_FLAG_GROUP));
		for (i = 0; i < MEMBERS; i++)
			EXPECT_EQ(0, event_count(self->fd[i]));
		/* All were disabled, so enabling the leader alone does not start the siblings. */
		EXPECT_LT(0, event_loop_count(self->fd[0], N));
		EXPECT_EQ(0, event_count(self->fd[1]));
		EXPECT_EQ(0, event_count(self->fd[2]));
		ASSERT_EQ(0, event_reset(self->fd[0]));
	}
}

TEST_F(event, other_flags_of_the_ioctls_are_ignored)
{
	open_group(_metadata, self, variant->maker, 0);
	ASSERT_EQ(0, event_ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 2));
	loop(N);
	ASSERT_EQ(0, event_ioctl(self->fd[0], PERF_EVENT_IOC_DISABLE, 0xf0));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[0]));
}

TEST_F(event, group_of_another_task_is_exact)
{
	const struct job least = { 1, 20, STEP_MOVE }, job = { N, 20, STEP_MOVE };
	__s64 before, value[MEMBERS];
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, true));
	open_group(_metadata, self, variant->maker, self->target.tid);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, target_run_job(&self->target, least));
	before = event_count(self->fd[0]);
	ASSERT_EQ(0, target_run_job(&self->target, job));
	for (i = 0; i < MEMBERS; i++) {
		value[i] = event_count(self->fd[i]);
		EXPECT_EQ(2 * before + (__s64)(LOOP_INSNS * (N - 1) * 20), value[i]);
	}
}

/* A member that is added to a running group counts from that moment on. */
TEST_F(event, member_joins_a_running_group)
{
	struct perf_event_attr attr = event_instructions();
	__s64 value;

	self->fd[0] = open_instructions(_metadata, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	loop(N);
	attr.disabled = 0;
	self->fd[1] = variant->maker->open(&attr, 0, -1, self->fd[0], 0);
	ASSERT_LE(0, self->fd[1]);
	loop(N);
	ASSERT_EQ(0, event_disable(self->fd[0]));
	value = event_count(self->fd[1]);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + 2 * CALL_OVERHEAD, value);
	EXPECT_LE(value + (__s64)(LOOP_INSNS * N), event_count(self->fd[0]));
}

/* The siblings continue as single events. */
TEST_F(event, siblings_outlive_a_closed_leader)
{
	__s64 value;

	open_group(_metadata, self, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	loop(N);
	close(self->fd[0]);
	self->fd[0] = -1;
	loop(N);
	ASSERT_EQ(0, event_disable(self->fd[1]));
	value = event_count(self->fd[1]);
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), value);
	loop(N);
	EXPECT_EQ(value, event_count(self->fd[1]));
	EXPECT_LE((__s64)(3 * LOOP_INSNS * N), event_count(self->fd[2]));
	ASSERT_EQ(0, event_disable(self->fd[2]));
	EXPECT_EQ((__s64)(LOOP_INSNS * (2 * N - N)),
		  event_loop_count(self->fd[1], 2 * N) - event_loop_count(self->fd[1], N));
}

/*
 * When a disabled leader is closed, its siblings start to count, at the latest at the next switch
 * to the task.
 */
TEST_F(event, closing_a_disabled_leader_starts_its_siblings)
{
	open_group(_metadata, self, variant->maker, 0);
	close(self->fd[0]);
	self->fd[0] = -1;
	switch_out();
	loop(N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[1]));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[2]));
}

TEST_F(event, members_may_be_closed_in_every_order)
{
	static const int orders[][MEMBERS] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	const struct job job = { 1000, 100, STEP_MOVE };
	unsigned int i, k, enabled;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (enabled = 0; enabled < 2; enabled++) {
		for (i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
			open_group(_metadata, self, variant->maker, self->target.tid);
			if (enabled)
				ASSERT_EQ(0, event_enable(self->fd[0]));
			/* The task executes while members are closed. */
			ASSERT_EQ(0, target_start_job(&self->target, job));
			for (k = 0; k < MEMBERS; k++) {
				usleep(100);
				EXPECT_EQ(0, close(self->fd[orders[i][k]]));
				self->fd[orders[i][k]] = -1;
			}
			ASSERT_EQ(0, target_wait_job(&self->target));
		}
	}
	/* All counters are free again. */
	self->fd[0] = open_instructions(_metadata, variant->maker, 0);
	EXPECT_LT(0, event_loop_count(self->fd[0], N));
}

static int open_member(const struct event_maker *maker, struct perf_event_attr attr, pid_t pid,
		       int cpu, int group, unsigned long flags)
{
	int fd = maker->open(&attr, pid, cpu, group, flags);

	return fd < 0 ? fd : close(fd);
}

TEST_F(event, invalid_groups_are_refused)
{
	const struct perf_event_attr plain = event_instructions();
	struct perf_event_attr attr;
	int cpu = pin_to_first_cpu();

	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->fd[0] = open_instructions(_metadata, variant->maker, 0);
	attr = plain;
	attr.disabled = 0;
	self->fd[1] = variant->maker->open(&attr, 0, -1, self->fd[0], 0);
	ASSERT_LE(0, self->fd[1]);

#define OPEN_MEMBER(attr, ...) open_member(variant->maker, attr, __VA_ARGS__)
	/* The leader is of another task, on another CPU, or of all tasks on a CPU. */
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(plain, self->target.tid, -1, self->fd[0], 0));
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(plain, 0, cpu, self->fd[0], 0));
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(plain, -1, cpu, self->fd[0], 0));
	/* The leader is a sibling. */
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(plain, 0, -1, self->fd[1], 0));
	/* A sibling can't be inherited if its leader is not, and can't be pinned or exclusive. */
	attr = plain;
	attr.inherit = 1;
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(attr, 0, -1, self->fd[0], 0));
	attr = plain;
	attr.pinned = 1;
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(attr, 0, -1, self->fd[0], 0));
	attr = plain;
	attr.exclusive = 1;
	EXPECT_EQ(-EINVAL, OPEN_MEMBER(attr, 0, -1, self->fd[0], 0));
	/* A descriptor that is not open, or not an event. */
	EXPECT_EQ(-EBADF, OPEN_MEMBER(plain, 0, -1, 12345, 0));
	EXPECT_EQ(-EBADF, OPEN_MEMBER(plain, 0, -1, -2, 0));
	EXPECT_EQ(-EBADF, OPEN_MEMBER(plain, 0, -1, self->target.jobs, 0));

	/* With FD_NO_GROUP the descriptor must be an event, and is not used. */
	EXPECT_EQ(0, OPEN_MEMBER(plain, self->target.tid, -1, self->fd[1], PERF_FLAG_FD_NO_GROUP));
	EXPECT_EQ(-EBADF, OPEN_MEMBER(plain, 0, -1, 12345, PERF_FLAG_FD_NO_GROUP));
	EXPECT_EQ(0, OPEN_MEMBER(plain, 0, -1, self->fd[0], PERF_FLAG_FD_CLOEXEC));
#undef OPEN_MEMBER
	/* The refused calls have changed nothing. */
	EXPECT_LT(0, event_loop_count(self->fd[0], N));
	EXPECT_EQ(event_count(self->fd[0]), event_count(self->fd[1]));
}

/* The task has exited, so its group takes no more members. */
TEST_F(event, leader_of_an_exited_task_is_refused)
{
	struct perf_event_attr attr = event_instructions();

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	open_group(_metadata, self, variant->maker, self->target.tid);
	target_kill(&self->target);
	EXPECT_EQ(-ENODEV, open_member(variant->maker, attr, 0, -1, self->fd[0], 0));
}

/* A leader of the other maker, and the device itself, are not events of this maker. */
TEST(leader_of_another_maker_is_refused)
{
	const struct event_maker *perf = &event_maker_perf, *maker = &event_maker_perfmon;
	const struct perf_event_attr attr = event_instructions();
	const struct perf_event_attr dummy = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(dummy),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
	};
	struct perf_event_attr arguments = dummy;
	int fd[3];

	SKIP_WITHOUT_PMU();
	/* perf's event needs no counter, so events of both makers can be open. */
	fd[0] = perf->open(&arguments, 0, -1, -1, 0);
	ASSERT_LE(0, fd[0]);
	EXPECT_EQ(-EBADF, open_member(maker, attr, 0, -1, fd[0], 0));
	fd[1] = open_instructions(_metadata, maker, 0);
	EXPECT_EQ(-EBADF, open_member(perf, dummy, 0, -1, fd[1], 0));
	fd[2] = open_device(_metadata, O_RDONLY);
	EXPECT_EQ(-EBADF, open_member(maker, attr, 0, -1, fd[2], 0));
	close(fd[0]);
	close(fd[1]);
	close(fd[2]);
}

TEST_HARNESS_MAIN
