// SPDX-License-Identifier: GPL-2.0-only
/*
 * An energy register that wraps several times during a trace: on a virtual PMU with
 * pmu-energy-unit=28, every 16 777 216 instructions.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "idle.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES		16
#define WRAP		(1UL << 24)
#define WRAPS		6UL
#define N		(WRAP * WRAPS / LOOP_INSNS)
/* Energy per instruction, in 2^-32 Joules */
#define PACKAGE_ENERGY	4096ULL

FIXTURE(values_wrap)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_SETUP(values_wrap)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(values_wrap)
{
	trace_free(&self->trace);
	close(self->fd);
}

/* Checks that the energy of event @i is that of the loop, and at most a wrap more. */
static void check(struct __test_metadata *_metadata,
		  FIXTURE_DATA(values_wrap) *self, int i)
{
	const __u64 least = WRAP * WRAPS * PACKAGE_ENERGY;
	struct trace_sums sums;

	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_LE(1ULL, sums.event[i].values);
	EXPECT_LE(least, sums.event[i].value);
	EXPECT_GT(least + WRAP * PACKAGE_ENERGY, sums.event[i].value);
}

/* The timer that watches active counters also reads the energy register. */
TEST_F(values_wrap, energy_continues_beside_counters)
{
	struct perfmon_config c = one_event(INSTRUCTIONS, 0, FLAG_USER);

	c.events[1] = MISC_EVENT(ENERGY_PACKAGE);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	check(_metadata, self, 1);
}

/* Without counters, a timer of its own reads the register. */
TEST_F(values_wrap, energy_continues_without_counters)
{
	struct perfmon_config c = one_event(MISC_EVENT(ENERGY_PACKAGE), 0, 0);

	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	check(_metadata, self, 0);
}

/* The timer continues when counters are used and freed. */
TEST_F(values_wrap, energy_continues_after_counters)
{
	struct perfmon_config c = one_event(MISC_EVENT(ENERGY_PACKAGE), 0, 0);
	const __u64 least = WRAP * WRAPS * PACKAGE_ENERGY;
	struct trace_sums sums;
	int fd;

	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_start(&self->trace));
	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(fd));
	loop(1000);
	close(fd);
	loop(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_LE(least, sums.event[0].value);
	EXPECT_GT(least + WRAP * PACKAGE_ENERGY, sums.event[0].value);
}

TEST_HARNESS_MAIN
