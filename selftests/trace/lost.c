// SPDX-License-Identifier: GPL-2.0-only
/*
 * Other users may write to the registers that all counters share: Linux perf for Intel PT or for a
 * BPF program, KVM, or, as in this test, a program through /dev/cpu/N/msr. The module restores the
 * registers and reports the gap. So no trace or count that misses events looks complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	2048

/*
 * Each rate is larger than the number of instructions by which a PMI may be late (pmu-skid): two
 * overflows in one PMI would make only one sample.
 */
#define RATE	10007
#define RATE_LEAST	2003
#define N	200000UL

/* A time in microseconds that contains some timer ticks, if the host is not busy. */
#define TICKS	20000

#define ROUNDS	150

FIXTURE(lost)
{
	struct trace trace;
	struct perfmon_properties p;
	int fd;
	int cpu;
	int reference;	/* a counter of the counting interface */
};

FIXTURE_SETUP(lost)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &self->p));
	self->reference = self->p.max_num_programmable_events - 1;
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(lost)
{
	trace_free(&self->trace);
	close(self->fd);
}

static int start_both(struct trace *t, int reference)
{
	return pmc_start(t->fd, reference) ?: trace_start(t);
}

/* The gap is reported, the registers are repaired, and the next counts are right. */
TEST_F(lost, cleared_global_ctrl_is_flagged)
{
	const __u32 global_ctrl = pmu_registers()->global_ctrl;
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	struct trace_sums sums;
	__u64 ticks;

	SKIP_WITHOUT_GLOBAL_CTRL();
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, start_both(&self->trace, self->reference));
	loop(N);
	ASSERT_EQ(0, msr_write(self->cpu, global_ctrl, 0));
	ASSERT_EQ(0, trace_wait_until_lost(&self->trace, self->cpu));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	ticks = sums.event[0].ticks;
	loop(N);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_LE(ticks + LOOP_INSNS * N / RATE - 1, sums.event[0].ticks);
	EXPECT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);
	EXPECT_EQ(-EIO, pmc_stop(self->fd, self->reference));
	EXPECT_EQ(-EIO, pmc_value(self->fd, self->reference));

	/* The next counts start from zero. */
	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
}

/* The calls that stop the trace and the counter find the gap. */
TEST_F(lost, gap_until_stop_is_flagged)
{
	const __u32 global_ctrl = pmu_registers()->global_ctrl;
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER);
	int i;

	SKIP_WITHOUT_GLOBAL_CTRL();
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, trace_start(&self->trace));
		ASSERT_EQ(0, msr_write(self->cpu, global_ctrl, 0));
		EXPECT_EQ(0, trace_stop(&self->trace));
		EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST,
			  self->trace.buffer[self->cpu]->flags);

		ASSERT_EQ(0, pmc_setup(self->fd, self->reference,
				       EVENT_INSTRUCTIONS, PMCF_USR));
		ASSERT_EQ(0, pmc_start(self->fd, self->reference));
		ASSERT_EQ(0, msr_write(self->cpu, global_ctrl, 0));
		EXPECT_EQ(-EIO, pmc_stop(self->fd, self->reference));
	}
}

/*
 * A counter whose event select was changed can't be read or started, until it is set up again.
 */
TEST_F(lost, changed_event_select_is_flagged)
{
	const struct pmu_registers *r = pmu_registers();
	const __u32 select = r->select0 + self->reference * r->step;
	__u64 value;

	ASSERT_EQ(0, pmc_start(self->fd, self->reference));
	ASSERT_EQ(0, msr_read(self->cpu, select, &value));
	/* Changes the event to branch instructions. */
	ASSERT_EQ(0, msr_write(self->cpu, select, (value & ~0xffULL) | 0xc4));
	EXPECT_EQ(-EIO, pmc_stop(self->fd, self->reference));
	EXPECT_EQ(-EIO, pmc_value(self->fd, self->reference));
	EXPECT_EQ(-EIO, pmc_reset(self->fd, self->reference));
	EXPECT_EQ(-EIO, pmc_start(self->fd, self->reference));
	EXPECT_EQ(-EIO, pmc_stop(self->fd, self->reference));

	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, self->reference));
	loop(N);
	EXPECT_EQ(0, pmc_stop(self->fd, self->reference));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->fd, self->reference));
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD,
		  pmc_value(self->fd, self->reference));
}

/* Expects that lost samples are reported, sampling continues, and all events are counted. */
static void check_lvtpc(struct __test_metadata *_metadata, FIXTURE_DATA(lost) *self,
			__u32 other)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	struct trace_sums sums;
	__u64 ticks = 0;
	__s64 value;
	int i;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, start_both(&self->trace, self->reference));
	loop(N);
	ASSERT_EQ(0, lvtpc_write(self->cpu, other));
	loop(N);
	ASSERT_EQ(0, trace_wait_until_lost(&self->trace, self->cpu));
	/* An overflow without a PMI is reported as lost after two timer ticks. */
	for (i = 0; i < 6000; i++) {
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		ticks = sums.event[0].ticks + LOOP_INSNS * N / RATE - 1;
		loop(N);
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		if (ticks <= sums.event[0].ticks)
			break;
		usleep(10000);
	}
	EXPECT_LE(ticks, sums.event[0].ticks);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0, pmc_stop(self->fd, self->reference));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	value = pmc_value_on(self->fd, self->reference, self->cpu);
	EXPECT_LE((__s64)(3 * LOOP_INSNS * N), (__s64)sums.event[0].total);
	EXPECT_LE((__s64)sums.event[0].total, value);
	EXPECT_GE((__s64)sums.event[0].total + CALL_OVERHEAD, value);
}

TEST_F(lost, masked_lvtpc_is_flagged)
{
	check_lvtpc(_metadata, self, LVTPC_MASKED | LVTPC_NMI);
}

TEST_F(lost, changed_lvtpc_vector_is_flagged)
{
	check_lvtpc(_metadata, self, LVTPC_MASKED);
}

/*
 * Tampers at a random moment of a trace: either the sums agree with the other counter, or the
 * gap is reported.
 */
TEST_F(lost, sums_are_exact_or_the_gap_is_flagged)
{
	const __u32 global_ctrl = pmu_registers()->global_ctrl;
	struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	unsigned int flagged = 0, exact = 0, tampering;
	struct trace_sums sums;
	__s64 value;
	int i, err;

	srand(1);
	for (i = 0; i < ROUNDS; i++) {
		config.rate[0] = RATE_LEAST + rand() % 5000;
		ASSERT_EQ(0, trace_stage(&self->trace, &config));
		ASSERT_EQ(0, pmc_setup(self->fd, self->reference,
				       EVENT_INSTRUCTIONS, PMCF_USR));
		ASSERT_EQ(0, start_both(&self->trace, self->reference));
		loop(1 + rand() % N);
		tampering = rand() % 4;
		if (tampering == 1)
			ASSERT_EQ(0, lvtpc_write(self->cpu, LVTPC_MASKED));
		if (tampering == 2 && global_ctrl)
			ASSERT_EQ(0, msr_write(self->cpu, global_ctrl, 0));
		loop(1 + rand() % N);
		if (rand() % 2)
			usleep(rand() % TICKS);
		loop(1 + rand() % N);
		err = trace_stop(&self->trace);
		ASSERT_TRUE(err == 0 || err == -EIO);
		err = err ?: pmc_stop(self->fd, self->reference);
		ASSERT_TRUE(err == 0 || err == -EIO);
		if (err || self->trace.buffer[self->cpu]->flags) {
			EXPECT_NE(0U, tampering);
			flagged++;
			pmc_stop(self->fd, self->reference);
			continue;
		}
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		value = pmc_value_on(self->fd, self->reference, self->cpu);
		EXPECT_LE((__s64)sums.event[0].total, value);
		EXPECT_GE((__s64)sums.event[0].total + CALL_OVERHEAD, value) {
			TH_LOG("round %d, %u", i, tampering);
		}
		EXPECT_LE(sums.event[0].total / config.rate[0] - 1,
			  sums.event[0].ticks);
		exact++;
	}
	EXPECT_LT(0U, flagged);
	EXPECT_LT(0U, exact);
}

TEST_HARNESS_MAIN
