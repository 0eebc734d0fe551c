// SPDX-License-Identifier: GPL-2.0-only
/*
 * The result of read(2): every read_format, for a single event, the leader of a group and a
 * sibling, inherited and not; buffers that are too small; identifiers.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "group_fixture.h"
#include "loop.h"
#include "read_format.h"

#define N	100000UL

static void open_members(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct event_maker *maker, __u64 format, bool inherit, int members)
{
	struct perf_event_attr attr = event_instructions();
	int i;

	attr.read_format = format;
	attr.inherit = inherit;
	for (i = 0; i < members; i++) {
		attr.disabled = !i;
		self->fd[i] = maker->open(&attr, self->target.tid, -1, i ? self->fd[0] : -1, 0);
		ASSERT_LE(0, self->fd[i]) {
			TH_LOG("%s: read_format %#llx, member %d: %s", maker->name, format, i,
			       strerror(-self->fd[i]));
		}
	}
}

static void close_members(FIXTURE_DATA(event) *self, int members)
{
	int i;

	for (i = 0; i < members; i++) {
		close(self->fd[i]);
		self->fd[i] = -1;
	}
}

static void check_format(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct event_maker *maker, __u64 format, bool inherit, int members)
{
	const __u64 loops = LOOP_INSNS * N * 5;
	struct read_result r;
	int member, i;

	open_members(_metadata, self, maker, format, inherit, members);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 5, STEP_MOVE }));
	for (member = 0; member < members; member++) {
		r = read_and_check(_metadata, self->fd[member], format, members);
		for (i = 0; i < (int)r.nr; i++) {
			EXPECT_LE(loops, r.value[i]);
			EXPECT_GE(loops + 5 * CALL_OVERHEAD, r.value[i]);
			EXPECT_EQ(r.value[0], r.value[i]);
			EXPECT_EQ(0ULL, r.lost[i]);
			/* A group's result starts with the leader; the siblings are in the order of opening. */
			if (format & PERF_FORMAT_ID)
				EXPECT_EQ(event_id(self->fd[r.nr > 1 ? i : member]), r.id[i]);
		}
		if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
			EXPECT_LT(0ULL, r.enabled);
		if ((format & TIMES) == TIMES)
			EXPECT_EQ(r.enabled, r.running);
	}
	close_members(self, members);
}

TEST_F(event, every_read_format_has_its_members)
{
	int members, inherit;
	__u64 format;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (format = 0; format < PERF_FORMAT_MAX; format++)
		for (members = 1; members <= MEMBERS; members += MEMBERS - 1)
			for (inherit = 0; inherit < 2; inherit++)
				check_format(_metadata, self, variant->maker, format, inherit,
					     members);
}

/* Reads the sum of a group and of its inherited events. */
TEST_F(event, inherited_group_is_read_as_one)
{
	const __u64 format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | TIMES;
	struct read_result r;
	pid_t child;
	int i;

	open_members(_metadata, self, variant->maker, format, true, MEMBERS);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	for (i = 0; i < 3; i++) {
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			loop(N);
			_exit(0);
		}
		ASSERT_EQ(child, waitpid(child, NULL, 0));
	}
	ASSERT_EQ(0, event_disable(self->fd[0]));
	r = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	for (i = 0; i < MEMBERS; i++) {
		EXPECT_LE(3 * LOOP_INSNS * N, r.value[i]);
		EXPECT_EQ(r.value[0], r.value[i]);
		EXPECT_EQ(event_id(self->fd[i]), r.id[i]);
	}
	EXPECT_EQ(r.enabled, r.running);
	EXPECT_LT(0ULL, r.running);
}

TEST_F(event, identifiers_are_unique_and_constant)
{
	__u64 id[MEMBERS], old;
	int i, k;

	open_members(_metadata, self, variant->maker, 0, false, MEMBERS);
	for (i = 0; i < MEMBERS; i++) {
		id[i] = event_id(self->fd[i]);
		EXPECT_NE(0ULL, id[i]);
		EXPECT_EQ(id[i], event_id(self->fd[i]));
		for (k = 0; k < i; k++)
			EXPECT_NE(id[k], id[i]);
	}
	/* An identifier is never used again. */
	old = id[MEMBERS - 1];
	close(self->fd[MEMBERS - 1]);
	self->fd[MEMBERS - 1] = open_instructions(_metadata, variant->maker, 0);
	EXPECT_NE(old, event_id(self->fd[MEMBERS - 1]));
}

/* The times do not include time in which the task sleeps. */
TEST_F(event, times_grow_while_the_task_runs)
{
	struct read_result r[2];
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	open_members(_metadata, self, variant->maker, TIMES, false, 1);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	r[0] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_LT(0ULL, r[0].running);
	usleep(20000);
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(r[0].running, r[1].running);
	EXPECT_EQ(r[0].enabled, r[1].enabled);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(r[i].enabled, r[i].running);
	ASSERT_EQ(0, event_disable(self->fd[0]));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(r[0].running, r[1].running);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_LT(r[0].running, r[1].running);

	/* RESET zeroes the count, not the times. */
	ASSERT_EQ(0, event_reset(self->fd[0]));
	r[0] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(0ULL, r[0].value[0]);
	EXPECT_EQ(r[1].running, r[0].running);
}

TEST_F(event, unreadable_buffer_is_efault)
{
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	self->fd[0] = open_instructions(_metadata, variant->maker, 0);
	errno = 0;
	EXPECT_EQ(-1, read(self->fd[0], nothing, 64));
	EXPECT_EQ(EFAULT, errno);
	errno = 0;
	EXPECT_EQ(-1, write(self->fd[0], "12345678", 8));
	EXPECT_EQ(EINVAL, errno);
}

/* The sum contains the counts of tasks that have exited. */
TEST_F(event, reset_of_an_inherited_event)
{
	pid_t child;

	open_members(_metadata, self, variant->maker, 0, true, 1);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		loop(N);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_EQ(0, event_disable(self->fd[0]));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd[0]));
	ASSERT_EQ(0, event_reset(self->fd[0]));
	EXPECT_TRUE(variant->maker->reset_may_keep_exited || !event_count(self->fd[0]));
}

TEST_HARNESS_MAIN
