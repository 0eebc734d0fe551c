// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events move to other counters to make room for a new event that few counters can count. A
 * new event of a task is refused only if no assignment of counters to all its events exists.
 * Events that move keep their counts exact.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "target.h"

#define ROUNDS		((int)env_number("ROUNDS", 20))
#define STEPS		(150 * ROUNDS)
#define N		100000UL
#define MAX_EVENTS	(2 * NPMC)

/*
 * Retired loads, which counters 0 to 3 of Skylake can count, and PREC_DIST, which only counter 1
 * can count.
 */
#define RETIRED_LOADS		0x81d0
#define PREC_DIST	0x01c0
#define COUNTERS_OF_LOADS	4
/* Retired branches, which the general counters can count */
#define SKYLAKE_BRANCHES	0xc4

enum { INSTRUCTIONS, BRANCHES, CYCLES, REF_CYCLES, LIMITED, ONE_COUNTER, KINDS };

FIXTURE(reassign)
{
	struct perfmon_properties p;
	struct target target;
	struct rng rng;
	__u64 mask[KINDS];	/* the counters that can count an event; 0: none, on this CPU */
	bool has_limited;
	int general;
	int opened;
	int fd[MAX_EVENTS];
	int kind[MAX_EVENTS];
};

/* Returns the attributes of a sampled event, which needs a counter of its own. It takes no sample. */
static struct perf_event_attr own_counter(int kind)
{
	static const struct {
		__u32 type;
		__u64 config;
	} events[KINDS] = {
		[INSTRUCTIONS] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
		[BRANCHES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
		[CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
		[REF_CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES },
		[LIMITED] = { PERF_TYPE_RAW, RETIRED_LOADS },
		[ONE_COUNTER] = { PERF_TYPE_RAW, PREC_DIST },
	};
	struct perf_event_attr attr = event_instructions();

	attr.type = events[kind].type;
	attr.config = events[kind].config;
	attr.sample_period = 1ULL << 40;
	attr.disabled = 0;
	return attr;
}

static int open_event(const struct perf_event_attr *attr, pid_t tid)
{
	struct perf_event_attr copy = *attr;

	return event_maker_perfmon.open(&copy, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

FIXTURE_SETUP(reassign)
{
	int device, kind, fixed;

	SKIP_WITHOUT_PMU();
	device = open_device(_metadata, O_RDONLY);
	ASSERT_EQ(0, device_properties(device, &self->p));
	close(device);
	ASSERT_EQ(0, wait_until_idle());
	self->rng = rng_seed(1);
	self->general = self->p.max_num_programmable_events;
	self->has_limited = cpu_is_skylake();
	for (kind = 0; kind < KINDS; kind++) {
		const struct perf_event_attr attr = own_counter(kind);
		const int fd = open_event(&attr, 0);

		if (fd >= 0)
			self->mask[kind] = (1ULL << self->general) - 1;
		close(fd);
	}
	fixed = self->p.max_num_fixed_events;
	if (fixed > 0)
		self->mask[INSTRUCTIONS] |= 1ULL << NPMC;
	if (fixed > 1)
		self->mask[CYCLES] |= 1ULL << (NPMC + 1);
	/* AMD's general counters count reference cycles, Intel's do not. */
	if (self->mask[REF_CYCLES] && fixed > 2)
		self->mask[REF_CYCLES] = 1ULL << (NPMC + 2);
	if (self->has_limited) {
		self->mask[LIMITED] = (1 << COUNTERS_OF_LOADS) - 1;
		self->mask[ONE_COUNTER] = 1 << 1;
	} else {
		self->mask[LIMITED] = self->mask[ONE_COUNTER] = 0;
	}
}

FIXTURE_TEARDOWN(reassign)
{
	while (self->opened)
		close(self->fd[--self->opened]);
	target_kill(&self->target);
}

/* Opens an event for thread @tid. Returns false if it is refused for want of a counter. */
static bool open_kind(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self, int kind,
		      pid_t tid)
{
	const struct perf_event_attr attr = own_counter(kind);
	const int fd = open_event(&attr, tid);

	if (fd < 0) {
		EXPECT_EQ(-EBUSY, fd);
		return false;
	}
	ASSERT_GT(MAX_EVENTS, self->opened);
	self->kind[self->opened] = kind;
	self->fd[self->opened++] = fd;
	return true;
}

static void close_nth(FIXTURE_DATA(reassign) *self, int i)
{
	close(self->fd[i]);
	self->opened--;
	self->fd[i] = self->fd[self->opened];
	self->kind[i] = self->kind[self->opened];
}

/* Returns the index of the event's counter; for a fixed counter, NPMC plus its index. */
static int counter_of(int fd)
{
	const long long number = event_fdinfo_number(fd, "counter");

	return number < PMC_FIXED(0) ? number : NPMC + number - PMC_FIXED(0);
}

/*
 * Finds a counter for event @i, and moves other events to other counters if necessary (Kuhn's
 * algorithm). @owner has the event of each counter, @tried the counters that can't become free.
 */
static bool find_counter(const __u64 *masks, int i, int *owner, __u64 *tried)
{
	int c;

	for (c = 0; c < 2 * NPMC; c++) {
		if (!(masks[i] >> c & 1) || *tried >> c & 1)
			continue;
		*tried |= 1ULL << c;
		if (owner[c] < 0 || find_counter(masks, owner[c], owner, tried)) {
			owner[c] = i;
			return true;
		}
	}
	return false;
}

/* Returns whether there is a counter for each of the events and for one more, of @kind. */
static bool all_fit(const FIXTURE_DATA(reassign) *self, int kind)
{
	__u64 masks[MAX_EVENTS + 1];
	int owner[2 * NPMC], i;

	for (i = 0; i < 2 * NPMC; i++)
		owner[i] = -1;
	for (i = 0; i <= self->opened; i++) {
		__u64 tried = 0;

		masks[i] = self->mask[i < self->opened ? self->kind[i] : kind];
		if (!find_counter(masks, i, owner, &tried))
			return false;
	}
	return true;
}

/* Checks that each event has a counter of its own that can count it. */
static void check_counters(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self)
{
	__u64 used = 0;
	int i;

	for (i = 0; i < self->opened; i++) {
		const __u64 bit = 1ULL << counter_of(self->fd[i]);

		EXPECT_EQ(bit, bit & self->mask[self->kind[i]] & ~used) {
			TH_LOG("kind %d", self->kind[i]);
		}
		used |= bit;
	}
}

/* Checks that an event of instructions counts exactly. */
static void check_count(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self)
{
	__s64 one;
	int i;

	for (i = 0; i < self->opened; i++) {
		if (self->kind[i] != INSTRUCTIONS)
			continue;
		one = event_loop_count_running(self->fd[i], 1);
		EXPECT_EQ((__s64)(LOOP_INSNS * (N - 1)),
			  event_loop_count_running(self->fd[i], N) - one);
		return;
	}
}

/*
 * Opens and closes events of this task at random. Each result is compared with a search over all
 * assignments.
 */
TEST_F_TIMEOUT(reassign, event_is_refused_only_if_no_assignment_exists, 600)
{
	int counter[MAX_EVENTS], step, i, refused = 0, moved = 0;

	for (step = 0; step < STEPS; step++) {
		const int kind = rng_below(&self->rng, KINDS);
		bool fits, is_open;

		if (self->opened && rng_once_in(&self->rng, 3)) {
			close_nth(self, rng_below(&self->rng, self->opened));
			continue;
		}
		if (!self->mask[kind])
			continue;
		for (i = 0; i < self->opened; i++)
			counter[i] = counter_of(self->fd[i]);
		fits = all_fit(self, kind);
		is_open = open_kind(_metadata, self, kind, 0);
		ASSERT_EQ(fits, is_open) {
			TH_LOG("step %d, event of kind %d beside %d", step, kind, self->opened);
		}
		refused += !is_open;
		for (i = 0; i < self->opened - is_open; i++) {
			if (counter[i] != counter_of(self->fd[i])) {
				moved++;
				break;
			}
		}
		check_counters(_metadata, self);
		if (rng_once_in(&self->rng, 8))
			check_count(_metadata, self);
	}
	EXPECT_LT(5 * ROUNDS, refused);
	/* Without limited events there is nothing to make room for. */
	EXPECT_EQ(self->has_limited, moved > 2 * ROUNDS);
}

/*
 * Lets a counting and a sampled event of branches of thread @tid share the highest of the low
 * counters, while events that can't move up use all other low counters. Returns descriptors of both
 * events.
 */
static void occupy_low_counters(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self,
				pid_t tid, int *counting, int *sampled)
{
	const bool has_fixed = self->p.max_num_fixed_events;
	const int fillers = self->general - COUNTERS_OF_LOADS + has_fixed;
	struct perf_event_attr attr;
	int i;

	for (i = 0; i < fillers; i++)
		ASSERT_TRUE(open_kind(_metadata, self, INSTRUCTIONS, tid));
	attr = own_counter(BRANCHES);
	attr.inherit = 1;
	*sampled = open_event(&attr, tid);
	ASSERT_LE(0, *sampled);
	attr.sample_period = 0;
	*counting = open_event(&attr, tid);
	ASSERT_LE(0, *counting);
	EXPECT_EQ(COUNTERS_OF_LOADS - 1, counter_of(*counting));
	EXPECT_EQ(COUNTERS_OF_LOADS - 1, counter_of(*sampled));
	for (i = 0; i < COUNTERS_OF_LOADS - 1; i++)
		ASSERT_TRUE(open_kind(_metadata, self, LIMITED, tid));
	for (i = fillers - 1; i >= 0; i--)
		close_nth(self, i);
}

/* Opens and closes an event of thread @tid for which others have to move. */
static void make_room(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self, pid_t tid)
{
	EXPECT_TRUE(open_kind(_metadata, self, LIMITED, tid));
	EXPECT_EQ(COUNTERS_OF_LOADS, self->opened);
	/* Closes the new event. An event that had not moved away would now count nothing. */
	close_nth(self, self->opened - 1);
}

/* Checks that both events have moved up if @moves, and have counted the same. Returns the count. */
static __s64 finish_round(struct __test_metadata *_metadata, FIXTURE_DATA(reassign) *self,
			  bool moves, int counting, int sampled)
{
	const __s64 count = event_count(counting);

	EXPECT_EQ(count, event_count(sampled));
	EXPECT_EQ(COUNTERS_OF_LOADS - 1, self->opened);
	if (moves) {
		EXPECT_LE(COUNTERS_OF_LOADS, counter_of(counting));
		EXPECT_EQ(counter_of(counting), counter_of(sampled));
	} else {
		EXPECT_EQ(COUNTERS_OF_LOADS - 1, counter_of(counting));
	}
	while (self->opened)
		close_nth(self, 0);
	close(counting);
	close(sampled);
	return count;
}

/* Opens an event of branches in user mode, sampled or not, of a thread or, if @tid is -1, of the CPU. */
static int open_branches(struct __test_metadata *_metadata, pid_t tid, int cpu, bool sampled,
			 int unit_mask)
{
	struct perf_event_attr attr = own_counter(BRANCHES);
	int fd;

	attr.type = PERF_TYPE_RAW;
	attr.config = SKYLAKE_BRANCHES | unit_mask << 8;
	if (!sampled)
		attr.sample_period = 0;
	fd = event_maker_perfmon.open(&attr, tid, tid < 0 ? cpu : -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd) {
		TH_LOG("branches with unit mask %d: %s", unit_mask, strerror(-fd));
	}
	return fd;
}

/* Takes all but four general counters with events of the CPU, each with a counter of its own. */
static int leave_four_counters(struct __test_metadata *_metadata, const FIXTURE_DATA(reassign) *self, int cpu,
			       int *fd)
{
	int count;

	for (count = 0; count < self->general - 4; count++)
		fd[count] = open_branches(_metadata, -1, cpu, true, 0x40);
	return count;
}

/*
 * The last sharer of a counter moves to another counter with the same event select, and leaves its
 * own to a new event.
 */
TEST_F(reassign, sharer_moves_to_another_counter_with_its_event)
{
	int fd[MAX_EVENTS], count, cpu = pin_to_first_cpu(), first, i;
	__s64 one;

	if (!self->has_limited)
		return;
	ASSERT_LE(0, cpu);
	count = leave_four_counters(_metadata, self, cpu, fd);
	first = open_branches(_metadata, 0, cpu, true, 0);
	fd[count++] = open_branches(_metadata, 0, cpu, false, 0);
	fd[count++] = open_branches(_metadata, 0, cpu, true, 0);
	EXPECT_EQ(counter_of(first), counter_of(fd[count - 2]));
	EXPECT_NE(counter_of(first), counter_of(fd[count - 1]));
	close(first);
	fd[count++] = open_branches(_metadata, 0, cpu, false, 1);
	fd[count++] = open_branches(_metadata, 0, cpu, false, 2);
	fd[count++] = open_branches(_metadata, 0, cpu, false, 3);
	/* Expects that the first two events that are left share a counter. */
	EXPECT_EQ(counter_of(fd[self->general - 4]), counter_of(fd[self->general - 3]));
	for (i = self->general - 4; i < self->general - 2; i++) {
		one = event_loop_count_running(fd[i], 1);
		EXPECT_EQ((__s64)(N - 1), event_loop_count_running(fd[i], N) - one);
	}
	while (count)
		close(fd[--count]);
}

/*
 * The events of two tasks share a counter. Only the event of this task is in the way of a new event
 * of this task. It moves alone, to a counter on which an event of the CPU counts the same.
 */
TEST_F(reassign, event_that_excludes_a_new_one_moves_alone)
{
	int fd[MAX_EVENTS], count, cpu = pin_to_first_cpu(), own, other;
	__s64 one;

	if (!self->has_limited)
		return;
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, target_start(&self->target, -1, true));
	count = leave_four_counters(_metadata, self, cpu, fd);
	fd[count++] = own = open_branches(_metadata, 0, cpu, false, 0);
	fd[count++] = other = open_branches(_metadata, self->target.tid, cpu, false, 1);
	EXPECT_EQ(counter_of(own), counter_of(other));
	fd[count++] = open_branches(_metadata, -1, cpu, false, 2);
	fd[count++] = open_branches(_metadata, -1, cpu, false, 3);
	fd[count++] = open_branches(_metadata, -1, cpu, false, 0);
	one = event_loop_count_running(own, 1);
	fd[count++] = open_branches(_metadata, 0, cpu, false, 4);
	EXPECT_EQ(counter_of(fd[count - 2]), counter_of(own));
	EXPECT_EQ(counter_of(fd[count - 1]), counter_of(other));
	EXPECT_EQ((__s64)(N - 1), event_loop_count_running(own, N) - one);
	while (count)
		close(fd[--count]);
}

/* An event moves to make room only if opening the new event succeeds. */
TEST_F(reassign, a_refused_output_moves_nothing)
{
	struct perf_event_attr loads = own_counter(LIMITED);
	int counting, sampled, fd;

	if (!self->has_limited)
		return;
	occupy_low_counters(_metadata, self, 0, &counting, &sampled);
	fd = event_maker_perfmon.open(&loads, 0, -1, counting,
				      PERF_FLAG_FD_OUTPUT | PERF_FLAG_FD_NO_GROUP);
	/* The event that is to have the records has no ring. */
	EXPECT_EQ(-EINVAL, fd);
	EXPECT_EQ(COUNTERS_OF_LOADS - 1, counter_of(counting));
	make_room(_metadata, self, 0);
	EXPECT_LE(COUNTERS_OF_LOADS, counter_of(counting));
	close(counting);
	close(sampled);
}

/* PERFMON_GET_OWNER names the program of an event for the counter to which the event has moved. */
TEST_F(reassign, moved_event_keeps_its_owner)
{
	struct perfmon_counter_owner owner = { .kind = 99 };
	int counting, sampled, device;

	if (!self->has_limited)
		return;
	occupy_low_counters(_metadata, self, 0, &counting, &sampled);
	make_room(_metadata, self, 0);
	owner.num = counter_of(counting);
	EXPECT_LE(COUNTERS_OF_LOADS, owner.num);
	device = device_open(O_RDONLY);
	ASSERT_LE(0, device);
	EXPECT_EQ(0, device_ioctl(device, PERFMON_GET_OWNER, &owner));
	EXPECT_EQ(getpid(), owner.pid);
	close(device);
	close(counting);
	close(sampled);
}

/* Events of a task move while it runs and moves between CPUs. */
TEST_F(reassign, moving_events_are_counted_exactly)
{
	const struct job job = { .n = N / 10, .pieces = 100, .step = STEP_MOVE };
	int round, counting, sampled;
	__s64 count[2];

	if (!self->has_limited)
		return;
	ASSERT_EQ(0, target_start(&self->target, -1, true));
	ASSERT_EQ(0, target_run_job(&self->target, job));
	for (round = 0; round < ROUNDS; round++) {
		const bool moves = round & 1;

		occupy_low_counters(_metadata, self, self->target.tid, &counting, &sampled);
		ASSERT_EQ(0, target_start_job(&self->target, job));
		if (moves) {
			usleep(rng_below(&self->rng, 5000));
			make_room(_metadata, self, self->target.tid);
		}
		ASSERT_EQ(0, target_wait_job(&self->target));
		count[moves] = finish_round(_metadata, self, moves, counting, sampled);
		if (moves)
			EXPECT_EQ(count[0], count[1]);
	}
}

/*
 * A number of tasks with events. Before an inherited event moves to another counter, the module
 * searches for the tasks that have inherited it, but never among so many tasks.
 */
#define MANY_TASKS	300

/* Other programs can't open events during the search. */
TEST_F(reassign, inherited_event_stays_if_too_many_tasks_have_events)
{
	int counting, sampled, i;
	pid_t pid[MANY_TASKS];

	if (!self->has_limited)
		return;
	occupy_low_counters(_metadata, self, 0, &counting, &sampled);
	for (i = 0; i < MANY_TASKS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	EXPECT_FALSE(open_kind(_metadata, self, LIMITED, 0));
	EXPECT_EQ(COUNTERS_OF_LOADS - 1, counter_of(counting));
	/* One child is left. */
	for (i = 1; i < MANY_TASKS; i++) {
		kill(pid[i], SIGKILL);
		EXPECT_EQ(pid[i], waitpid(pid[i], NULL, 0));
	}
	make_room(_metadata, self, 0);
	EXPECT_LE(COUNTERS_OF_LOADS, counter_of(counting));
	EXPECT_EQ(counter_of(counting), counter_of(sampled));
	close(counting);
	close(sampled);
	kill(pid[0], SIGKILL);
	EXPECT_EQ(pid[0], waitpid(pid[0], NULL, 0));
}

/*
 * A process that creates many others, each of which executes a loop. It exits when there is a byte
 * in pipe @end: until then, events of it can be opened.
 */
static void create_processes(int end)
{
	char byte;
	int i;

	for (i = 0; i < 100; i++) {
		const pid_t pid = fork();

		if (!pid) {
			loop(N / 10);
			_exit(0);
		}
		if (waitpid(pid, NULL, 0) != pid)
			_exit(1);
	}
	_exit(read(end, &byte, 1) != 1);
}

/* Events move while tasks inherit them. */
TEST_F_TIMEOUT(reassign, event_that_is_inherited_meanwhile_moves_too, 600)
{
	int round, counting, sampled, start_pipe, end[2], status;
	__s64 count[2];
	pid_t pid;

	if (!self->has_limited)
		return;
	ASSERT_EQ(0, pipe(end));
	for (round = 0; round < ROUNDS; round++) {
		const bool moves = round & 1;

		pid = fork_waiting(&start_pipe);
		ASSERT_LE(0, pid);
		if (!pid)
			create_processes(end[0]);
		ASSERT_EQ(0, wait_until_asleep(pid));
		occupy_low_counters(_metadata, self, pid, &counting, &sampled);
		ASSERT_EQ(1, write(start_pipe, "", 1));
		close(start_pipe);
		if (moves) {
			usleep(rng_below(&self->rng, 20000));
			make_room(_metadata, self, pid);
		}
		ASSERT_EQ(1, write(end[1], "", 1));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		count[moves] = finish_round(_metadata, self, moves, counting, sampled);
		if (moves)
			EXPECT_EQ(count[0], count[1]);
	}
	close(end[0]);
	close(end[1]);
}

TEST_HARNESS_MAIN
