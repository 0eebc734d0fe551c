// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters of the kinds of cores of a hybrid processor: an event of one kind can have any
 * counter of that kind, and an event of all kinds can have the counters that all kinds have. The
 * module accesses only counters that a CPU has: an access to any other counter would be an error in
 * the kernel's log.
 *
 * If the kinds have the same counters, tests of the further counters of the big cores have
 * nothing to test, and return.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core_kinds.h"
#include "cpu.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"
#include "perf.h"
#include "system_sleep.h"
#include "trace.h"
#include "trace_fixture.h"

#define N		20000UL
#define PIECES		5UL	/* for each kind */
#define PERIOD		5003
#define ANY_CPU		(-1)
#define BRANCHES	0xc4

/* An event select that counts nothing, since its enable bit is clear */
#define OTHER_SELECT	0x100c4ULL

enum { BIG, SMALL };

FIXTURE(counters)
{
	int cpu[KINDS];
	__u32 type[KINDS];	/* perf's types of their PMUs */
	int general[KINDS];	/* numbers of general counters that events can have */
	int common;		/* number of general counters that all kinds have */
	struct perfmon_properties p;
	int device;
	int fd[2 * NPMC];	/* the open events: those of a kind have different counters */
	int kind[2 * NPMC];		/* the kind of core that counts an event, or KINDS for all */
	int opened;
};

FIXTURE_SETUP(counters)
{
	int fixed[KINDS];

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, core_kinds_find(self->cpu, self->type));
	self->device = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->device, &self->p));
	ASSERT_EQ(0, core_kinds_counters(self->device, self->cpu, self->general, fixed));
	self->common = self->general[self->general[BIG] > self->general[SMALL] ? SMALL : BIG];
	ASSERT_LT(0, self->common);
	EXPECT_EQ(self->common, self->p.max_num_programmable_events);
}

/* Closes the events. */
static void close_events(FIXTURE_DATA(counters) *self)
{
	while (self->opened)
		close(self->fd[--self->opened]);
}

FIXTURE_TEARDOWN(counters)
{
	close_events(self);
	close(self->device);
}

/* Returns the attributes of sampled branches of user mode on a kind of core, or on all (KINDS). */
static struct perf_event_attr branches_of(const FIXTURE_DATA(counters) *self, int kind)
{
	struct perf_event_attr attr = event_instructions();

	attr.type = kind < KINDS ? self->type[kind] : (__u32)PERF_TYPE_HARDWARE;
	attr.config = kind < KINDS ? BRANCHES : PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.sample_period = PERIOD;
	attr.disabled = 0;
	return attr;
}

/*
 * Opens events of this task until there is no counter for one more. Each needs a counter of its
 * own, and no fixed counter can count it. Returns the number of events.
 */
static int open_until_busy(struct __test_metadata *_metadata, FIXTURE_DATA(counters) *self,
			   int kind)
{
	const int before = self->opened;
	int fd;

	for (;;) {
		struct perf_event_attr attr = branches_of(self, kind);

		fd = event_maker_perfmon.open(&attr, 0, ANY_CPU, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0)
			break;
		ASSERT_GT(2 * NPMC, self->opened);
		self->kind[self->opened] = kind;
		self->fd[self->opened++] = fd;
	}
	EXPECT_EQ(-EBUSY, fd);
	return self->opened - before;
}

/*
 * Puts the growth of each event's count in loop_on_each_kind() into @growth. Not inlined, so that
 * the instructions around the loops are the same in every call.
 */
static void __attribute__((noinline)) count_loops(const FIXTURE_DATA(counters) *self,
						  unsigned long n, __s64 growth[2 * NPMC])
{
	int i;

	for (i = 0; i < self->opened; i++)
		growth[i] = -event_count(self->fd[i]);
	loop_on_each_kind(self->cpu, PIECES, n);
	for (i = 0; i < self->opened; i++)
		growth[i] += event_count(self->fd[i]);
}

/* Expects that each event counts each iteration of the loops on its kind of core. */
static void expect_exact(struct __test_metadata *_metadata, const FIXTURE_DATA(counters) *self)
{
	__s64 least[2 * NPMC], most[2 * NPMC];
	int i;

	/* Each call begins and ends on the last CPU. */
	pin_to_cpu(self->cpu[KINDS - 1]);
	count_loops(self, 1, least);
	count_loops(self, N + 1, most);
	for (i = 0; i < self->opened; i++) {
		const unsigned long kinds = self->kind[i] < KINDS ? 1 : KINDS;

		EXPECT_EQ((__s64)(N * PIECES * kinds), most[i] - least[i]) {
			TH_LOG("event %d, of kind %d", i, self->kind[i]);
		}
	}
}

TEST_F(counters, events_of_a_kind_have_all_its_counters)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		EXPECT_EQ(self->general[kind], open_until_busy(_metadata, self, kind));
		expect_exact(_metadata, self);
		close_events(self);
	}
}

TEST_F(counters, events_of_all_kinds_have_the_common_counters)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		EXPECT_EQ(self->common, open_until_busy(_metadata, self, KINDS));
		EXPECT_EQ(self->general[kind] - self->common,
			  open_until_busy(_metadata, self, kind));
		expect_exact(_metadata, self);
		close_events(self);
	}
}

/* Events of different kinds of cores never count on the same CPU, so they share counters. */
TEST_F(counters, events_of_both_kinds_have_all_counters_of_their_kind)
{
	EXPECT_EQ(self->general[BIG], open_until_busy(_metadata, self, BIG));
	EXPECT_EQ(self->general[SMALL], open_until_busy(_metadata, self, SMALL));
	expect_exact(_metadata, self);
}

/*
 * An event of the big cores takes a counter that only they have, if possible, and leaves the common
 * counters to others.
 */
TEST_F(counters, further_counters_are_taken_first)
{
	struct perf_event_attr attr = branches_of(self, BIG);
	const int further = self->general[BIG] - self->common;

	for (; self->opened < further; self->opened++) {
		self->fd[self->opened] = event_maker_perfmon.open(&attr, 0, ANY_CPU, -1, 0);
		self->kind[self->opened] = BIG;
		ASSERT_LE(0, self->fd[self->opened]);
	}
	EXPECT_EQ(self->common, open_until_busy(_metadata, self, KINDS));
	expect_exact(_metadata, self);
}

/*
 * Sessions can have only the common counters, but PERFMON_GET_OWNER reports the owners of all
 * counters.
 */
TEST_F(counters, further_counters_have_owners)
{
	struct perfmon_counter_owner owner = {};
	int num;

	for (num = self->common; num < self->general[BIG]; num++) {
		owner.num = num;
		ASSERT_EQ(0, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
		EXPECT_EQ((__u32)PERFMON_OWNER_NONE, owner.kind);
	}
	ASSERT_EQ(self->general[BIG], open_until_busy(_metadata, self, BIG));
	for (num = self->common; num < self->general[BIG]; num++) {
		owner.num = num;
		ASSERT_EQ(0, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
		EXPECT_EQ((__u32)PERFMON_OWNER_TASKS, owner.kind);
		EXPECT_EQ(getpid(), owner.pid);
		EXPECT_EQ(1U, owner.users);
		EXPECT_EQ(-EINVAL, pmc_setup(self->device, num, EVENT_INSTRUCTIONS, PMCF_USR));
	}
	owner.num = self->general[BIG];
	EXPECT_EQ(-EINVAL, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
}

/* Returns the value of a register of a big core. */
static __u64 big_register(struct __test_metadata *_metadata, const FIXTURE_DATA(counters) *self,
			  __u32 msr)
{
	__u64 value = 0;

	EXPECT_EQ(0, msr_read(self->cpu[BIG], msr, &value));
	return value;
}

TEST_F(counters, registers_of_further_counters_are_restored)
{
	int num;

	for (num = self->common; num < self->general[BIG]; num++) {
		__u64 value;

		ASSERT_EQ(0, msr_write(self->cpu[BIG], MSR_IA32_PERFEVTSEL0 + num, OTHER_SELECT));
		ASSERT_EQ(0, msr_write(self->cpu[BIG], MSR_IA32_PMC0 + num, 0));
		/* Small cores have no such registers. */
		EXPECT_EQ(-EIO, msr_read(self->cpu[SMALL], MSR_IA32_PERFEVTSEL0 + num, &value));
	}
	ASSERT_EQ(self->general[BIG], open_until_busy(_metadata, self, BIG));
	expect_exact(_metadata, self);
	for (num = self->common; num < self->general[BIG]; num++) {
		EXPECT_NE(0ULL, big_register(_metadata, self, MSR_IA32_PERFEVTSEL0 + num) &
				PERFEVTSEL_EN);
		EXPECT_NE(0ULL, big_register(_metadata, self, MSR_IA32_PMC0 + num));
	}
	close_events(self);
	for (num = self->common; num < self->general[BIG]; num++) {
		EXPECT_EQ(OTHER_SELECT,
			  big_register(_metadata, self, MSR_IA32_PERFEVTSEL0 + num));
		EXPECT_EQ(0ULL, big_register(_metadata, self, MSR_IA32_PMC0 + num));
		EXPECT_EQ(0, msr_write(self->cpu[BIG], MSR_IA32_PERFEVTSEL0 + num, 0));
	}
}

/* CPUs go offline and come online while events of each kind have all counters. */
TEST_F(counters, cpus_go_offline_and_come_online)
{
	int kind, i;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(self->general[kind], open_until_busy(_metadata, self, kind));
		for (i = 0; i < KINDS; i++) {
			/* Linux can't take the first CPU offline. */
			const int online = cpu_open_online(self->cpu[i]);

			if (online < 0)
				continue;
			ASSERT_EQ(0, pin_to_cpu(self->cpu[!i]));
			EXPECT_EQ(0, cpu_set_online(online, "0"));
			EXPECT_EQ(0, cpu_set_online(online, "1"));
			close(online);
			expect_exact(_metadata, self);
		}
		close_events(self);
	}
}

TEST_F(counters, the_system_sleeps)
{
	const struct system_sleep how = { .level = "devices", .state = "freeze" };
	int kind;

	ASSERT_EQ(0, system_sleep_prepare(&how));
	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(self->general[kind], open_until_busy(_metadata, self, kind));
		EXPECT_EQ(0, system_sleep_once(&how));
		expect_exact(_metadata, self);
		close_events(self);
	}
	system_sleep_end();
}

/* Traces have the common counters. */
TEST_F(counters, a_trace_runs_beside_events)
{
	struct perfmon_config config = {};
	struct perfmon_properties more = self->p;
	struct trace t;
	int i, n;

	ASSERT_EQ(self->general[BIG], open_until_busy(_metadata, self, BIG));
	/* The events that were opened last have common counters; closes these. */
	while (self->opened > self->general[BIG] - self->common)
		close(self->fd[--self->opened]);
	ASSERT_EQ(0, trace_alloc(&t, self->device, 16));
	define_instructions(_metadata, self->device, self->common + 1);
	more.max_num_programmable_events++;
	more.max_num_fixed_events = 0;
	n = trace_all_counters(&config, &more);
	for (i = 0; i < n; i++)
		config.flags[i] = FLAG_USER;
	EXPECT_EQ(-EINVAL, trace_stage(&t, &config));

	memset(&config, 0, sizeof(config));
	n = trace_all_counters(&config, &self->p);
	for (i = 0; i < n; i++)
		config.flags[i] = FLAG_USER;
	ASSERT_EQ(0, trace_stage(&t, &config));
	ASSERT_EQ(0, trace_start(&t));
	EXPECT_EQ(0, open_until_busy(_metadata, self, BIG));
	expect_exact(_metadata, self);
	EXPECT_EQ(0, trace_stop(&t));
	/* Now the trace lacks a counter. */
	EXPECT_EQ(self->common, open_until_busy(_metadata, self, BIG));
	close(self->fd[--self->opened]);
	EXPECT_EQ(self->common > 1 ? -EBUSY : 0, trace_start(&t));
	EXPECT_EQ(0, trace_free(&t));
}

/* Linux's perf can use the further counters before and after the module uses them. */
TEST_F(counters, perf_uses_the_counters_in_turn)
{
	int round, i;

	/*
	 * Lifts perf's limits, because on a busy host perf would throttle the events, which would
	 * then count less.
	 */
	ASSERT_EQ(0, perf_lift_limits());
	for (round = 0; round < 2; round++) {
		struct perf_event_attr attr = branches_of(self, BIG);
		int fd[NPMC];

		ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
		ASSERT_EQ(0, pin_to_cpu(self->cpu[BIG]));
		for (i = 0; i < self->general[BIG]; i++) {
			fd[i] = event_maker_perf.open(&attr, 0, ANY_CPU, i ? fd[0] : -1, 0);
			ASSERT_LE(0, fd[i]);
		}
		loop(N);
		for (i = 0; i < self->general[BIG]; i++) {
			EXPECT_LE((__s64)N, event_count(fd[i]));
			close(fd[i]);
		}
		ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
		EXPECT_EQ(self->general[BIG], open_until_busy(_metadata, self, BIG));
		expect_exact(_metadata, self);
		close_events(self);
	}
}

TEST_HARNESS_MAIN
