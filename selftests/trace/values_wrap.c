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
#include "retired.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES		16
#define WRAP		(1UL << 24)
#define WRAPS		6UL
/* The number of loops, each of a part of a wrap */
#define PARTS		(4 * WRAPS)
/* Longer than the module may leave the register unread, in microseconds */
#define PAUSE		20000
/* Energy per instruction, in 2^-32 Joules, and the register's unit */
#define PACKAGE_ENERGY	4096ULL
#define UNIT		(1ULL << (32 - 28))

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

/*
 * Checks that the energy of event @i is that of the loop and of what the kernel has executed: it
 * must be at most the energy of all instructions since retired_insns() has returned @before. A
 * missed or an added wrap would exceed this tolerance.
 */
static void check_energy(struct __test_metadata *_metadata,
			 FIXTURE_DATA(values_wrap) *self, int i, __u64 before)
{
	const __u64 least = WRAP * WRAPS * PACKAGE_ENERGY;
	const __u64 most = retired_at_most(before) * PACKAGE_ENERGY + UNIT;
	struct trace_sums sums;

	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_LE(1ULL, sums.event[i].values);
	EXPECT_LE(least, sums.event[i].value);
	EXPECT_GE(most, sums.event[i].value);
}

/*
 * Executes as many instructions as make the register wrap WRAPS times. After each part of a wrap, a
 * pause lets the module's timer read the register, however fast the host is.
 */
static void loop_with_pauses(void)
{
	unsigned int i;

	for (i = 0; i < PARTS; i++) {
		loop(WRAP * WRAPS / PARTS / LOOP_INSNS);
		usleep(PAUSE);
	}
}

static void trace_and_check(struct __test_metadata *_metadata,
			    FIXTURE_DATA(values_wrap) *self, int i)
{
	const __u64 before = retired_insns();

	ASSERT_EQ(0, trace_start(&self->trace));
	loop_with_pauses();
	ASSERT_EQ(0, trace_stop(&self->trace));
	check_energy(_metadata, self, i, before);
}

/* The timer that watches active counters also reads the energy register. */
TEST_F(values_wrap, energy_continues_beside_counters)
{
	struct perfmon_config c = one_event(INSTRUCTIONS, 0, FLAG_USER);

	c.events[1] = MISC_EVENT(ENERGY_PACKAGE);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	trace_and_check(_metadata, self, 1);
}

/* If the trace has no counters, a separate timer reads the register. */
TEST_F(values_wrap, energy_continues_without_counters)
{
	struct perfmon_config c = one_event(MISC_EVENT(ENERGY_PACKAGE), 0, 0);

	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	trace_and_check(_metadata, self, 0);
}

/* The timer continues when counters are used and freed. */
TEST_F(values_wrap, energy_continues_after_counters)
{
	struct perfmon_config c = one_event(MISC_EVENT(ENERGY_PACKAGE), 0, 0);
	__u64 before;
	int fd;

	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	before = retired_insns();
	ASSERT_EQ(0, trace_start(&self->trace));
	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(fd));
	loop(1000);
	close(fd);
	loop_with_pauses();
	ASSERT_EQ(0, trace_stop(&self->trace));
	check_energy(_metadata, self, 0, before);
}

TEST_HARNESS_MAIN
