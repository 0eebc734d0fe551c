// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact counts of several tasks that share a CPU, that move, or that are counted on one of several
 * CPUs; and exact counts of all tasks of a CPU. Each job runs twice, the second time with loops of
 * one round. The difference of the two counts must be the difference of the loops.
 *
 * ROUNDS in the environment is the number of context switches of the longest test.
 */
#include <sched.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "options.h"
#include "target.h"

#define N	1000000UL
#define TARGETS	4

FIXTURE(event)
{
	struct target target[TARGETS];
	int fd[TARGETS];
	cpu_set_t cpus;
	int first_cpu, last_cpu;
	__u64 rounds;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	int cpu, i;

	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	for (i = 0; i < TARGETS; i++)
		self->fd[i] = -1;
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->first_cpu = cpu_next(&self->cpus, -1);
	for_each_cpu_in(cpu, &self->cpus)
		self->last_cpu = cpu;
	self->rounds = env_number("ROUNDS", 10000);
}

FIXTURE_TEARDOWN(event)
{
	int i;

	for (i = 0; i < TARGETS; i++) {
		target_kill(&self->target[i]);
		close(self->fd[i]);
	}
	restore_maker(_metadata, variant);
}

/* Starts targets, each with an enabled event. */
static void start_targets(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  const struct event_maker *maker, int count, int cpu)
{
	int i;

	for (i = 0; i < count; i++) {
		ASSERT_EQ(0, target_start(&self->target[i], cpu, i % 2));
		self->fd[i] = open_instructions(_metadata, maker, self->target[i].tid);
		ASSERT_EQ(0, event_enable(self->fd[i]));
	}
}

/* Runs a job in each target at the same time. Returns the counts in @value. */
static void run_together(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct job *jobs, int count, __s64 *value)
{
	int i;

	for (i = 0; i < count; i++)
		value[i] = event_count(self->fd[i]);
	for (i = 0; i < count; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], jobs[i]));
	for (i = 0; i < count; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
	for (i = 0; i < count; i++)
		value[i] = event_count(self->fd[i]) - value[i];
}

static void expect_exact_together(struct __test_metadata *_metadata,
				  FIXTURE_DATA(event) *self, const struct job *jobs,
				  int count)
{
	__s64 value[TARGETS], least[TARGETS];
	struct job small;
	int i;

	/* Runs the shortest jobs, one after the other. */
	for (i = 0; i < count; i++) {
		small = jobs[i];
		small.n = 1;
		least[i] = event_count(self->fd[i]);
		ASSERT_EQ(0, target_run_job(&self->target[i], small));
		least[i] = event_count(self->fd[i]) - least[i];
		ASSERT_LE((__s64)(LOOP_INSNS * small.pieces), least[i]);
	}
	run_together(_metadata, self, jobs, count, value);
	for (i = 0; i < count; i++) {
		EXPECT_EQ(least[i] + (__s64)(LOOP_INSNS * (jobs[i].n - 1) * jobs[i].pieces),
			  value[i]) {
			TH_LOG("task %d", i);
		}
	}
}

TEST_F(event, two_tasks_on_one_cpu)
{
	const struct job busy[] = { { 20 * N, 1, STEP_NONE }, { 20 * N, 1, STEP_NONE } };
	const struct job yield[] = { { N, 20, STEP_YIELD }, { N, 20, STEP_YIELD } };
	const struct job mixed[] = { { 1000, 3000, STEP_YIELD }, { 20 * N, 1, STEP_NONE } };

	start_targets(_metadata, self, variant->maker, 2, self->first_cpu);
	expect_exact_together(_metadata, self, busy, 2);
	expect_exact_together(_metadata, self, yield, 2);
	expect_exact_together(_metadata, self, mixed, 2);
}

/* A task without an event runs between two tasks with events. */
TEST_F(event, uncounted_task_beside_two_counted_ones)
{
	const struct job yield[] = { { 1000, 2000, STEP_YIELD }, { 2000, 2000, STEP_YIELD } };

	start_targets(_metadata, self, variant->maker, 2, self->first_cpu);
	ASSERT_EQ(0, target_start(&self->target[2], self->first_cpu, false));
	ASSERT_EQ(0, target_start_job(&self->target[2], (struct job) { 1000, 4000, STEP_YIELD }));
	expect_exact_together(_metadata, self, yield, 2);
	ASSERT_EQ(0, target_wait_job(&self->target[2]));
}

TEST_F(event, four_tasks_that_move)
{
	const struct job jobs[] = {
		{ 2000, 1000, STEP_MOVE },
		{ 3000, 1000, STEP_MOVE },
		{ 5000, 1000, STEP_MOVE },
		{ 7000, 1000, STEP_MOVE },
	};

	start_targets(_metadata, self, variant->maker, 4, -1);
	expect_exact_together(_metadata, self, jobs, 4);
}

/* This process moves the tasks by sched_setaffinity(2), while they run or sleep. */
TEST_F(event, four_tasks_that_are_moved)
{
	const struct job job = { 10 * N, 4, STEP_YIELD };
	__s64 least[TARGETS];
	long moves = 0;
	cpu_set_t set;
	int i, cpu;

	start_targets(_metadata, self, variant->maker, 4, -1);
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, target_run_job(&self->target[i], (struct job) { 1, 4, STEP_YIELD }));
		least[i] = event_count(self->fd[i]);
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], job));
	for (cpu = -1; !target_is_done(&self->target[moves % 4]); moves++) {
		cpu = cpu_next(&self->cpus, cpu);
		if (cpu < 0)
			cpu = cpu_next(&self->cpus, -1);
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		ASSERT_EQ(0, sched_setaffinity(self->target[moves % 4].tid, sizeof(set),
					       &set));
		/* Gives the targets time to run. */
		usleep(moves % 3 * 200);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
		EXPECT_EQ(2 * least[i] + (__s64)(LOOP_INSNS * (job.n - 1) * job.pieces),
			  event_count(self->fd[i]));
	}
	TH_LOG("%ld moves", moves);
}

/* Opens an enabled event of a target on CPU @cpu. */
static int open_on(struct __test_metadata *_metadata, const struct event_maker *maker,
		   pid_t tid, int cpu)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	fd = maker->open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd) {
		TH_LOG("%s: CPU %d: %s", maker->name, cpu, strerror(-fd));
	}
	return fd;
}

/* Reads the count of an event that may have been off its CPU, and checks the times. */
static __s64 read_count_and_check_times(struct __test_metadata *_metadata, const struct event_maker *maker,
			 int fd)
{
	__u64 words[3];

	EXPECT_EQ((ssize_t)sizeof(words), read(fd, words, sizeof(words)));
	EXPECT_LE(words[2], words[1]);
	EXPECT_TRUE(maker->time_on_other_cpus || words[2] == words[1]);
	EXPECT_EQ(!words[0], !words[2]);
	return words[0];
}

/* The counts of a task on each CPU add up to its whole count. */
TEST_F(event, task_on_one_cpu_counts_there)
{
	const struct job job = { 10000, 101, STEP_MOVE };
	int cpu_event[CPU_SETSIZE], task_event, cpu;
	__s64 sum = 0, on_last = 0, value;

	ASSERT_EQ(0, target_start(&self->target[0], -1, false));
	task_event = open_on(_metadata, variant->maker, self->target[0].tid, -1);
	for_each_cpu_in(cpu, &self->cpus)
		cpu_event[cpu] = open_on(_metadata, variant->maker, self->target[0].tid, cpu);
	ASSERT_EQ(0, target_run_job(&self->target[0], job));
	for_each_cpu_in(cpu, &self->cpus) {
		on_last = read_count_and_check_times(_metadata, variant->maker, cpu_event[cpu]);
		/* The target visits all CPUs in turn, so each has its part of the pieces. */
		EXPECT_LE((__s64)(LOOP_INSNS * job.n * (job.pieces / CPU_COUNT(&self->cpus) - 1)),
			  on_last);
		sum += on_last;
	}
	value = read_count_and_check_times(_metadata, variant->maker, task_event);
	EXPECT_LE((__s64)(LOOP_INSNS * job.n * job.pieces), value);
	EXPECT_EQ(value, sum);
	if (CPU_COUNT(&self->cpus) > 1)
		EXPECT_LT(on_last, sum);
	close(task_event);
	for_each_cpu_in(cpu, &self->cpus)
		close(cpu_event[cpu]);
}

/* Counts all tasks of a CPU, with and without events of their own. */
TEST_F(event, all_tasks_of_a_cpu_are_counted)
{
	const struct job job = { 50000, 20, STEP_YIELD };
	const struct job jobs[] = { job, job };
	const __s64 loops = 3 * (__s64)(LOOP_INSNS * job.n * job.pieces);
	__s64 value, other;
	int cpu[2];

	/* This process stays off the CPU that it counts, if there is another CPU. */
	ASSERT_EQ(0, pin_to_cpu(self->first_cpu));
	cpu[0] = open_on(_metadata, variant->maker, -1, self->last_cpu);
	cpu[1] = open_on(_metadata, variant->maker, -1, self->first_cpu);
	start_targets(_metadata, self, variant->maker, 2, self->last_cpu);
	ASSERT_EQ(0, target_start(&self->target[2], self->last_cpu, false));
	value = event_count(cpu[0]);
	other = event_count(cpu[1]);
	ASSERT_EQ(0, target_start_job(&self->target[2], job));
	expect_exact_together(_metadata, self, jobs, 2);
	ASSERT_EQ(0, target_wait_job(&self->target[2]));
	value = event_count(cpu[0]) - value;
	other = event_count(cpu[1]) - other;
	EXPECT_LE(loops, value);
	if (self->first_cpu != self->last_cpu) {
		/* Around the loops there are only some system calls. */
		EXPECT_GE(loops + 5 * (100 + 100 * (__s64)job.pieces), value);
		EXPECT_GT(loops, other);
	}
	close(cpu[0]);
	close(cpu[1]);
}

/* With inherit, an event of a CPU has the same count as without, and frees its counter. */
TEST_F(event, inherited_event_of_a_cpu_frees_its_counter)
{
	struct perf_event_attr attr = event_instructions();
	__s64 value;
	int fd, i;

	ASSERT_EQ(0, pin_to_cpu(self->first_cpu));
	attr.inherit = 1;
	for (i = 0; i < 20; i++) {
		fd = variant->maker->open(&attr, -1, self->first_cpu, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd) {
			TH_LOG("event %d: %s", i, strerror(-fd));
		}
		value = event_loop_count(fd, N);
		EXPECT_LE((__s64)(LOOP_INSNS * N), value);
		EXPECT_GE((__s64)(2 * LOOP_INSNS * N), value);
		close(fd);
	}
}

/* Expects at least @least context switches: the exact number varies. */
static void expect_switches(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			    int count, __u64 least)
{
	long switches = 0;
	int i;

	for (i = 0; i < count; i++)
		switches += target_switches(&self->target[i]);
	TH_LOG("%ld switches", switches);
	EXPECT_LE(least, (__u64)switches);
}

/*
 * Tasks that pass a byte around on one CPU, which switches each time. Predicts the count of the
 * long job from two short ones.
 */
static void expect_exact_ring(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			      const struct event_maker *maker, int count)
{
	const unsigned long rounds[] = { 1000, 2000, self->rounds / count };
	__s64 value[3][TARGETS];
	struct job jobs[TARGETS];
	int i, k;

	ASSERT_EQ(0, target_start_ring(self->target, count, self->first_cpu));
	for (i = 0; i < count; i++) {
		self->fd[i] = open_instructions(_metadata, maker, self->target[i].tid);
		ASSERT_EQ(0, event_enable(self->fd[i]));
	}
	for (k = 0; k < 3; k++) {
		for (i = 0; i < count; i++)
			jobs[i] = (struct job) { 10 + i, rounds[k], STEP_PASS };
		run_together(_metadata, self, jobs, count, value[k]);
	}
	for (i = 0; i < count; i++) {
		/* v(rounds) = a + b * rounds */
		__s64 per_thousand = value[1][i] - value[0][i];

		EXPECT_EQ(0, per_thousand % 1000);
		EXPECT_EQ(value[0][i] + per_thousand / 1000 * (__s64)(rounds[2] - 1000),
			  value[2][i]);
		EXPECT_LE((__s64)(LOOP_INSNS * (10 + i) * rounds[2]), value[2][i]);
	}
	expect_switches(_metadata, self, count, self->rounds);
}

TEST_F_TIMEOUT(event, many_switches_of_two_tasks, 3600)
{
	expect_exact_ring(_metadata, self, variant->maker, 2);
}

TEST_F_TIMEOUT(event, many_switches_of_four_tasks, 3600)
{
	expect_exact_ring(_metadata, self, variant->maker, 4);
}

/* Counts the same job of the same task by perf and by the module. */
TEST(perf_and_perfmon_count_the_same)
{
	const struct event_maker *const makers[] = {
		&event_maker_perf, &event_maker_perfmon, &event_maker_perf
	};
	const struct job job = { 1000, 1000, STEP_MOVE };
	struct target target;
	__s64 value[3];
	int i, fd;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, target_start(&target, -1, false));
	/* The first job starts on another CPU than the following jobs, so it is not compared. */
	ASSERT_EQ(0, target_run_job(&target, job));
	for (i = 0; i < 3; i++) {
		/* perf may give its counters back some time after close(2). */
		ASSERT_TRUE(event_wait_until_possible(makers[i], NULL));
		fd = open_instructions(_metadata, makers[i], target.tid);
		ASSERT_EQ(0, event_enable(fd));
		ASSERT_EQ(0, target_run_job(&target, job));
		value[i] = event_count(fd);
		close(fd);
	}
	EXPECT_EQ(value[0], value[1]);
	EXPECT_EQ(value[0], value[2]);
	target_kill(&target);
}

TEST_HARNESS_MAIN
