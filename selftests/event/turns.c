// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that take turns because there are too few counters. Each has the same share of the time
 * as with perf. No event is lost or counted twice between two turns. Events without
 * PERFMON_EVENT_ROTATE count all the time.
 *
 * EVEN=1 in the environment means that ticks come at regular times, as with --icount.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "event_page.h"
#include "event_ring.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "machine.h"
#include "options.h"
#include "perf.h"
#include "rng.h"
#include "target.h"

#define N	200000UL
#define MAX_EVENTS	64
#define KINDS	4
#define EVENTS	(3 * KINDS)	/* more events than counters */
#define MS	1000000ULL

static struct machine machine;

/*
 * Retired branches of Intel and of AMD, which only general counters can count. With another unit
 * mask the event select is a different event, whose counts do not matter.
 */
static __u64 branches_with(int unit_mask)
{
	return (machine.is_intel ? 0xc4 : 0xc2) | unit_mask << 8;
}

#define BRANCHES	0	/* number for nth_event(): user mode */
#define ALL_BRANCHES	KINDS	/* both modes */
#define OS_BRANCHES	(2 * KINDS)	/* kernel mode */

struct event_times {
	__u64 count, enabled, running;
};

FIXTURE(turns)
{
	struct target target;
	int general;		/* number of general counters */
	int cpu;
	int fd[MAX_EVENTS];
	int opened;
};

FIXTURE_SETUP(turns)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, machine_read(&machine));
	self->general = machine.properties.max_num_programmable_events;
	ASSERT_EQ(0, perf_lift_limits());
	ASSERT_EQ(0, wait_until_idle());
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_GT(EVENTS, self->general);
}

static void close_all(FIXTURE_DATA(turns) *self)
{
	while (self->opened)
		close(self->fd[--self->opened]);
}

FIXTURE_TEARDOWN(turns)
{
	close_all(self);
	target_kill(&self->target);
}

/*
 * Returns the attributes of event @n of EVENTS events, which all count different things. The event
 * is enabled.
 */
static struct perf_event_attr nth_event(int n)
{
	struct perf_event_attr attr = event_instructions();

	attr.type = PERF_TYPE_RAW;
	attr.config = branches_with(n % KINDS);
	attr.disabled = 0;
	attr.exclude_user = n / KINDS % 3 == 2;
	attr.exclude_kernel = n / KINDS % 3 == 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return attr;
}

/* Opens one more event. Returns its descriptor or a negative errno. */
static int open_and_keep(FIXTURE_DATA(turns) *self, const struct event_maker *maker,
			 struct perf_event_attr attr, pid_t tid, int cpu, int group,
			 unsigned long flags)
{
	int fd = maker->open(&attr, tid, cpu, group, flags);

	if (fd >= 0)
		self->fd[self->opened++] = fd;
	return fd;
}

/* Opens one more event of this thread, with PERFMON_EVENT_ROTATE. */
static int open_turn(FIXTURE_DATA(turns) *self, struct perf_event_attr attr)
{
	return open_and_keep(self, &event_maker_perfmon, attr, 0, -1, -1, PERFMON_EVENT_ROTATE);
}

static struct event_times times_of(struct __test_metadata *_metadata, int fd)
{
	struct event_times t;

	ASSERT_EQ((ssize_t)sizeof(t), read(fd, &t, sizeof(t)));
	EXPECT_LE(t.running, t.enabled);
	return t;
}

/* Returns whether the event has counted all the time. Each time is a sum, rounded down. */
static bool always_counted(struct event_times before, struct event_times after)
{
	return llabs((long long)(after.enabled - before.enabled - after.running +
				 before.running)) <= 1;
}

/* Executes loops for @ms milliseconds. Returns the number of their branches. */
static __u64 loop_for(unsigned int ms)
{
	const __u64 end = clock_ns() + ms * MS;
	__u64 branches = 0;

	while (clock_ns() < end) {
		loop(N);
		branches += N;
	}
	return branches;
}

/* Opens events that always count until @left counters are free. */
static void leave_free_counters(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self, int left)
{
	struct perf_event_attr attr = nth_event(BRANCHES);
	int i;

	/* A sampled event has a counter of its own. It never takes a sample. */
	attr.config = branches_with(KINDS);
	attr.sample_period = 1ULL << 40;
	for (i = left; i < self->general; i++)
		ASSERT_LE(0, open_and_keep(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
}

/* The sizes of groups, terminated by 0. */
static const int single_events[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0 };
static const int groups[] = { 1, 3, 2, 1, 3, 2, 0 };

/* Measures each event's share of the time, in thousandths. */
static void find_shares(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
			const struct event_maker *maker, const int *sizes, pid_t tid, int cpu,
			int *shares)
{
	int leaders[EVENTS], count = 0, i, k;

	for (i = 0; sizes[i]; i++) {
		for (k = 0; k < sizes[i] && k < self->general; k++) {
			struct perf_event_attr attr = nth_event(self->opened);

			attr.disabled = !k;
			ASSERT_LE(0, open_and_keep(self, maker, attr, tid, cpu,
						   k ? leaders[count - 1] : -1,
						   maker->turns_flag)) {
				TH_LOG("%s: event %d", maker->name, self->opened);
			}
			if (!k)
				leaders[count++] = self->fd[self->opened - 1];
		}
	}
	for (i = 0; i < count; i++)
		ASSERT_EQ(0, event_enable(leaders[i]));
	loop_for(2000);
	for (i = 0; i < self->opened; i++) {
		struct event_times t = times_of(_metadata, self->fd[i]);

		ASSERT_LT(1000 * MS, t.enabled);
		shares[i] = 1000 * t.running / t.enabled;
	}
	close_all(self);
}

/*
 * Opens events of perf that take its counters until it has @counters left. Returns their number.
 * With a place-holder the module has fewer counters than perf.
 */
static int limit_perf(struct __test_metadata *_metadata, int cpu, int counters, int *held)
{
	struct perf_event_attr attr = nth_event(BRANCHES);
	struct event_times t;
	int count = 0;

	attr.config = branches_with(KINDS);
	attr.pinned = 1;
	do {
		ASSERT_GT(NPMC, count);
		held[count] = event_maker_perf.open(&attr, -1, cpu, -1, 0);
		ASSERT_LE(0, held[count]);
		/* read(2) returns 0 for the first pinned event without a counter. */
	} while (read(held[count++], &t, sizeof(t)) > 0);
	ASSERT_LT(counters, count);
	for (; counters >= 0; counters--)
		close(held[--count]);
	return count;
}

/*
 * Tries again if an attempt fails: a CPU that stands still for a second, on a busy host, gives an
 * event a very long turn.
 */
#define ATTEMPTS	10

static void expect_shares_of_perf(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
				  const int *sizes, pid_t tid, int cpu)
{
	/* On a busy host the lengths of turns vary. */
	const int most = env_number("EVEN", 0) ? 10 : 200;
	int ours[EVENTS], perfs[EVENTS], held[NPMC], count, attempts = 0, i;
	bool differ = false;

	do {
		for (i = 0; i < EVENTS; i++)
			ours[i] = perfs[i] = 0;
		ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
		count = limit_perf(_metadata, self->cpu, self->general, held);
		find_shares(_metadata, self, &event_maker_perf, sizes, tid, cpu, perfs);
		while (count)
			close(held[--count]);
		ASSERT_EQ(0, wait_until_idle());
		ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
		find_shares(_metadata, self, &event_maker_perfmon, sizes, tid, cpu, ours);
		differ = false;
		for (i = 0; i < EVENTS; i++)
			differ |= abs(ours[i] - perfs[i]) > most;
	} while (++attempts < ATTEMPTS && differ);
	for (i = 0; i < EVENTS; i++) {
		EXPECT_GE(most, abs(ours[i] - perfs[i])) {
			TH_LOG("event %d: %d of a thousand, perf %d", i, ours[i], perfs[i]);
		}
	}
}

TEST_F(turns, events_of_a_task_have_the_same_shares_as_with_perf)
{
	expect_shares_of_perf(_metadata, self, single_events, 0, -1);
}

TEST_F(turns, events_of_a_cpu_have_the_same_shares_as_with_perf)
{
	expect_shares_of_perf(_metadata, self, single_events, -1, self->cpu);
}

TEST_F(turns, groups_have_the_same_shares_as_with_perf)
{
	expect_shares_of_perf(_metadata, self, groups, 0, -1);
}

/* An event that waits for its turn is enabled: it records what its task does. */
TEST_F(turns, events_that_wait_have_records)
{
	enum { NAMES = 400, ORDER = 4 };
	struct event_ring ring[2];
	struct event_record record;
	struct event_times t;
	int i, k, names;

	leave_free_counters(_metadata, self, 1);
	for (i = 0; i < 2; i++) {
		struct perf_event_attr attr = nth_event(BRANCHES + i);
		int fd;

		attr.comm = 1;
		fd = open_turn(self, attr);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, event_ring_map(&ring[i], fd, ORDER, false));
	}
	for (k = 0; k < NAMES; k++) {
		ASSERT_EQ(0, prctl(PR_SET_NAME, k % 2 ? "one" : "another"));
		/* A turn takes a tick. */
		loop_for(1);
	}
	for (i = 0; i < 2; i++) {
		t = times_of(_metadata, self->fd[self->opened - 2 + i]);
		EXPECT_LT(0ULL, t.running);
		EXPECT_GT(t.enabled, t.running);
		for (names = 0; event_ring_next(&ring[i], &record); names++)
			EXPECT_EQ(PERF_RECORD_COMM, (int)record.header.type);
		EXPECT_EQ(NAMES, names);
		event_ring_unmap(&ring[i]);
	}
}

/*
 * Opens two events that take turns on one counter: one counts branches in user mode, the other
 * in both modes. Each branch of the loops is counted by one of them. A third event, which always
 * counts, has the branches of the kernel.
 */
static void open_two(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self, pid_t tid,
		     int cpu, bool inherit)
{
	static const int events[] = { BRANCHES, ALL_BRANCHES, OS_BRANCHES };
	int i;

	for (i = 2; i >= 0; i--) {
		struct perf_event_attr attr = nth_event(events[i]);

		attr.inherit = inherit;
		if (i == 2)
			leave_free_counters(_metadata, self, 2);
		ASSERT_LE(0, open_and_keep(self, &event_maker_perfmon, attr, tid, cpu, -1,
				       i == 2 ? 0 : PERFMON_EVENT_ROTATE));
	}
}

/* Reads the events of open_two(): the sum of the two that take turns, and the third. */
static void read_two(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
		     __u64 *both, __u64 *kernel)
{
	struct event_times t[3], later;
	int i;

	for (i = 0; i < 3; i++)
		t[i] = times_of(_metadata, self->fd[self->opened - 1 - i]);
	EXPECT_EQ(t[2].running, t[2].enabled);
	/*
	 * From the opening of the first event on, exactly one of the two counts at each moment. The
	 * turns continue between the reads, and on a busy host a turn may take long.
	 */
	later = times_of(_metadata, self->fd[self->opened - 2]);
	EXPECT_LE(t[0].enabled, t[0].running + t[1].running + 10 * MS);
	EXPECT_LE(t[0].running + t[1].running, later.enabled + 10 * MS);
	*both = t[0].count + t[1].count;
	*kernel = t[2].count;
}

#define BRANCHES_OUTSIDE	200000	/* by the program in a second, besides its loops */

/* Returns whether both events of open_two() that take turns have had a fifth of the time. */
static bool both_had_turns(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self)
{
	const int *fd = &self->fd[self->opened - 3];
	const struct event_times always = times_of(_metadata, fd[0]);

	return times_of(_metadata, fd[1]).running > always.running / 5 &&
	       times_of(_metadata, fd[2]).running > always.running / 5;
}

/*
 * Executes loops for @ms milliseconds, and until both events have had a fifth of the time: if the
 * CPU stands still, on a busy host, a turn may take seconds. Returns the number of the loops'
 * branches. Adds the largest number of further branches of the program to @max_others.
 */
static __u64 loop_with_turns(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
			     unsigned int ms, __u64 *max_others)
{
	__u64 branches = loop_for(ms);
	bool had_turns = both_had_turns(_metadata, self);
	int i;

	for (i = 0; i < 120 && !had_turns; i++) {
		branches += loop_for(500);
		*max_others += BRANCHES_OUTSIDE;
		had_turns = both_had_turns(_metadata, self);
	}
	EXPECT_TRUE(had_turns);
	return branches;
}

TEST_F(turns, no_branch_of_a_task_is_lost_or_counted_twice)
{
	__u64 branches, both, kernel, max_others = BRANCHES_OUTSIDE;

	open_two(_metadata, self, 0, -1, false);
	branches = loop_with_turns(_metadata, self, 1500, &max_others);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + max_others, both);
	TH_LOG("%llu branches, %llu counted, %llu of the kernel", branches, both, kernel);
}

TEST_F(turns, no_branch_of_a_cpu_is_lost_or_counted_twice)
{
	__u64 branches, both, kernel, max_others = BRANCHES_OUTSIDE;

	open_two(_metadata, self, -1, self->cpu, false);
	branches = loop_with_turns(_metadata, self, 1500, &max_others);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + max_others, both);
}

/* Each task has its own turns. The sum includes all tasks. */
TEST_F(turns, children_take_turns_as_well)
{
	__u64 branches, both, kernel, max_others = 4 * BRANCHES_OUTSIDE;
	int pipes[2], i, status;

	ASSERT_EQ(0, pipe(pipes));
	open_two(_metadata, self, 0, -1, true);
	for (i = 0; i < 3; i++) {
		if (!fork()) {
			branches = loop_for(500);
			_exit(write(pipes[1], &branches, sizeof(branches)) != sizeof(branches));
		}
	}
	branches = loop_for(500);
	for (i = 0; i < 3; i++) {
		__u64 child_branches;

		ASSERT_LT(0, wait(&status));
		ASSERT_EQ(0, status);
		ASSERT_EQ((ssize_t)sizeof(child_branches),
			  read(pipes[0], &child_branches, sizeof(child_branches)));
		branches += child_branches;
	}
	branches += loop_with_turns(_metadata, self, 0, &max_others);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + max_others, both);
}

/* A task that switches often between two ticks keeps its turn. */
TEST_F(turns, a_task_that_switches_often_has_its_turns)
{
	const struct job job = { 1000, 20000, STEP_YIELD };
	__u64 both, kernel;
	unsigned long jobs = 0;
	bool had_turns;

	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
	open_two(_metadata, self, self->target.tid, -1, false);
	/*
	 * Repeats the job if necessary: if the CPU stands still, on a busy host, one turn may take
	 * most of a job.
	 */
	do {
		ASSERT_EQ(0, target_start_job(&self->target, job));
		while (!target_is_done(&self->target)) {
			loop(100);
			sched_yield();
		}
		ASSERT_EQ(0, target_wait_job(&self->target));
		had_turns = both_had_turns(_metadata, self);
	} while (++jobs < 100 && !had_turns);
	EXPECT_TRUE(had_turns);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(jobs * job.n * job.pieces, both);
	EXPECT_GE(jobs * (job.n + 50) * job.pieces + kernel, both);
}

/* At each moment all members of a group count, or no member counts. */
TEST_F(turns, a_group_counts_as_a_whole)
{
	struct event_times t[4], later[4];
	int i, k;

	leave_free_counters(_metadata, self, 2);
	for (i = 0; i < 4; i++) {
		struct perf_event_attr attr = nth_event(i);

		attr.disabled = i % 2 == 0;
		ASSERT_LE(0, open_and_keep(self, &event_maker_perfmon, attr, 0, -1,
				       i % 2 ? self->fd[self->opened - 1] : -1,
				       PERFMON_EVENT_ROTATE));
	}
	/* A group with this member would never fit on the counters. */
	EXPECT_EQ(-EBUSY, open_and_keep(self, &event_maker_perfmon, nth_event(4), 0, -1,
				    self->fd[self->opened - 2], PERFMON_EVENT_ROTATE));
	for (i = 0; i < 4; i += 2)
		ASSERT_EQ(0, event_enable(self->fd[self->opened - 4 + i]));
	for (k = 0; k < 100; k++) {
		loop(N);
		for (i = 0; i < 4; i++)
			t[i] = times_of(_metadata, self->fd[self->opened - 4 + i]);
		/* The turns continue between the calls, and on a busy host one may take long. */
		for (i = 0; i < 4; i += 2)
			later[i] = times_of(_metadata, self->fd[self->opened - 4 + i]);
		for (i = 0; i < 4; i += 2) {
			ASSERT_LE(t[i].running, t[i + 1].running + MS);
			ASSERT_LE(t[i + 1].running, later[i].running + MS);
		}
		ASSERT_LE(t[0].enabled, t[0].running + t[2].running + 10 * MS);
		ASSERT_LE(t[0].running + t[2].running, later[0].enabled + 10 * MS);
	}
	EXPECT_LT(0ULL, t[0].running);
	EXPECT_LT(0ULL, t[2].running);
}

/*
 * Executes loops for 200 ms, and until each event after the first, and before @end, has counted and
 * has waited: if the CPU stands still, on a busy host, that time may be one turn.
 */
static void loop_until_all_had_turns(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
				     int end)
{
	struct event_times t;
	int i, tries;

	for (i = 1, tries = 0; i < end && tries < 300; tries++) {
		loop_for(200);
		for (i = 1; i < end; i++) {
			t = times_of(_metadata, self->fd[i]);
			if (!t.running || t.running == t.enabled)
				break;
		}
	}
}

TEST_F(turns, pinned_events_always_count)
{
	struct perf_event_attr pinned = nth_event(0);
	struct event_times t;
	int i;

	pinned.pinned = 1;
	ASSERT_LE(0, open_turn(self, pinned));
	for (i = 1; i < EVENTS; i++)
		ASSERT_LE(0, open_turn(self, nth_event(i)));
	loop_until_all_had_turns(_metadata, self, EVENTS);
	t = times_of(_metadata, self->fd[0]);
	EXPECT_EQ(t.enabled, t.running);
	for (i = 1; i < EVENTS; i++) {
		t = times_of(_metadata, self->fd[i]);
		EXPECT_GT(t.enabled, t.running);
		EXPECT_LT(0ULL, t.running);
	}
	/* No counter is left for another pinned event. */
	pinned.config = branches_with(KINDS);
	EXPECT_EQ(-EBUSY, open_turn(self, pinned));
}

/* An event without the flag gets a counter of its own, or EBUSY without any effect. */
TEST_F(turns, events_without_the_flag_take_no_turns)
{
	struct perf_event_attr attr;
	struct event_times t;
	int i;

	ASSERT_LE(0, open_and_keep(self, &event_maker_perfmon, nth_event(0), 0, -1, -1, 0));
	for (i = 1; i < EVENTS; i++)
		ASSERT_LE(0, open_turn(self, nth_event(i)));
	attr = nth_event(EVENTS - 1);
	EXPECT_EQ(-EBUSY, open_and_keep(self, &event_maker_perfmon, attr, 0, -1, -1, 0));
	EXPECT_EQ(-EBUSY, open_and_keep(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
	/* If an event counts the same as an event that always counts, it also counts always. */
	ASSERT_LE(0, open_turn(self, nth_event(0)));
	loop_until_all_had_turns(_metadata, self, EVENTS);
	for (i = 0; i < self->opened; i++) {
		t = times_of(_metadata, self->fd[i]);
		EXPECT_EQ(!i || i == EVENTS, t.enabled == t.running) {
			TH_LOG("event %d", i);
		}
	}
	/* When there are enough counters, no event waits. */
	while (self->opened > 2)
		close(self->fd[--self->opened]);
	ASSERT_EQ(0, event_reset(self->fd[1]));
	t = times_of(_metadata, self->fd[1]);
	loop_for(50);
	EXPECT_TRUE(always_counted(t, times_of(_metadata, self->fd[1])));
	EXPECT_LE(0, open_and_keep(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
}

TEST_F(turns, events_that_can_not_take_turns_are_refused)
{
	struct perf_event_attr attr = nth_event(0);
	int leader;

	attr.sample_period = 100000;
	EXPECT_EQ(-EOPNOTSUPP, open_turn(self, attr));
	attr = nth_event(0);
	attr.exclusive = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_turn(self, attr));
	/*
	 * The event needs both times in its read format: without them, a reader can't see that the
	 * count is incomplete.
	 */
	attr = nth_event(0);
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	EXPECT_EQ(-EINVAL, open_turn(self, attr));
	/* A group can't have one member with the flag and one without. */
	leader = open_turn(self, nth_event(0));
	ASSERT_LE(0, leader);
	EXPECT_EQ(-EINVAL,
		  open_and_keep(self, &event_maker_perfmon, nth_event(1), 0, -1, leader, 0));
	/* A sibling can't have the flag if its leader has not. */
	leader = open_and_keep(self, &event_maker_perfmon, nth_event(2), 0, -1, -1, 0);
	ASSERT_LE(0, leader);
	EXPECT_LE(0, open_and_keep(self, &event_maker_perfmon, nth_event(3), 0, -1, leader,
			       PERFMON_EVENT_ROTATE));
	EXPECT_EQ(-EINVAL, open_and_keep(self, &event_maker_perfmon, nth_event(4), 0, -1, -1,
				     PERFMON_EVENT_ROTATE << 1));
}

/* While an event is disabled, the other events use its counter. */
TEST_F(turns, disabled_event_frees_its_counter_for_others)
{
	struct event_times before[2], after[2];
	int i, k, tries;

	leave_free_counters(_metadata, self, 1);
	for (i = 0; i < 2; i++)
		ASSERT_LE(0, open_turn(self, nth_event(KINDS + i)));
	for (k = 0; k < 2; k++) {
		const int *fd = &self->fd[self->opened - 2];

		ASSERT_EQ(0, event_disable(fd[k]));
		for (i = 0; i < 2; i++)
			before[i] = times_of(_metadata, fd[i]);
		/* Tries for some time, since other programs on the CPU may take a part of it. */
		for (tries = 0; tries < 100; tries++) {
			loop_for(50);
			for (i = 0; i < 2; i++)
				after[i] = times_of(_metadata, fd[i]);
			if (after[!k].enabled - before[!k].enabled >= 45 * MS)
				break;
		}
		EXPECT_EQ(before[k].enabled, after[k].enabled);
		EXPECT_LE(45 * MS, after[!k].enabled - before[!k].enabled);
		EXPECT_TRUE(always_counted(before[!k], after[!k]));
		ASSERT_EQ(0, event_enable(fd[k]));
	}
}

/* Disables an event. Expects that its page then has the same values as read(2). */
static void expect_final_page(struct __test_metadata *_metadata, int fd,
			      const struct perf_event_mmap_page *page)
{
	struct page_value value;
	struct event_times t;

	ASSERT_EQ(0, event_disable(fd));
	/* read(2) would write the page again. */
	value = page_read(page);
	t = times_of(_metadata, fd);
	EXPECT_EQ(0U, value.index);
	EXPECT_EQ((__s64)t.count, value.count);
	EXPECT_EQ(t.enabled, value.enabled);
	EXPECT_EQ(t.running, value.running);
}

/* The page says whether the event counts now, and what it has counted. */
TEST_F(turns, pages_follow_the_turns)
{
	struct perf_event_mmap_page *page;
	bool has_counted = false, has_waited = false;
	__s64 last = 0;
	__u64 end, limit;
	int fd, i;

	open_two(_metadata, self, 0, -1, false);
	fd = self->fd[self->opened - 1];
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	end = clock_ns() + 200 * MS;
	limit = end + 60000 * MS;
	/* If the CPU stands still, on a busy host, that time may be one turn. */
	while (clock_ns() < end || (!(has_counted && has_waited) && clock_ns() < limit)) {
		struct page_value value = page_read(page);

		ASSERT_LE(last, value.count);
		ASSERT_LE(value.running, value.enabled);
		last = value.count;
		has_counted |= value.index != 0;
		has_waited |= value.index == 0;
	}
	EXPECT_TRUE(has_counted);
	EXPECT_TRUE(has_waited);
	EXPECT_LE(last, event_count(fd));
	/*
	 * Most of these times are shorter than a turn, so waiting at the end is a large part of
	 * them.
	 */
	for (i = 0; i < 20; i++) {
		expect_final_page(_metadata, fd, page);
		ASSERT_EQ(0, event_enable(fd));
		loop(N);
	}
	expect_final_page(_metadata, fd, page);
}

/* PREC_DIST of Skylake, which only counter 1 can count */
#define PREC_DIST	0x01c0

/*
 * Opens an event that can use either of two free counters, and takes one of them. Then opens an
 * event that can use only this counter. Expects that both count all the time.
 */
static void expect_no_turns(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
			    bool as_group)
{
	struct perf_event_attr limited = nth_event(BRANCHES);
	struct event_times before[2];
	const int *fd;
	int i;

	leave_free_counters(_metadata, self, 2);
	ASSERT_LE(0, open_turn(self, nth_event(BRANCHES)));
	fd = &self->fd[self->opened - 1];
	EXPECT_EQ(1, event_fdinfo_number(fd[0], "counter"));
	limited.config = PREC_DIST;
	ASSERT_LE(0, open_and_keep(self, &event_maker_perfmon, limited, 0, -1,
				   as_group ? fd[0] : -1, PERFMON_EVENT_ROTATE));
	for (i = 0; i < 2; i++)
		before[i] = times_of(_metadata, fd[i]);
	loop_for(200);
	for (i = 0; i < 2; i++) {
		EXPECT_TRUE(always_counted(before[i], times_of(_metadata, fd[i]))) {
			TH_LOG("event %d", i);
		}
	}
	close_all(self);
	/* Expects that all counters are free. */
	leave_free_counters(_metadata, self, 0);
	close_all(self);
}

/* Events take turns only if no assignment of counters lets all of them count. */
TEST_F(turns, limited_events_get_room_from_others)
{
	if (!cpu_is_skylake())
		return;
	expect_no_turns(_metadata, self, false);
	expect_no_turns(_metadata, self, true);
}

/*
 * An event of the CPU leaves its counter to an event that takes turns, and moves to the counter of
 * another event that counts the same. The new event gets no turns on that counter, since the
 * counter can't count something else at the same time.
 */
TEST_F(turns, event_has_no_turn_on_a_counter_to_which_another_has_moved)
{
	struct perf_event_attr sampled = nth_event(BRANCHES);
	__u64 branches;
	int of_task, of_cpu;
	__s64 before;

	sampled.sample_period = 1ULL << 40;
	leave_free_counters(_metadata, self, 2);
	ASSERT_LE(0, open_turn(self, nth_event(BRANCHES)));
	/* Two sampled events that may count at the same time have a counter each. */
	of_task = event_maker_perfmon.open(&sampled, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, of_task);
	EXPECT_EQ(1, event_fdinfo_number(of_task, "counter"));
	of_cpu = open_and_keep(self, &event_maker_perfmon, sampled, -1, self->cpu, -1, 0);
	ASSERT_LE(0, of_cpu);
	EXPECT_EQ(0, event_fdinfo_number(of_cpu, "counter"));
	close(of_task);
	ASSERT_LE(0, open_turn(self, nth_event(BRANCHES + 1)));
	EXPECT_EQ(1, event_fdinfo_number(of_cpu, "counter"));
	/*
	 * Both new events take turns on counter 0, and the second event has no turns on counter 1.
	 */
	ASSERT_LE(0, open_turn(self, nth_event(BRANCHES + 2)));
	before = event_count(of_cpu);
	branches = loop_for(500);
	EXPECT_LE(branches, (__u64)(event_count(of_cpu) - before));
}

/* Opens and closes events at random. All counts grow, and no time is lost. */
TEST_F(turns, events_come_and_go_in_any_order)
{
	struct rng random = rng_seed(1);
	int i, k;

	for (k = 0; k < 1000; k++) {
		if (self->opened && (self->opened == 30 || rng_once_in(&random, 2))) {
			i = rng_below(&random, self->opened);
			close(self->fd[i]);
			self->fd[i] = self->fd[--self->opened];
		} else {
			const bool of_cpu = rng_once_in(&random, 4);
			const bool takes_turns = !rng_once_in(&random, 5);
			struct perf_event_attr attr = nth_event(rng_below(&random, EVENTS));
			int group = -1, fd;

			attr.inherit = !of_cpu && rng_once_in(&random, 2);
			if (self->opened && rng_once_in(&random, 3))
				group = self->fd[rng_below(&random, self->opened)];
			fd = open_and_keep(self, &event_maker_perfmon, attr, of_cpu ? -1 : 0,
				       of_cpu ? self->cpu : -1, group,
				       takes_turns ? PERFMON_EVENT_ROTATE : 0);
			if (fd < 0)
				ASSERT_TRUE(fd == -EBUSY || fd == -EINVAL);
		}
		if (rng_once_in(&random, 50) && !fork()) {
			loop(N);
			_exit(0);
		}
		loop(N);
		for (i = 0; i < self->opened; i++) {
			struct event_times t = times_of(_metadata, self->fd[i]);

			ASSERT_LT(0ULL, t.enabled);
			ASSERT_TRUE(t.running || !t.count);
		}
	}
	close_all(self);
	while (wait(NULL) > 0)
		;
	/* Expects that all counters are free. */
	leave_free_counters(_metadata, self, 0);
}

TEST_HARNESS_MAIN
