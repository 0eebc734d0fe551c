// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events on a hybrid processor with a big core and a small one. Events that both kinds have count
 * on both, and the sum is exact. A raw event counts on one kind only, and the times of read(2) show
 * it. Events of Linux's perf count on one kind only, and their counts on this kind are the same.
 *
 * On the virtual PMU event 0xd0 with unit mask 0x81 is instructions on big cores and branches on
 * small ones. Misses of the instruction cache are branches on both kinds of cores. Each kind has an
 * event select of its own for them, which is cycles on the other kind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_kinds.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define N		20000UL
#define PIECES		10UL	/* for each kind */
#define PERIOD		1009
#define ANY_CPU		(-1)

#define INSNS_OR_BRANCHES	0x81d0
#define INSTRUCTIONS	0xc0

/* PERF_TYPE_HW_CACHE: misses of reads of the instruction cache and of the data cache */
#define L1I_MISSES	0x10001
#define L1D_MISSES	0x10000

FIXTURE(kinds)
{
	int cpu[KINDS];		/* a big core, a small core */
	__u32 type[KINDS];	/* perf's types of their PMUs */
	struct target target;
	struct sampler sampler;
	int fd, second;
};

FIXTURE_SETUP(kinds)
{
	SKIP_WITHOUT_PMU();
	self->fd = self->second = self->sampler.fd = -1;
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, core_kinds_find(self->cpu, self->type));
	EXPECT_EQ((__u32)PERF_TYPE_RAW, self->type[0]);
}

FIXTURE_TEARDOWN(kinds)
{
	close(self->fd);
	close(self->second);
	sampler_close(&self->sampler);
	target_kill(&self->target);
}

/* Returns the attributes of an event of user mode, which is enabled. */
static struct perf_event_attr attr_of(__u32 type, __u64 config)
{
	struct perf_event_attr attr = event_instructions();

	attr.type = type;
	attr.config = config;
	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return attr;
}

static int open_event(const struct event_maker *maker, struct perf_event_attr attr, pid_t tid, int cpu)
{
	return maker->open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_self(struct perf_event_attr attr)
{
	return open_event(&event_maker_perfmon, attr, 0, ANY_CPU);
}

/* The result of read(2). */
struct reading {
	__s64 count;
	__u64 enabled, running;
};

static struct reading read_event(struct __test_metadata *_metadata, int fd)
{
	struct reading r = {};

	ASSERT_EQ((ssize_t)sizeof(r), read(fd, &r, sizeof(r)));
	return r;
}

/* Returns the count and the times, less those of @before. */
static struct reading growth(struct __test_metadata *_metadata, int fd, struct reading before)
{
	struct reading r = read_event(_metadata, fd);

	r.count -= before.count;
	r.enabled -= before.enabled;
	r.running -= before.running;
	return r;
}

/* Returns whether a count differs from the expected one by less than the count of any other event. */
static bool is_close(unsigned long expected, __s64 count)
{
	return llabs(count - (__s64)expected) < (__s64)expected / 20;
}

/*
 * Returns the growth of the event's count in loop_on_each_kind(). Not inlined, so that the
 * instructions around the loops are the same in every call.
 */
static __s64 __attribute__((noinline)) count_loops(const int *cpus, int fd, unsigned long n)
{
	__s64 before = event_count(fd);

	loop_on_each_kind(cpus, PIECES, n);
	return event_count(fd) - before;
}

/*
 * Returns the difference of the counts of two calls of loop_on_each_kind() with PIECES: each loop
 * of the second call has N more iterations.
 */
static __s64 count_added_loops(const int *cpus, int fd)
{
	__s64 least;

	/* Each call begins and ends on the last CPU. */
	pin_to_cpu(cpus[KINDS - 1]);
	least = count_loops(cpus, fd, 1);
	return count_loops(cpus, fd, N + 1) - least;
}

/* Expects the count of an event of this task for each iteration on each kind of core. */
static void expect_per_loop(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			    struct perf_event_attr attr, unsigned long big, unsigned long small)
{
	self->fd = open_self(attr);
	ASSERT_LE(0, self->fd) {
		TH_LOG("type %u, config %#llx: %s", attr.type, attr.config, strerror(-self->fd));
	}
	EXPECT_EQ((__s64)(N * PIECES * (big + small)),
		  count_added_loops(self->cpu, self->fd)) {
		TH_LOG("type %u, config %#llx", attr.type, attr.config);
	}
	close(self->fd);
}

TEST_F(kinds, events_of_all_kinds_add_up)
{
	expect_per_loop(_metadata, self,
			attr_of(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS), 2, 2);
	expect_per_loop(_metadata, self,
			attr_of(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS), 1, 1);
	expect_per_loop(_metadata, self, attr_of(PERF_TYPE_HW_CACHE, L1I_MISSES), 1, 1);
	/* Reads of the data cache have the same event select, which is instructions or branches. */
	expect_per_loop(_metadata, self, attr_of(PERF_TYPE_HW_CACHE, 0), 2, 1);
}

TEST_F(kinds, events_of_one_kind_count_there_only)
{
	const unsigned long mixed[] = { 2, 1 };
	int i;

	for (i = 0; i < KINDS; i++) {
		const unsigned long big = !i, small = i;
		const __u64 pmu = (__u64)self->type[i] << 32;

		expect_per_loop(_metadata, self, attr_of(self->type[i], INSNS_OR_BRANCHES),
				mixed[i] * big, mixed[i] * small);
		expect_per_loop(_metadata, self, attr_of(self->type[i], INSTRUCTIONS),
				2 * big, 2 * small);
		expect_per_loop(_metadata, self, attr_of(PERF_TYPE_HARDWARE, pmu | 1),
				2 * big, 2 * small);
		expect_per_loop(_metadata, self, attr_of(PERF_TYPE_HW_CACHE, pmu | L1I_MISSES),
				big, small);
	}
}

/* The time on the other kind is enabled, and not running. */
TEST_F(kinds, times_show_where_an_event_counts)
{
	struct reading all;
	int i;

	for (i = 0; i < KINDS; i++) {
		struct reading before, there, elsewhere;

		self->fd = open_self(attr_of(self->type[i], INSNS_OR_BRANCHES));
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, pin_to_cpu(self->cpu[i]));
		before = read_event(_metadata, self->fd);
		loop(N);
		there = growth(_metadata, self->fd, before);
		EXPECT_LT((__s64)N, there.count);
		EXPECT_LT(0ULL, there.running);
		EXPECT_EQ(there.enabled, there.running);

		ASSERT_EQ(0, pin_to_cpu(self->cpu[!i]));
		before = read_event(_metadata, self->fd);
		loop(N);
		elsewhere = growth(_metadata, self->fd, before);
		EXPECT_EQ(0, elsewhere.count);
		EXPECT_EQ(0ULL, elsewhere.running);
		EXPECT_LT(0ULL, elsewhere.enabled);
		close(self->fd);
	}
	self->fd = open_self(attr_of(PERF_TYPE_HW_CACHE, L1I_MISSES));
	ASSERT_LE(0, self->fd);
	loop_on_each_kind(self->cpu, PIECES, N);
	all = read_event(_metadata, self->fd);
	EXPECT_EQ(all.enabled, all.running);
}

/* Programs compare the time without a counter between two readings, to see whether a count is whole. */
TEST_F(kinds, time_without_counter_is_constant_while_an_event_counts)
{
	struct reading first, next;
	int i;

	self->fd = open_self(attr_of(self->type[0], INSNS_OR_BRANCHES));
	ASSERT_LE(0, self->fd);
	for (i = 0; i < KINDS; i++) {
		ASSERT_EQ(0, pin_to_cpu(self->cpu[!i]));
		loop(N);
	}
	first = read_event(_metadata, self->fd);
	EXPECT_LT(first.running, first.enabled);
	for (i = 0; i < 100; i++) {
		next = read_event(_metadata, self->fd);
		EXPECT_EQ(first.enabled - first.running, next.enabled - next.running);
	}
}

/*
 * An event of one kind is also enabled on the other kind: it has records of its task there, but no
 * counts.
 */
TEST_F(kinds, events_have_records_on_each_kind)
{
	struct sampler *s = &self->sampler;
	int i, k;

	for (i = 0; i < KINDS; i++) {
		struct perf_event_attr attr = attr_of(self->type[i], INSNS_OR_BRANCHES);

		attr.comm = 1;
		ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, 0, ANY_CPU, 2));
		for (k = 0; k < KINDS; k++) {
			ASSERT_EQ(0, pin_to_cpu(self->cpu[k]));
			ASSERT_EQ(0, prctl(PR_SET_NAME, k ? "small" : "big"));
			ASSERT_TRUE(event_ring_next(&s->ring, &s->record)) {
				TH_LOG("event of kind %d: no record on kind %d", i, k);
			}
			EXPECT_EQ(PERF_RECORD_COMM, (int)s->record.header.type);
		}
		sampler_close(s);
	}
}

/* A task that moves between the kinds while it runs, and is counted by another task */
TEST_F(kinds, a_task_that_moves_is_counted_on_both_kinds)
{
	const struct { __u32 type; __u64 config; unsigned long per_kind[KINDS]; } events[] = {
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, { 2, 2 } },
		{ PERF_TYPE_HW_CACHE, L1I_MISSES, { 1, 1 } },
		{ PERF_TYPE_RAW, INSNS_OR_BRANCHES, { 2, 0 } },
		{ self->type[1], INSNS_OR_BRANCHES, { 0, 1 } },
	};
	struct job job = { .n = 1, .pieces = 2 * PIECES, .step = STEP_MOVE };
	unsigned int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		const unsigned long *per_kind = events[i].per_kind;
		__s64 least;

		self->fd = open_event(&event_maker_perfmon, attr_of(events[i].type, events[i].config),
				      self->target.tid, ANY_CPU);
		ASSERT_LE(0, self->fd);
		job.n = 1;
		ASSERT_EQ(0, target_run_job(&self->target, job));
		least = read_event(_metadata, self->fd).count;
		job.n = N + 1;
		ASSERT_EQ(0, target_run_job(&self->target, job));
		EXPECT_EQ((__s64)(N * PIECES * (per_kind[0] + per_kind[1])),
			  read_event(_metadata, self->fd).count - 2 * least) {
			TH_LOG("event %u", i);
		}
		close(self->fd);
	}
}

/* Forks a child for each kind, which executes loop(@n) there. */
static void run_children(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			 unsigned long n)
{
	int i, status;

	for (i = 0; i < KINDS; i++) {
		const pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child) {
			if (pin_to_cpu(self->cpu[i]))
				_exit(1);
			loop(n);
			_exit(0);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_EQ(0, status);
	}
}

TEST_F(kinds, inherited_events_count_on_both_kinds)
{
	const struct { __u32 type; __u64 config; unsigned long sum; } events[] = {
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 4 },
		{ PERF_TYPE_HW_CACHE, L1I_MISSES, 2 },
		{ PERF_TYPE_RAW, INSNS_OR_BRANCHES, 2 },
		{ self->type[1], INSNS_OR_BRANCHES, 1 },
	};
	unsigned int i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu[0]));
	run_children(_metadata, self, 1);
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		struct perf_event_attr attr = attr_of(events[i].type, events[i].config);
		struct reading first, second;

		attr.inherit = 1;
		self->fd = open_self(attr);
		ASSERT_LE(0, self->fd);
		run_children(_metadata, self, 1);
		first = read_event(_metadata, self->fd);
		run_children(_metadata, self, N + 1);
		second = growth(_metadata, self->fd, first);
		/* Around the loops, fork(2) may take a few instructions more or less. */
		EXPECT_TRUE(is_close(N * events[i].sum, second.count - first.count)) {
			TH_LOG("event %u: %lld", i, second.count - first.count);
		}
		close(self->fd);
	}
}

/*
 * All members of a group count on the same kinds, so the times of the group are the times of each
 * member.
 */
TEST_F(kinds, groups_are_of_the_same_kinds)
{
	struct perf_event_attr all = attr_of(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	struct perf_event_attr other = attr_of(PERF_TYPE_HW_CACHE, L1I_MISSES);
	struct perf_event_attr big = attr_of(PERF_TYPE_RAW, INSNS_OR_BRANCHES);
	struct perf_event_attr small = attr_of(self->type[1], INSNS_OR_BRANCHES);
	const struct event_maker *maker = &event_maker_perfmon;
	struct { __u64 nr, enabled, running; __s64 counts[2]; } least, most;

	all.read_format |= PERF_FORMAT_GROUP;
	self->fd = open_self(all);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(-EINVAL, maker->open(&big, 0, ANY_CPU, self->fd, 0));
	EXPECT_EQ(-EINVAL, maker->open(&small, 0, ANY_CPU, self->fd, 0));
	self->second = maker->open(&other, 0, ANY_CPU, self->fd, 0);
	ASSERT_LE(0, self->second);
	loop_on_each_kind(self->cpu, PIECES, 1);
	ASSERT_EQ((ssize_t)sizeof(least), read(self->fd, &least, sizeof(least)));
	loop_on_each_kind(self->cpu, PIECES, N + 1);
	ASSERT_EQ((ssize_t)sizeof(most), read(self->fd, &most, sizeof(most)));
	EXPECT_TRUE(is_close(4 * N * PIECES, most.counts[0] - 2 * least.counts[0]));
	EXPECT_TRUE(is_close(2 * N * PIECES, most.counts[1] - 2 * least.counts[1]));
	EXPECT_EQ(most.enabled, most.running);
	close(self->second);
	close(self->fd);

	big.read_format |= PERF_FORMAT_GROUP;
	self->fd = open_self(big);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(-EINVAL, maker->open(&small, 0, ANY_CPU, self->fd, 0));
	self->second = maker->open(&big, 0, ANY_CPU, self->fd, 0);
	ASSERT_LE(0, self->second);
	loop_on_each_kind(self->cpu, PIECES, N);
	ASSERT_EQ((ssize_t)sizeof(most), read(self->fd, &most, sizeof(most)));
	EXPECT_EQ(most.counts[0], most.counts[1]);
	EXPECT_GT(most.enabled, most.running);
	EXPECT_LT(0ULL, most.running);
}

/* The CPUs of samples. */
struct sample_cpus {
	int cpu[KINDS];
	unsigned long samples[KINDS], elsewhere;
};

static void count_cpu(const struct sample *s, void *data)
{
	struct sample_cpus *c = data;

	if ((int)s->cpu == c->cpu[0])
		c->samples[0]++;
	else if ((int)s->cpu == c->cpu[1])
		c->samples[1]++;
	else
		c->elsewhere++;
}

/* Expects samples of an event of this task on the kinds where it counts, as many as are due. */
static void expect_samples(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			   __u32 type, __u64 config, bool on_big, bool on_small)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_cpus cpus = { .cpu = { self->cpu[0], self->cpu[1] } };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__s64 count;

	attr.type = type;
	attr.config = config;
	ASSERT_EQ(0, sampler_open(&self->sampler, &event_maker_perfmon, &attr, 0, ANY_CPU, 8));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	loop_on_each_kind(self->cpu, PIECES, N);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	count = event_count(self->sampler.fd);
	sampler_read(&self->sampler, &sums, count_cpu, &cpus);
	EXPECT_EQ((unsigned long)count / PERIOD, sums.samples + sums.lost);
	EXPECT_EQ(0UL, cpus.elsewhere);
	EXPECT_EQ(on_big, cpus.samples[0] > 0);
	EXPECT_EQ(on_small, cpus.samples[1] > 0);
	sampler_close(&self->sampler);
}

TEST_F(kinds, samples_come_from_the_kinds_that_count)
{
	expect_samples(_metadata, self, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, true, true);
	expect_samples(_metadata, self, PERF_TYPE_HW_CACHE, L1I_MISSES, true, true);
	expect_samples(_metadata, self, PERF_TYPE_RAW, INSNS_OR_BRANCHES, true, false);
	expect_samples(_metadata, self, self->type[1], INSNS_OR_BRANCHES, false, true);
}

/* An event of a CPU of the other kind is refused, as in perf. */
TEST_F(kinds, events_of_cpus_are_of_their_kind)
{
	const struct event_maker *makers[] = { &event_maker_perf, &event_maker_perfmon };
	unsigned int m;
	int i;

	for (m = 0; m < ARRAY_SIZE(makers); m++) {
		/* perf may give its counters back some time after close(2). */
		ASSERT_TRUE(event_wait_until_possible(makers[m], NULL));
		for (i = 0; i < KINDS; i++) {
			struct perf_event_attr raw = attr_of(self->type[i], INSNS_OR_BRANCHES);
			const int cpu = self->cpu[i], other = self->cpu[!i];

			EXPECT_EQ(-ENOENT, open_event(makers[m], raw, -1, other));
			EXPECT_EQ(-ENOENT, open_event(makers[m], raw, 0, other));
			self->fd = open_event(makers[m], raw, -1, cpu);
			EXPECT_LE(0, self->fd) {
				TH_LOG("%s, CPU %d", makers[m]->name, cpu);
			}
			ASSERT_EQ(0, pin_to_cpu(cpu));
			loop(N);
			EXPECT_LE((__s64)N, event_count(self->fd));
			close(self->fd);
			/* On a CPU, an event of all kinds counts the event of the CPU's kind. */
			self->fd = open_event(makers[m], attr_of(PERF_TYPE_HW_CACHE, L1I_MISSES), -1,
					      cpu);
			EXPECT_LE(0, self->fd);
			loop(N);
			EXPECT_LE((__s64)N, event_count(self->fd));
			close(self->fd);
		}
		/* Small cores have no such event. */
		EXPECT_EQ(-ENOENT, open_event(makers[m], attr_of(PERF_TYPE_HW_CACHE, L1D_MISSES), -1,
					      self->cpu[1]));
	}
}

/* perf counts the same on each kind. */
TEST_F(kinds, perf_counts_the_same_on_each_kind)
{
	int i;

	for (i = 0; i < KINDS; i++) {
		const __u64 pmu = (__u64)self->type[i] << 32;
		const struct perf_event_attr attrs[] = {
			attr_of(self->type[i], INSNS_OR_BRANCHES),
			attr_of(self->type[i], INSTRUCTIONS),
			attr_of(PERF_TYPE_HARDWARE, pmu | PERF_COUNT_HW_INSTRUCTIONS),
			attr_of(PERF_TYPE_HW_CACHE, pmu | L1I_MISSES),
		};
		unsigned int a;

		for (a = 0; a < ARRAY_SIZE(attrs); a++) {
			__s64 perfs, ours;

			self->fd = open_event(&event_maker_perf, attrs[a], 0, ANY_CPU);
			ASSERT_LE(0, self->fd);
			perfs = count_added_loops(self->cpu, self->fd);
			close(self->fd);
			ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
			self->fd = open_event(&event_maker_perfmon, attrs[a], 0, ANY_CPU);
			ASSERT_LE(0, self->fd);
			ours = count_added_loops(self->cpu, self->fd);
			close(self->fd);
			ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
			EXPECT_EQ(perfs, ours) {
				TH_LOG("kind %d, event %u", i, a);
			}
			EXPECT_LT(0, ours);
		}
	}
}

/* Counters of the device count all CPUs, so the event has to be the same on all. */
TEST_F(kinds, counters_of_all_cpus_count_events_of_all_kinds)
{
	struct perfmon_event_definition definition = {
		.id = PERFMON_GROUP_MODEL << 10 | 1,
		.select = INSNS_OR_BRANCHES,
	};
	int device = open_device(_metadata, O_RDWR);

	EXPECT_EQ(-EOPNOTSUPP, pmc_setup2(device, 0, INSNS_OR_BRANCHES | 1 << 16));
	EXPECT_EQ(0, pmc_setup2(device, 0, INSTRUCTIONS | 1 << 16));
	EXPECT_EQ(0, pmc_setup2(device, 0, 0xc4 | 1 << 16));
	EXPECT_EQ(-EOPNOTSUPP, device_ioctl(device, PERFMON_DEFINE_EVENT, &definition));
	definition.select = INSTRUCTIONS;
	EXPECT_EQ(0, device_ioctl(device, PERFMON_DEFINE_EVENT, &definition));
	close(device);
}

TEST_HARNESS_MAIN
