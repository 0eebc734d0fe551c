// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMIs that come late, as on silicon: the virtual PMU's property pmu-skid=N, with SKID=N in the
 * environment. Each sample is N instructions late. These N instructions count for the next sample.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	1024
#define N	50000UL

FIXTURE(skid)
{
	struct trace trace;
	int fd;
	int cpu;
	__u32 skid;
};

FIXTURE_VARIANT(skid)
{
	__u32 rate;
};

FIXTURE_VARIANT_ADD(skid, each_97) { .rate = 97 };
FIXTURE_VARIANT_ADD(skid, each_1009) { .rate = 1009 };
FIXTURE_VARIANT_ADD(skid, each_10007) { .rate = 10007 };

/* Rates that are equal to the skid, or smaller. */
FIXTURE_VARIANT_ADD(skid, each_7) { .rate = 7 };
FIXTURE_VARIANT_ADD(skid, each_3) { .rate = 3 };

FIXTURE_SETUP(skid)
{
	const char *skid = getenv("SKID");

	ASSERT_NE(NULL, skid);
	self->skid = atoi(skid);
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(skid)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(skid, late_interrupts_lose_nothing)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	__u64 total = TRACE_LOOP_INSNS(N), ticks = total / variant->rate;
	struct trace_sums sums;
	long long interrupts;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	interrupts = cpu_interrupts();
	ASSERT_LT(0, interrupts);
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	interrupts = cpu_interrupts() - interrupts;
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_GE(ticks, sums.event[0].ticks);
	if (variant->rate <= self->skid)
		return;

	/* The last PMI may still be due when the trace is stopped. */
	EXPECT_LE(ticks - 1, sums.event[0].ticks);
	EXPECT_EQ(0ULL, trace_count_misplaced(&self->trace, self->cpu, N,
					self->skid, interrupts));
}

/*
 * Events that follow the timebase count up to the PMI, so their counts are ahead of the timebase's
 * count.
 */
TEST_F(skid, late_interrupts_of_a_timebase_lose_nothing)
{
	const struct perfmon_config config = {
		.events = { INSTRUCTIONS, MODEL_EVENT(0) },
		.rate = { variant->rate },
		.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0 },
	};
	struct trace_sums sums;

	ASSERT_EQ(0, trace_free(&self->trace));
	ASSERT_EQ(0, trace_define(self->fd, 0, EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[1].total);
	EXPECT_LE(sums.event[0].ticks, sums.event[1].counts);
}

TEST_HARNESS_MAIN
