// SPDX-License-Identifier: GPL-2.0-only
/*
 * A trace at the same time as counters of the counting interface, or as Linux perf. Trace and
 * counting interface share the general counters, and do not change each other's counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "kmsg.h"
#include "module.h"
#include "msr.h"
#include "perf.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	256
#define N	200000UL

/* Event select: instructions in user mode, enabled, with interrupt. */
#define COUNTS	0x005100c0ULL

FIXTURE(with_counting)
{
	struct trace trace;
	struct perfmon_properties p;
	int fd;
	int cpu;
	int kmsg;
};

FIXTURE_SETUP(with_counting)
{
	SKIP_WITHOUT_PMU();
	self->kmsg = load_fresh_module(_metadata);
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &self->p));
	define_instructions(_metadata, self->fd,
			    self->p.max_num_programmable_events);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(with_counting)
{
	trace_free(&self->trace);
	close(self->fd);
	close(self->kmsg);
}

/* Returns a config of @n events in general counters. */
static struct perfmon_config events(int n, __u32 rate)
{
	struct perfmon_config c = { .events = { 0 } };
	int i;

	for (i = 0; i < n; i++) {
		c.events[i] = MODEL_EVENT(i);
		c.rate[i] = rate;
		c.flags[i] = FLAG_USER | FLAG_PC;
	}
	return c;
}

/* Returns true if general counter @i runs on the CPU with its event select. */
static bool counter_runs(int cpu, int i)
{
	const struct pmu_registers *r = pmu_registers();
	__u64 select;

	return !msr_read(cpu, r->select0 + i * r->step, &select) &&
	       select == COUNTS;
}

TEST_F(with_counting, trace_takes_the_lowest_free_counters)
{
	struct perfmon_config two = events(2, 1000003);

	ASSERT_LE(4, self->p.max_num_programmable_events);
	ASSERT_EQ(0, trace_stage(&self->trace, &two));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, 2, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_FALSE(counter_runs(self->cpu, 0));
	EXPECT_TRUE(counter_runs(self->cpu, 1));
	EXPECT_FALSE(counter_runs(self->cpu, 2));
	EXPECT_TRUE(counter_runs(self->cpu, 3));

	/*
	 * Counters 1 and 3 belong to the trace; the other counters are free.
	 */
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 3, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_start(self->fd, 1));
	EXPECT_EQ(-EBUSY, (int)pmc_value(self->fd, 1));
	EXPECT_EQ(0, pmc_setup(self->fd, 2, EVENT_INSTRUCTIONS, PMCF_USR));
	if (self->p.max_num_fixed_events)
		EXPECT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));

	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_TRUE(counter_runs(self->cpu, 3));
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 3, EVENT_INSTRUCTIONS, PMCF_USR));
}

TEST_F(with_counting, start_is_refused_with_too_few_free_counters)
{
	int counter = self->p.max_num_programmable_events;
	struct perfmon_config c = events(2, 1000003), now;

	while (counter-- > 1)
		ASSERT_EQ(0, pmc_setup(self->fd, counter, EVENT_INSTRUCTIONS,
				       PMCF_USR));
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));

	/* The config is still staged, and the counters are still free. */
	EXPECT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &now));
	EXPECT_EQ(0, memcmp(&c, &now, sizeof(c)));
	c = events(1, 1000003);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
}

/* There is only one fixed-function counter for instructions. */
TEST_F(with_counting, start_is_refused_while_the_fixed_counter_is_set_up)
{
	struct perfmon_config c = one_event(FIXED_EVENT(INSTRUCTIONS_RETIRED),
					    1000003, FLAG_USER);

	if (!self->p.max_num_fixed_events) {
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		return;
	}
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
}

/*
 * Returns the count of counter 0 around trace_loop(), minus the known number of instructions in
 * trace_loop().
 */
static __s64 count_around_trace(FIXTURE_DATA(with_counting) *self,
			    const struct perfmon_config *config)
{
	int err = trace_stage(&self->trace, config);

	if (!err)
		err = pmc_reset(self->fd, 0);
	if (!err)
		err = pmc_start(self->fd, 0);
	if (!err)
		err = trace_loop(&self->trace, N);
	if (!err)
		err = pmc_stop(self->fd, 0);
	return err ? err : pmc_value(self->fd, 0) - (__s64)TRACE_LOOP_INSNS(N);
}

TEST_F(with_counting, counter_continues_beside_a_trace)
{
	static const __u32 rates[] = { 0, 1000003, 10007, 1009, 97 };
	struct perfmon_config c = events(2, 0);
	struct trace_sums sums;
	__s64 overhead, value;
	unsigned int i;
	struct pmc pmc;

	/* One counter runs, and one is stopped with a count. */
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	value = pmc_loop_count(self->fd, 1, N);
	overhead = count_around_trace(self, &c);
	EXPECT_LE(0, overhead);
	EXPECT_GE(CALL_OVERHEAD, overhead);
	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		c = events(2, rates[i]);
		EXPECT_EQ(overhead, count_around_trace(self, &c)) {
			TH_LOG("rate %u", rates[i]);
		}
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
		EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[1].total);
		EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
		EXPECT_EQ(value, pmc_value(self->fd, 1));
		ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
		EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	}
	EXPECT_EQ(value, pmc_loop_count(self->fd, 1, N));
}

/* Counters that start and stop while a trace runs do not disturb it. */
TEST_F(with_counting, trace_continues_beside_a_counter)
{
	struct perfmon_config c = events(2, 97);
	struct trace_sums sums[2];
	int i, round;

	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, trace_start(&self->trace));
		for (i = 0; i < 100; i++) {
			EXPECT_EQ(0, pmc_setup(self->fd, 2, EVENT_INSTRUCTIONS,
					       PMCF_USR));
			EXPECT_EQ(0, pmc_count_loop(self->fd, 2, 100));
			EXPECT_LE(LOOP_INSNS * 100, pmc_value(self->fd, 2));
		}
		ASSERT_EQ(0, trace_stop(&self->trace));
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu,
					   &sums[round]));
		EXPECT_EQ(sums[round].event[0].total / 97,
			  sums[round].event[0].ticks);
		EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	}

	/* Both events have counted the same instructions. */
	EXPECT_EQ(sums[0].event[0].total, sums[0].event[1].total);
	EXPECT_EQ(sums[0].event[0].total, sums[1].event[0].total);
}

TEST_F(with_counting, start_is_refused_while_perf_counts)
{
	struct perfmon_config c = events(1, 1009);
	struct kmsg_lines lines;
	struct trace_sums sums;
	int perf = perf_hold_counters();
	long long counted;

	ASSERT_LE(0, perf);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
	ASSERT_EQ(0, ioctl(perf, PERF_EVENT_IOC_RESET, 0));
	counted = perf_count_loop(perf, N);
	EXPECT_LE((long long)(LOOP_INSNS * N), counted);
	EXPECT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, counted);

	/* The log names the owner of the counters once. */
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(1, lines.count);
	EXPECT_TRUE(kmsg_names_perf(lines.line[0])) {
		TH_LOG("the log says: %s", lines.line[0]);
	}

	close(perf);
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
}

TEST_F(with_counting, perf_is_refused_while_a_trace_runs)
{
	struct perfmon_config c = events(1, 1009);
	int perf;

	/* A trace that does not run holds no counters. */
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(0, perf_count_short_loop());

	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	ASSERT_EQ(0, trace_stop(&self->trace));
	perf = perf_open_instructions();
	EXPECT_LE(0, perf);
	EXPECT_LE((long long)(LOOP_INSNS * N), perf_count_loop(perf, N));
	close(perf);

	/* A counter that is set up keeps perf off as well. */
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
}

TEST_HARNESS_MAIN
