// SPDX-License-Identifier: GPL-2.0-only
/*
 * More PMIs than a CPU can take: sampling is throttled, which a flag reports, and all events are
 * counted, also those for which no sample is taken.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "module.h"
#include "trace.h"
#include "trace_fixture.h"

/* Room for the samples between two timer ticks, for all ticks of a test. */
#define PAGES	4096
#define N	500000UL

/*
 * A limit of 5 samples between two ticks of 4 ms. The limit is reached even on a slow kernel and a
 * busy host, where a sample takes much of a millisecond.
 */
#define FEW_SAMPLES	"perf_event_max_sample_rate=1250"
/* A limit of the time that samples may take. */
#define SHORT_TIME	"perf_cpu_time_max_percent=1"

FIXTURE(throttle)
{
	struct trace trace;
	int fd;
	int cpu;
	int reference;	/* a counter of the counting interface */
};

FIXTURE_VARIANT(throttle)
{
	const char *parameters;	/* module parameters */
	__u32 rate;
	bool throttled;
	unsigned long n;	/* iterations of the loop */
};

FIXTURE_VARIANT_ADD(throttle, each_one) { FEW_SAMPLES, 1, true, N };
FIXTURE_VARIANT_ADD(throttle, each_second) { FEW_SAMPLES, 2, true, N };
FIXTURE_VARIANT_ADD(throttle, each_97) { FEW_SAMPLES, 97, true, N };
FIXTURE_VARIANT_ADD(throttle, rare) { FEW_SAMPLES, 500000, false, N };
FIXTURE_VARIANT_ADD(throttle, each_one_of_a_short_time) { SHORT_TIME, 1, true, N };
FIXTURE_VARIANT_ADD(throttle, without_limits) { "", 97, false, N };

FIXTURE_SETUP(throttle)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_reload(variant->parameters));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	self->reference = p.max_num_programmable_events - 1;
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(throttle)
{
	trace_free(&self->trace);
	close(self->fd);
	if (module_reload(""))
		TH_LOG("the module can't be loaded again");
}

TEST_F(throttle, no_event_is_lost)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	__u64 total = TRACE_LOOP_INSNS(variant->n);
	struct trace_sums sums;
	__u32 flags;
	__s64 value;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pmc_start(self->fd, self->reference));
	ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
	ASSERT_EQ(0, pmc_stop(self->fd, self->reference));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	flags = self->trace.buffer[self->cpu]->flags;
	EXPECT_EQ(variant->throttled ? PERFMON_BUFFER_FLAG_THROTTLED : 0,
		  flags);
	EXPECT_EQ(total, sums.event[0].total);
	if (variant->throttled) {
		EXPECT_LT(0ULL, sums.event[0].ticks);
		EXPECT_GT(total / variant->rate, sums.event[0].ticks);
	} else {
		EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
	}
	value = pmc_value(self->fd, self->reference);
	EXPECT_LE((__s64)total, value);
	EXPECT_GE((__s64)total + CALL_OVERHEAD, value);

	/* In the next run, in another tick, throttling has ended. */
	usleep(10000);
	ASSERT_EQ(0, trace_loop(&self->trace, 1));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	flags = self->trace.buffer[self->cpu]->flags;
	/* On a slow kernel one sample may use up all of the limited time. */
	if (!strcmp(variant->parameters, SHORT_TIME))
		flags &= ~PERFMON_BUFFER_FLAG_THROTTLED;
	EXPECT_EQ(0U, flags);
	EXPECT_EQ(TRACE_LOOP_INSNS(1), sums.event[0].total);
}

/*
 * Sampling resumes at the next tick. A COUNT record has the events up to that tick, and STOP writes
 * a second COUNT record.
 */
TEST_F(throttle, throttled_cpu_samples_again)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	unsigned long n = variant->n, longest = N;
	struct trace_sums sums;

	if (variant->throttled)
		longest = 8000 * N;
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	do {
		ASSERT_EQ(0, trace_loop(&self->trace, n));
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_EQ(TRACE_LOOP_INSNS(n), sums.event[0].total);
		n *= 4;
	} while (sums.event[0].counts < 2 && n <= longest);
	EXPECT_EQ(variant->throttled, sums.event[0].counts >= 2);
}

/*
 * While a CPU is throttled, events that follow the timebase and events without a rate lose no
 * count, and count nothing twice.
 */
TEST_F(throttle, other_events_are_counted_while_throttled)
{
	const struct perfmon_config config = {
		.events = {
			INSTRUCTIONS, MODEL_EVENT(0), MODEL_EVENT(1),
			MODEL_EVENT(2),
		},
		.rate = { variant->rate, 0, 0, 1000 },
		.flags = {
			FLAG_USER, FLAG_USER | FLAG_TIMEBASE0, FLAG_USER,
			FLAG_USER | FLAG_PC,
		},
	};
	struct trace_sums sums;
	int i;

	ASSERT_EQ(0, trace_free(&self->trace));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, trace_define(self->fd, i, EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(TRACE_LOOP_INSNS(variant->n), sums.event[i].total) {
			TH_LOG("event %d", i);
		}
	}
}

FIXTURE(stuck)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_SETUP(stuck)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
}

FIXTURE_TEARDOWN(stuck)
{
	trace_free(&self->trace);
	close(self->fd);
}

/*
 * A sample is due for each kernel instruction, also of timer interrupts. Without throttling, the
 * machine would never leave the handler.
 */
TEST_F(stuck, rate_of_one_kernel_instruction_is_throttled)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 1, FLAG_USER | FLAG_OS);
	const __u32 expected = PERFMON_BUFFER_FLAG_THROTTLED |
			       PERFMON_BUFFER_FLAG_FULL;
	struct trace_sums sums;
	__u32 flags;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	flags = self->trace.buffer[self->cpu]->flags;
	EXPECT_EQ(PERFMON_BUFFER_FLAG_THROTTLED,
		  flags & PERFMON_BUFFER_FLAG_THROTTLED);
	EXPECT_EQ(0U, flags & ~expected);
	EXPECT_LT(0ULL, sums.event[0].ticks);
	if (!(flags & PERFMON_BUFFER_FLAG_FULL))
		EXPECT_LE(TRACE_LOOP_INSNS(N), sums.event[0].total);
}

TEST_F(stuck, rate_of_one_kernel_cycle_is_throttled)
{
	const struct perfmon_config config =
		one_event(ARCH_EVENT(UNHALTED_CORE_CYCLES), 1,
			  FLAG_USER | FLAG_OS);
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_THROTTLED,
		  self->trace.buffer[self->cpu]->flags &
		  PERFMON_BUFFER_FLAG_THROTTLED);
}

TEST_HARNESS_MAIN
