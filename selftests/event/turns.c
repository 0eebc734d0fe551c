// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that take turns where there are too few counters: each has the share that perf's
 * have, nothing is lost or counted twice when one turn ends and the next begins, and those
 * that did not ask for it count all the time.
 *
 * EVEN=1 in the environment says that ticks come at regular times, as with --icount.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "event_page.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "machine.h"
#include "options.h"
#include "perf.h"
#include "rng.h"
#include "target.h"

#define N	200000UL
#define MOST	64
#define KINDS	4
#define EVENTS	(3 * KINDS)	/* more than there are counters */
#define MS	1000000ULL

static struct machine machine;

/*
 * The branches retired of Intel and of AMD, which general counters alone count. With a unit
 * mask they are something else, whose counts do not matter.
 */
static __u64 branches_with(int unit_mask)
{
	return (machine.intel ? 0xc4 : 0xc2) | unit_mask << 8;
}

#define BRANCHES	0	/* of nth_event(): in user mode */
#define ALL_BRANCHES	KINDS	/* in both modes */
#define OS_BRANCHES	(2 * KINDS)	/* in kernel mode */

struct times {
	__u64 count, enabled, running;
};

FIXTURE(turns)
{
	struct target target;
	int general;		/* counters */
	int cpu;
	int fd[MOST];
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

/* One of EVENTS events, none of which counts the same as another. It is enabled. */
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

/* Opens one event more: its descriptor or a negative errno. */
static int open_more(FIXTURE_DATA(turns) *self, const struct event_maker *maker,
		     struct perf_event_attr attr, pid_t tid, int cpu, int group,
		     unsigned long flags)
{
	int fd = maker->open(&attr, tid, cpu, group, flags);

	if (fd >= 0)
		self->fd[self->opened++] = fd;
	return fd;
}

/* The same, of this thread, with PERFMON_EVENT_ROTATE. */
static int open_turn(FIXTURE_DATA(turns) *self, struct perf_event_attr attr)
{
	return open_more(self, &event_maker_perfmon, attr, 0, -1, -1, PERFMON_EVENT_ROTATE);
}

static struct times times_of(struct __test_metadata *_metadata, int fd)
{
	struct times t;

	ASSERT_EQ((ssize_t)sizeof(t), read(fd, &t, sizeof(t)));
	EXPECT_LE(t.running, t.enabled);
	return t;
}

/* Has the event counted all the time? Each time is a sum, rounded down. */
static bool always_counted(struct times before, struct times after)
{
	return llabs((long long)(after.enabled - before.enabled - after.running +
				 before.running)) <= 1;
}

static __u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* Executes loops for so many milliseconds. Returns their branches. */
static __u64 loop_for(unsigned int ms)
{
	const __u64 end = now() + ms * MS;
	__u64 branches = 0;

	while (now() < end) {
		loop(N);
		branches += N;
	}
	return branches;
}

/* Takes counters with events that always count, until so many are left. */
static void leave(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self, int left)
{
	struct perf_event_attr attr = nth_event(BRANCHES);
	int i;

	/* Each has a counter of its own. There is no sample. */
	attr.config = branches_with(KINDS);
	attr.sample_period = 1ULL << 40;
	for (i = left; i < self->general; i++)
		ASSERT_LE(0, open_more(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
}

/* The sizes of groups; 0 ends them. */
static const int alone[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0 };
static const int groups[] = { 1, 3, 2, 1, 3, 2, 0 };

/* What share of the time each event counts, in thousandths. */
static void find_shares(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
			const struct event_maker *maker, const int *sizes, pid_t tid, int cpu,
			int *shares)
{
	int leaders[EVENTS], count = 0, i, k;

	for (i = 0; sizes[i]; i++) {
		for (k = 0; k < sizes[i] && k < self->general; k++) {
			struct perf_event_attr attr = nth_event(self->opened);

			attr.disabled = !k;
			ASSERT_LE(0, open_more(self, maker, attr, tid, cpu, k ? leaders[count - 1] : -1,
					       maker->turns)) {
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
		struct times t = times_of(_metadata, self->fd[i]);

		ASSERT_LT(1000 * MS, t.enabled);
		shares[i] = 1000 * t.running / t.enabled;
	}
	close_all(self);
}

/*
 * Takes counters from perf until it has so many, and opens events for that: their number.
 * With a place-holder the module has fewer than perf.
 */
static int limit_perf(struct __test_metadata *_metadata, int cpu, int counters, int *held)
{
	struct perf_event_attr attr = nth_event(BRANCHES);
	struct times t;
	int count = 0;

	attr.config = branches_with(KINDS);
	attr.pinned = 1;
	do {
		ASSERT_GT(NPMC, count);
		held[count] = event_maker_perf.open(&attr, -1, cpu, -1, 0);
		ASSERT_LE(0, held[count]);
		/* The first one without a counter is at its end. */
	} while (read(held[count++], &t, sizeof(t)) > 0);
	ASSERT_LT(counters, count);
	for (; counters >= 0; counters--)
		close(held[--count]);
	return count;
}

static void expect_shares_of_perf(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
				  const int *sizes, pid_t tid, int cpu)
{
	/* On a busy host some turns are longer than others. */
	const int most = env_number("EVEN", 0) ? 10 : 200;
	int ours[EVENTS], perfs[EVENTS], held[NPMC], count, i;

	for (i = 0; i < EVENTS; i++)
		ours[i] = perfs[i] = 0;
	count = limit_perf(_metadata, self->cpu, self->general, held);
	find_shares(_metadata, self, &event_maker_perf, sizes, tid, cpu, perfs);
	while (count)
		close(held[--count]);
	ASSERT_EQ(0, wait_until_idle());
	find_shares(_metadata, self, &event_maker_perfmon, sizes, tid, cpu, ours);
	for (i = 0; i < EVENTS; i++) {
		EXPECT_GE(most, abs(ours[i] - perfs[i])) {
			TH_LOG("event %d: %d of a thousand, perf %d", i, ours[i], perfs[i]);
		}
	}
}

TEST_F(turns, events_of_a_task_have_the_shares_of_perfs)
{
	expect_shares_of_perf(_metadata, self, alone, 0, -1);
}

TEST_F(turns, events_of_a_cpu_have_the_shares_of_perfs)
{
	expect_shares_of_perf(_metadata, self, alone, -1, self->cpu);
}

TEST_F(turns, groups_have_the_shares_of_perfs)
{
	expect_shares_of_perf(_metadata, self, groups, 0, -1);
}

/*
 * Two events take turns on one counter: one counts the branches in user mode, the other
 * one in both modes. The branches of the loops are in one of them, each once, and a third
 * one, which always counts, knows those of the kernel.
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
			leave(_metadata, self, 2);
		ASSERT_LE(0, open_more(self, &event_maker_perfmon, attr, tid, cpu, -1,
				       i == 2 ? 0 : PERFMON_EVENT_ROTATE));
	}
}

/* What the three have counted: of the first two the sum of all windows. */
static void read_two(struct __test_metadata *_metadata, FIXTURE_DATA(turns) *self,
		     __u64 *both, __u64 *kernel)
{
	struct times t[3];
	int i;

	for (i = 0; i < 3; i++)
		t[i] = times_of(_metadata, self->fd[self->opened - 1 - i]);
	EXPECT_EQ(t[2].running, t[2].enabled);
	/* One of the two counts at each moment since the first one was opened. */
	EXPECT_GT(20 * MS, t[0].running + t[1].running - t[1].enabled + 10 * MS);
	EXPECT_LT(t[2].running / 5, t[0].running);
	EXPECT_LT(t[2].running / 5, t[1].running);
	*both = t[0].count + t[1].count;
	*kernel = t[2].count;
}

#define FEW	200000	/* branches of the program beside its loops in a second */

TEST_F(turns, no_branch_of_a_task_is_lost_or_counted_twice)
{
	__u64 branches, both, kernel;

	open_two(_metadata, self, 0, -1, false);
	branches = loop_for(1500);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + FEW, both);
	TH_LOG("%llu branches, %llu counted, %llu of the kernel", branches, both, kernel);
}

TEST_F(turns, no_branch_of_a_cpu_is_lost_or_counted_twice)
{
	__u64 branches, both, kernel;

	open_two(_metadata, self, -1, self->cpu, false);
	branches = loop_for(1500);
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + FEW, both);
}

/* Each task has its own turns, and the sum is that of all. */
TEST_F(turns, children_take_turns_as_well)
{
	__u64 branches, both, kernel;
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
		__u64 more;

		ASSERT_LT(0, wait(&status));
		ASSERT_EQ(0, status);
		ASSERT_EQ((ssize_t)sizeof(more), read(pipes[0], &more, sizeof(more)));
		branches += more;
	}
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(branches, both);
	EXPECT_GE(branches + kernel + 4 * FEW, both);
}

/* Tasks that change places many times between two ticks have the turn that they had. */
TEST_F(turns, a_task_that_switches_often_has_its_turns)
{
	const struct job job = { 1000, 20000, STEP_YIELD };
	__u64 both, kernel;

	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
	open_two(_metadata, self, self->target.tid, -1, false);
	ASSERT_EQ(0, target_start_job(&self->target, job));
	while (!target_is_done(&self->target)) {
		loop(100);
		sched_yield();
	}
	ASSERT_EQ(0, target_wait_job(&self->target));
	read_two(_metadata, self, &both, &kernel);
	EXPECT_LE(job.n * job.pieces, both);
	EXPECT_GE(job.n * job.pieces + kernel + 50 * job.pieces, both);
}

/* All of a group, or none of it, at each moment. */
TEST_F(turns, a_group_counts_as_a_whole)
{
	struct times t[4], later[4];
	int i, k;

	leave(_metadata, self, 2);
	for (i = 0; i < 4; i++) {
		struct perf_event_attr attr = nth_event(i);

		attr.disabled = i % 2 == 0;
		ASSERT_LE(0, open_more(self, &event_maker_perfmon, attr, 0, -1,
				       i % 2 ? self->fd[self->opened - 1] : -1,
				       PERFMON_EVENT_ROTATE));
	}
	/* The third member would never have a counter. */
	EXPECT_EQ(-EBUSY, open_more(self, &event_maker_perfmon, nth_event(4), 0, -1,
				    self->fd[self->opened - 2], PERFMON_EVENT_ROTATE));
	for (i = 0; i < 4; i += 2)
		ASSERT_EQ(0, event_enable(self->fd[self->opened - 4 + i]));
	for (k = 0; k < 100; k++) {
		loop(N);
		for (i = 0; i < 4; i++)
			t[i] = times_of(_metadata, self->fd[self->opened - 4 + i]);
		/* Turns go on between the calls, and a busy host may let one take long. */
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

TEST_F(turns, pinned_events_always_count)
{
	struct perf_event_attr pinned = nth_event(0);
	struct times t;
	int i;

	pinned.pinned = 1;
	ASSERT_LE(0, open_turn(self, pinned));
	for (i = 1; i < EVENTS; i++)
		ASSERT_LE(0, open_turn(self, nth_event(i)));
	loop_for(200);
	t = times_of(_metadata, self->fd[0]);
	EXPECT_EQ(t.enabled, t.running);
	for (i = 1; i < EVENTS; i++) {
		t = times_of(_metadata, self->fd[i]);
		EXPECT_GT(t.enabled, t.running);
		EXPECT_LT(0ULL, t.running);
	}
	/* There is none left for another one. */
	pinned.config = branches_with(KINDS);
	EXPECT_EQ(-EBUSY, open_turn(self, pinned));
}

/* What asks for a counter of its own gets one, or EBUSY, and changes nothing then. */
TEST_F(turns, without_the_flag_nothing_takes_turns)
{
	struct perf_event_attr attr;
	struct times t;
	int i;

	ASSERT_LE(0, open_more(self, &event_maker_perfmon, nth_event(0), 0, -1, -1, 0));
	for (i = 1; i < EVENTS; i++)
		ASSERT_LE(0, open_turn(self, nth_event(i)));
	attr = nth_event(EVENTS - 1);
	EXPECT_EQ(-EBUSY, open_more(self, &event_maker_perfmon, attr, 0, -1, -1, 0));
	EXPECT_EQ(-EBUSY, open_more(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
	/* What counts the same as one that is there always counts, too. */
	ASSERT_LE(0, open_turn(self, nth_event(0)));
	loop_for(200);
	for (i = 0; i < self->opened; i++) {
		t = times_of(_metadata, self->fd[i]);
		EXPECT_EQ(!i || i == EVENTS, t.enabled == t.running) {
			TH_LOG("event %d", i);
		}
	}
	/* When there is room again, none waits. */
	while (self->opened > 2)
		close(self->fd[--self->opened]);
	ASSERT_EQ(0, event_reset(self->fd[1]));
	t = times_of(_metadata, self->fd[1]);
	loop_for(50);
	EXPECT_TRUE(always_counted(t, times_of(_metadata, self->fd[1])));
	EXPECT_LE(0, open_more(self, &event_maker_perfmon, attr, -1, self->cpu, -1, 0));
}

TEST_F(turns, what_can_not_take_turns_is_refused)
{
	struct perf_event_attr attr = nth_event(0);
	int leader;

	attr.sample_period = 100000;
	EXPECT_EQ(-EOPNOTSUPP, open_turn(self, attr));
	attr = nth_event(0);
	attr.exclusive = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_turn(self, attr));
	/* A reader could not tell the count from a whole one. */
	attr = nth_event(0);
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	EXPECT_EQ(-EINVAL, open_turn(self, attr));
	/* Half a group does not. */
	leader = open_turn(self, nth_event(0));
	ASSERT_LE(0, leader);
	EXPECT_EQ(-EINVAL, open_more(self, &event_maker_perfmon, nth_event(1), 0, -1, leader, 0));
	/* A sibling does as its leader. */
	leader = open_more(self, &event_maker_perfmon, nth_event(2), 0, -1, -1, 0);
	ASSERT_LE(0, leader);
	EXPECT_LE(0, open_more(self, &event_maker_perfmon, nth_event(3), 0, -1, leader,
			       PERFMON_EVENT_ROTATE));
	EXPECT_EQ(-EINVAL, open_more(self, &event_maker_perfmon, nth_event(4), 0, -1, -1,
				     PERFMON_EVENT_ROTATE << 1));
}

/* A disabled event leaves its counter to the others. */
TEST_F(turns, a_disabled_event_waits_for_nothing)
{
	struct times before[2], after[2];
	int i, k;

	leave(_metadata, self, 1);
	for (i = 0; i < 2; i++)
		ASSERT_LE(0, open_turn(self, nth_event(KINDS + i)));
	for (k = 0; k < 2; k++) {
		const int *fd = &self->fd[self->opened - 2];

		ASSERT_EQ(0, event_disable(fd[k]));
		for (i = 0; i < 2; i++)
			before[i] = times_of(_metadata, fd[i]);
		loop_for(50);
		for (i = 0; i < 2; i++)
			after[i] = times_of(_metadata, fd[i]);
		EXPECT_EQ(before[k].enabled, after[k].enabled);
		EXPECT_LE(45 * MS, after[!k].enabled - before[!k].enabled);
		EXPECT_TRUE(always_counted(before[!k], after[!k]));
		ASSERT_EQ(0, event_enable(fd[k]));
	}
}

/* The page says whether the event counts now, and what it has counted. */
TEST_F(turns, pages_follow_the_turns)
{
	struct perf_event_mmap_page *page;
	bool counts = false, waits = false;
	__s64 last = 0;
	__u64 end;

	open_two(_metadata, self, 0, -1, false);
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
		    self->fd[self->opened - 1], 0);
	ASSERT_NE(MAP_FAILED, page);
	for (end = now() + 200 * MS; now() < end;) {
		struct page_value value = page_read(page);

		ASSERT_LE(last, value.count);
		ASSERT_LE(value.running, value.enabled);
		last = value.count;
		counts |= value.index != 0;
		waits |= value.index == 0;
	}
	EXPECT_TRUE(counts);
	EXPECT_TRUE(waits);
	EXPECT_LE(last, event_count(self->fd[self->opened - 1]));
}

/* Random events come and go, while all counts grow and no time is lost. */
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
			const bool turns = !rng_once_in(&random, 5);
			struct perf_event_attr attr = nth_event(rng_below(&random, EVENTS));
			int group = -1, fd;

			attr.inherit = !of_cpu && rng_once_in(&random, 2);
			if (self->opened && rng_once_in(&random, 3))
				group = self->fd[rng_below(&random, self->opened)];
			fd = open_more(self, &event_maker_perfmon, attr, of_cpu ? -1 : 0,
				       of_cpu ? self->cpu : -1, group,
				       turns ? PERFMON_EVENT_ROTATE : 0);
			if (fd < 0)
				ASSERT_TRUE(fd == -EBUSY || fd == -EINVAL);
		}
		if (rng_once_in(&random, 50) && !fork()) {
			loop(N);
			_exit(0);
		}
		loop(N);
		for (i = 0; i < self->opened; i++) {
			struct times t = times_of(_metadata, self->fd[i]);

			ASSERT_LT(0ULL, t.enabled);
			ASSERT_TRUE(t.running || !t.count);
		}
	}
	close_all(self);
	while (wait(NULL) > 0)
		;
	/* All counters are free. */
	leave(_metadata, self, 0);
}

TEST_HARNESS_MAIN
