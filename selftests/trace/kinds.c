// SPDX-License-Identifier: GPL-2.0-only
/*
 * A trace with events of one kind of core of a hybrid processor (PERFMON_DEFINE_EVENT with a type).
 * The buffers of CPUs of this kind have exact records of the event, and other buffers have none.
 *
 * On the virtual PMU event 0xd0 with unit mask 0x81 is instructions on big cores and branches on
 * small ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core_kinds.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "trace.h"
#include "trace_fixture.h"

#define N		20000UL
#define PIECES		5UL	/* for each kind */
#define RATE		997
#define PAGES		64

#define INSNS_OR_BRANCHES	0x81d0ULL
#define BRANCHES		0xc4ULL

/* The number of general counters of big cores that count INSNS_OR_BRANCHES, from 0 on */
#define BIG_COUNTERS		4

enum { BIG, SMALL };

/* The count of INSNS_OR_BRANCHES in one iteration of loop(), on each kind */
static const unsigned long per_iteration[KINDS] = { LOOP_INSNS, 1 };

FIXTURE(kinds)
{
	int cpu[KINDS];
	__u32 type[KINDS];	/* perf's types of their PMUs */
	int general[KINDS];	/* numbers of general counters that traces can have */
	int fixed[KINDS];	/* numbers of fixed counters */
	struct trace trace;
	int fd;
};

FIXTURE_SETUP(kinds)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, core_kinds_find(self->cpu, self->type));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, core_kinds_counters(self->fd, self->cpu, self->general, self->fixed));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
}

FIXTURE_TEARDOWN(kinds)
{
	trace_free(&self->trace);
	close(self->fd);
}

/* Defines MODEL event @n on the CPUs whose kind has this type. */
static int define_on(int fd, unsigned int n, __u64 select, __u32 type)
{
	struct perfmon_event_definition definition = {
		.id = MODEL_EVENT(n),
		.type = type,
		.select = select,
	};

	return device_ioctl(fd, PERFMON_DEFINE_EVENT, &definition);
}

/* Puts an event of user mode into a config. */
static void add_event(struct perfmon_config *c, int i, __u16 id, __u32 rate, __u32 flags)
{
	c->events[i] = id;
	c->rate[i] = rate;
	c->flags[i] = FLAG_USER | flags;
}

/*
 * Runs the trace over loop_on_each_kind(), and adds the records of each CPU up. Not inlined, so
 * that the instructions around the loops are the same in every call.
 */
static void __attribute__((noinline)) record_loops(struct __test_metadata *_metadata,
						   FIXTURE_DATA(kinds) *self, unsigned long n,
						   struct trace_sums sums[KINDS])
{
	int kind;

	ASSERT_EQ(0, pin_to_cpu(self->cpu[KINDS - 1]));
	ASSERT_EQ(0, trace_start(&self->trace));
	loop_on_each_kind(self->cpu, PIECES, n);
	ASSERT_EQ(0, trace_stop(&self->trace));
	for (kind = 0; kind < KINDS; kind++)
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu[kind], &sums[kind]));
}

/* Stages a config, and records short and long loops with it. */
static void record(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
		   const struct perfmon_config *c, struct trace_sums least[KINDS],
		   struct trace_sums most[KINDS])
{
	ASSERT_EQ(0, trace_stage(&self->trace, c));
	record_loops(_metadata, self, 1, least);
	record_loops(_metadata, self, N + 1, most);
}

/* Expects that event @i counts @per for each iteration of the added loops on a CPU of @kind. */
static void expect_growth(struct __test_metadata *_metadata, const struct trace_sums least[KINDS],
			  const struct trace_sums most[KINDS], unsigned long per, int kind, int i)
{
	EXPECT_EQ((__u64)(N * PIECES * per),
		  most[kind].event[i].total - least[kind].event[i].total) {
		TH_LOG("kind %d, event %d", kind, i);
	}
}

/* Expects that a CPU has no record of an event, not even a record with a count of 0. */
static void expect_none(struct __test_metadata *_metadata, const struct trace_sum *sum)
{
	EXPECT_EQ(0ULL, sum->ticks);
	EXPECT_EQ(0ULL, sum->counts);
}

TEST_F(kinds, each_kind_records_its_own_event)
{
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, define_on(self->fd, kind, INSNS_OR_BRANCHES, self->type[kind]));
		add_event(&c, kind, MODEL_EVENT(kind), 0, 0);
	}
	add_event(&c, KINDS, INSTRUCTIONS, 0, 0);
	record(_metadata, self, &c, least, most);
	for (kind = 0; kind < KINDS; kind++) {
		expect_growth(_metadata, least, most, per_iteration[kind], kind, kind);
		EXPECT_LE(1ULL, most[kind].event[kind].counts);
		expect_none(_metadata, &most[kind].event[!kind]);
		expect_growth(_metadata, least, most, LOOP_INSNS, kind, KINDS);
	}
}

TEST_F(kinds, samples_are_of_the_kind_that_counts)
{
	struct trace_sums least[KINDS], most[KINDS];
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		struct perfmon_config c = {};

		ASSERT_EQ(0, define_on(self->fd, 0, INSNS_OR_BRANCHES, self->type[kind]));
		add_event(&c, 0, MODEL_EVENT(0), RATE, FLAG_PC);
		add_event(&c, 1, INSTRUCTIONS, 0, 0);
		record(_metadata, self, &c, least, most);
		expect_growth(_metadata, least, most, per_iteration[kind], kind, 0);
		EXPECT_LT(0ULL, most[kind].event[0].ticks);
		if (!(self->trace.buffer[self->cpu[kind]]->flags & PERFMON_BUFFER_FLAG_THROTTLED))
			EXPECT_EQ(most[kind].event[0].total / RATE, most[kind].event[0].ticks);
		expect_none(_metadata, &most[!kind].event[0]);
		expect_growth(_metadata, least, most, LOOP_INSNS, BIG, 1);
		expect_growth(_metadata, least, most, LOOP_INSNS, SMALL, 1);
		ASSERT_EQ(0, trace_free(&self->trace));
		ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	}
}

/* With a timebase of one kind, events of this kind can follow it. */
TEST_F(kinds, events_follow_a_timebase_of_their_kind)
{
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, define_on(self->fd, 2 * kind, INSNS_OR_BRANCHES, self->type[kind]));
		ASSERT_EQ(0, define_on(self->fd, 2 * kind + 1, EVENT_INSTRUCTIONS, self->type[kind]));
	}
	for (kind = 0; kind < KINDS; kind++) {
		add_event(&c, 0, MODEL_EVENT(2 * kind), RATE, 0);
		add_event(&c, 1, INSTRUCTIONS, 0, FLAG_TIMEBASE0);
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		add_event(&c, 1, MODEL_EVENT(2 * !kind + 1), 0, FLAG_TIMEBASE0);
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		add_event(&c, 1, MODEL_EVENT(2 * kind + 1), 0, FLAG_TIMEBASE0);
		record(_metadata, self, &c, least, most);
		expect_growth(_metadata, least, most, per_iteration[kind], kind, 0);
		expect_growth(_metadata, least, most, LOOP_INSNS, kind, 1);
		EXPECT_LE(most[kind].event[0].ticks, most[kind].event[1].counts);
		expect_none(_metadata, &most[!kind].event[0]);
		expect_none(_metadata, &most[!kind].event[1]);
	}
}

/*
 * An event of one kind can follow a timebase of all CPUs. It does so only on the CPUs of its kind.
 */
TEST_F(kinds, events_of_a_kind_follow_a_timebase_of_all)
{
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};

	ASSERT_EQ(0, define_on(self->fd, 0, INSNS_OR_BRANCHES, self->type[SMALL]));
	add_event(&c, 0, INSTRUCTIONS, RATE, 0);
	add_event(&c, 1, MODEL_EVENT(0), 0, FLAG_TIMEBASE0);
	record(_metadata, self, &c, least, most);
	expect_growth(_metadata, least, most, LOOP_INSNS, BIG, 0);
	expect_growth(_metadata, least, most, LOOP_INSNS, SMALL, 0);
	expect_growth(_metadata, least, most, per_iteration[SMALL], SMALL, 1);
	EXPECT_LE(most[SMALL].event[0].ticks, most[SMALL].event[1].counts);
	expect_none(_metadata, &most[BIG].event[1]);
}

TEST_F(kinds, a_kind_has_all_its_counters)
{
	struct trace_sums least[KINDS], most[KINDS];
	int kind, i;

	for (kind = 0; kind < KINDS; kind++) {
		struct perfmon_config c = {};

		for (i = 0; i <= self->general[kind]; i++) {
			ASSERT_EQ(0, define_on(self->fd, i, BRANCHES, self->type[kind]));
			add_event(&c, i, MODEL_EVENT(i), 0, 0);
		}
		/* The config has one event more than there are counters. */
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		memset(&c, 0, sizeof(c));
		for (i = 0; i < self->general[kind]; i++)
			add_event(&c, i, MODEL_EVENT(i), 0, 0);
		record(_metadata, self, &c, least, most);
		for (i = 0; i < self->general[kind]; i++) {
			expect_growth(_metadata, least, most, 1, kind, i);
			expect_none(_metadata, &most[!kind].event[i]);
		}
		ASSERT_EQ(0, trace_free(&self->trace));
		ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	}
}

/* Returns the kind of a counter's owner, or a negative errno. */
static int owner_of(int fd, int num)
{
	struct perfmon_counter_owner owner = { .num = num };
	const int ret = device_ioctl(fd, PERFMON_GET_OWNER, &owner);

	return ret ? ret : (int)owner.kind;
}

/*
 * Golden Cove can count some events only on some of its counters. On another counter the count
 * would stay 0.
 */
TEST_F(kinds, events_get_counters_that_can_count_them)
{
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};
	int i;

	for (i = 0; i <= BIG_COUNTERS; i++)
		ASSERT_EQ(0, define_on(self->fd, i, INSNS_OR_BRANCHES, self->type[BIG]));
	add_event(&c, 0, MODEL_EVENT(0), 0, 0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_start(&self->trace));
	for (i = 0; i < self->general[BIG]; i++)
		EXPECT_EQ(i == BIG_COUNTERS - 1 ? PERFMON_OWNER_TRACE : PERFMON_OWNER_NONE,
			  owner_of(self->fd, i));
	ASSERT_EQ(0, trace_stop(&self->trace));

	for (i = 0; i < BIG_COUNTERS; i++)
		add_event(&c, i, MODEL_EVENT(i), 0, 0);
	record(_metadata, self, &c, least, most);
	for (i = 0; i < BIG_COUNTERS; i++)
		expect_growth(_metadata, least, most, per_iteration[BIG], BIG, i);
	add_event(&c, BIG_COUNTERS, MODEL_EVENT(BIG_COUNTERS), 0, 0);
	EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
}

/*
 * Events of branches on all CPUs are first put on the lowest counters, and then have to move away
 * from counter 0.
 */
TEST_F(kinds, events_move_for_those_with_fewer_counters)
{
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};
	int i;

	for (i = 0; i < BIG_COUNTERS; i++)
		ASSERT_EQ(0, define_on(self->fd, i, INSNS_OR_BRANCHES, self->type[BIG]));
	add_event(&c, 0, PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH,
					       PERFMON_ARCH_EVENT_BRANCHES_RETIRED), 0, 0);
	for (i = 0; i < BIG_COUNTERS; i++)
		add_event(&c, 1 + i, MODEL_EVENT(i), 0, 0);
	record(_metadata, self, &c, least, most);
	expect_growth(_metadata, least, most, 1, BIG, 0);
	expect_growth(_metadata, least, most, 1, SMALL, 0);
	for (i = 0; i < BIG_COUNTERS; i++)
		expect_growth(_metadata, least, most, per_iteration[BIG], BIG, 1 + i);
}

TEST_F(kinds, events_that_no_counter_counts_are_refused)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++)
		EXPECT_EQ(-EINVAL, define_on(self->fd, 0, 0, self->type[kind]));
	/* OCR, whose register a trace does not write */
	EXPECT_EQ(-EOPNOTSUPP, define_on(self->fd, 0, 0x012a, self->type[BIG]));
	EXPECT_EQ(-EOPNOTSUPP, define_on(self->fd, 0, 0x01b7, self->type[SMALL]));
}

/* The events of fixed counters, by Linux's numbers */
TEST_F(kinds, a_kind_has_all_its_fixed_counters)
{
	struct trace_sums least[KINDS], most[KINDS];
	int kind, n;

	for (kind = 0; kind < KINDS; kind++) {
		struct perfmon_config c = {};

		for (n = 0; n < self->fixed[kind]; n++) {
			ASSERT_EQ(0, define_on(self->fd, n, (n + 1) << 8, self->type[kind]));
			add_event(&c, n, MODEL_EVENT(n), 0, 0);
		}
		EXPECT_EQ(-EINVAL, define_on(self->fd, n, (n + 1) << 8, self->type[kind]));
		record(_metadata, self, &c, least, most);
		expect_growth(_metadata, least, most, LOOP_INSNS, kind, 0);
		for (n = 0; n < self->fixed[kind]; n++) {
			EXPECT_LT(0ULL, most[kind].event[n].total);
			expect_none(_metadata, &most[!kind].event[n]);
		}
		/* Two events of one counter */
		ASSERT_EQ(0, trace_free(&self->trace));
		ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
		memset(&c, 0, sizeof(c));
		ASSERT_EQ(0, define_on(self->fd, 0, 0x100, self->type[kind]));
		ASSERT_EQ(0, define_on(self->fd, 1, 0x100, self->type[kind]));
		add_event(&c, 0, MODEL_EVENT(0), 0, 0);
		add_event(&c, 1, MODEL_EVENT(1), 0, 0);
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		ASSERT_EQ(0, trace_free(&self->trace));
		ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	}
}

/* If a session uses a counter on one kind of core, the trace can't use this counter on any kind. */
TEST_F(kinds, a_trace_runs_beside_a_session_on_a_kind)
{
	const int all = self->general[BIG];
	struct trace_sums least[KINDS], most[KINDS];
	struct perfmon_config c = {};
	struct pmc2 pmc = {
		.pmc2_num = all - 1,
		.pmc2_select = BRANCHES | (__u64)PMCF_USR << 16,
		.pmc2_type = self->type[BIG],
	};
	int i;

	for (i = 0; i < all; i++) {
		ASSERT_EQ(0, define_on(self->fd, i, BRANCHES, self->type[BIG]));
		add_event(&c, i, MODEL_EVENT(i), 0, 0);
	}
	ASSERT_EQ(0, device_ioctl(self->fd, PMIOSETUP2, &pmc));
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
	c.events[all - 1] = PERFMON_EVENT_ID_NONE;
	c.flags[all - 1] = 0;
	record(_metadata, self, &c, least, most);
	for (i = 0; i < all - 1; i++)
		expect_growth(_metadata, least, most, 1, BIG, i);
}

TEST_F(kinds, types_of_no_kind_are_refused)
{
	EXPECT_EQ(-EINVAL, define_on(self->fd, 0, INSNS_OR_BRANCHES, 1));
	EXPECT_EQ(-EINVAL, define_on(self->fd, 0, INSNS_OR_BRANCHES, 1U << 31));
	EXPECT_EQ(-EOPNOTSUPP, define_on(self->fd, 0, INSNS_OR_BRANCHES, 0));
}

TEST_HARNESS_MAIN
