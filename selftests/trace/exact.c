// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact samples: each sample is at the right instruction, no sample is lost, and there are no wrong
 * ones.
 *
 * trace_loop() executes a known number of instructions in user mode between START and STOP, so
 * all samples on its CPU are known. On CPUs where other code runs as well, a counter of the
 * counting interface with the same event is the reference: the records of a CPU must add up to
 * the counter's value on this CPU.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cpi.h"
#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "trace.h"
#include "trace_fixture.h"
#include "workers.h"

/* Room for all records of a test at the shortest period. */
#define PAGES	1024

/*
 * The reference counter is the last general counter, since a trace takes the lowest free counters.
 */
#define REFERENCE(p)	((p)->max_num_programmable_events - 1)

FIXTURE(exact)
{
	struct trace trace;
	struct perfmon_properties properties;
	int fd;
	int reference;
	cpu_set_t cpus;
};

FIXTURE_VARIANT(exact)
{
	__u32 rate;
	unsigned long n;	/* iterations of the loop */
};

/* The rates are small primes, so that the samples are spread over the loop. */
FIXTURE_VARIANT_ADD(exact, each_97) { .rate = 97, .n = 100000 };
FIXTURE_VARIANT_ADD(exact, each_1009) { .rate = 1009, .n = 500000 };
FIXTURE_VARIANT_ADD(exact, each_10007) { .rate = 10007, .n = 2000000 };
FIXTURE_VARIANT_ADD(exact, each_1000003) { .rate = 1000003, .n = 10000000 };

/* With an even rate, all samples are at the same instruction. */
FIXTURE_VARIANT_ADD(exact, each_1000) { .rate = 1000, .n = 500000 };

/* The counter overflows at the last instruction, which is the system call. */
FIXTURE_VARIANT_ADD(exact, each_in_all) { .rate = 1004, .n = 500 };

/* The loop has fewer instructions than the rate. */
FIXTURE_VARIANT_ADD(exact, none) { .rate = 1005, .n = 500 };

FIXTURE_SETUP(exact)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &self->properties));
	self->reference = REFERENCE(&self->properties);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(exact)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(exact, samples_are_at_their_instructions)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	__u64 total = TRACE_LOOP_INSNS(variant->n);
	struct trace_sums sums;
	__s64 begin, end;
	int cpu, other;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		begin = __rdtsc();
		ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
		end = __rdtsc();

		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
		EXPECT_EQ(total, sums.event[0].total);
		EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
		EXPECT_EQ(total % variant->rate, sums.event[0].counted);
		EXPECT_EQ(0ULL, trace_count_misplaced(&self->trace, cpu, variant->n,
						 0, 0));
		EXPECT_LE(begin, sums.first);
		EXPECT_GE(end, sums.last);

		/* Nothing runs in user mode on the other CPUs. */
		for_each_cpu_in(other, &self->cpus) {
			if (other == cpu)
				continue;
			ASSERT_STREQ("", trace_sum(&self->trace, other, &sums));
			EXPECT_EQ(0U, self->trace.buffer[other]->flags);
			EXPECT_EQ(0ULL, sums.event[0].total);
		}
	}
}

/* A sample of cycles is after the first instruction at which the count reaches the rate. */
TEST_F(exact, samples_of_cycles_are_at_their_instructions)
{
	const __u32 event = ARCH_EVENT(UNHALTED_CORE_CYCLES);
	const struct perfmon_config config = one_event(event, variant->rate,
						       FLAG_USER | FLAG_PC);
	__u64 total = cpi_count(event, TRACE_LOOP_INSNS(variant->n));
	int cpu = cpu_next(&self->cpus, -1);
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
	ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
	EXPECT_EQ(0ULL, trace_count_misplaced(&self->trace, cpu, variant->n, 0, 0));
}

TEST_F(exact, tick_records_add_up_as_pc_records_do)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER);
	__u64 total = TRACE_LOOP_INSNS(variant->n);
	int cpu = cpu_next(&self->cpus, -1);
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
	ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
}

/* A trace that is started again starts from zero, in the same memory. */
TEST_F(exact, second_run_starts_anew)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	int cpu = cpu_next(&self->cpus, -1);
	struct trace_sums sums;
	unsigned long n;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	for (n = variant->n; n; n /= 4) {
		ASSERT_EQ(0, trace_loop(&self->trace, n));
		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		EXPECT_EQ(TRACE_LOOP_INSNS(n), sums.event[0].total);
		EXPECT_EQ(0ULL, trace_count_misplaced(&self->trace, cpu, n, 0, 0));
	}
}

/* Counts and traces the loop on one CPU after the other. */
static int move_over_all_cpus(FIXTURE_DATA(exact) *self, unsigned long n,
			      int home)
{
	int cpu, err = pin_to_cpu(home);

	if (!err)
		err = pmc_reset(self->fd, self->reference);
	if (!err)
		err = pmc_start(self->fd, self->reference);
	if (!err)
		err = trace_start(&self->trace);
	for_each_cpu_in(cpu, &self->cpus) {
		if (!err)
			err = pin_to_cpu(cpu);
		loop(n);
	}
	if (!err)
		err = pin_to_cpu(home);
	if (!err)
		err = trace_stop(&self->trace);
	return err ? err : pmc_stop(self->fd, self->reference);
}

/*
 * On the CPU that makes the calls, the reference also counts the instructions between its own start
 * and the start of the trace, and between the two stops. Their number is constant.
 */
TEST_F(exact, trace_agrees_with_a_counter_on_each_cpu)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 0,
						 FLAG_USER | FLAG_PC);
	int home = cpu_next(&self->cpus, -1), cpu;
	__s64 overhead, count;
	struct trace_sums sums;

	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, move_over_all_cpus(self, 1, home));
	ASSERT_STREQ("", trace_sum(&self->trace, home, &sums));
	overhead = pmc_value_on(self->fd, self->reference, home) -
		   sums.event[0].total;
	EXPECT_LT(0, overhead);
	EXPECT_GE(2 * CALL_OVERHEAD, overhead);

	config.rate[0] = variant->rate;
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, move_over_all_cpus(self, variant->n, home));
	for_each_cpu_in(cpu, &self->cpus) {
		count = pmc_value_on(self->fd, self->reference, cpu);
		if (cpu == home)
			count -= overhead;
		EXPECT_LE(LOOP_INSNS * (__s64)variant->n, count);
		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
		EXPECT_EQ((__u64)count, sums.event[0].total) {
			TH_LOG("on CPU %d", cpu);
		}
		EXPECT_EQ((__u64)count / variant->rate, sums.event[0].ticks);
		EXPECT_EQ((__u64)count % variant->rate, sums.event[0].counted);
	}
}

/* A process on each CPU executes the loop at the same time. */
TEST_F(exact, trace_agrees_with_a_counter_on_all_cpus_at_once)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	int home = cpu_next(&self->cpus, -1), cpu;
	struct workers workers;
	struct trace_sums sums;
	__s64 count;

	ASSERT_EQ(0, pin_to_cpu(home));
	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, workers_start(&workers, &self->cpus, variant->n));
	ASSERT_EQ(0, pmc_start(self->fd, self->reference));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, workers_run(&workers));
	ASSERT_EQ(0, trace_stop(&self->trace));
	ASSERT_EQ(0, pmc_stop(self->fd, self->reference));
	workers_end(&workers);

	for_each_cpu_in(cpu, &self->cpus) {
		count = pmc_value_on(self->fd, self->reference, cpu);
		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
		EXPECT_LE(LOOP_INSNS * variant->n, sums.event[0].total);
		EXPECT_EQ(sums.event[0].total / variant->rate,
			  sums.event[0].ticks);
		count -= sums.event[0].total;
		EXPECT_LE(0, count);
		EXPECT_GE(cpu == home ? 2 * CALL_OVERHEAD : 0, count);
	}
}

/* The events that the virtual PMU counts in the loop, with their known counts. */
TEST_F(exact, several_events_add_up_independently)
{
	struct perfmon_config config = {
		.events = {
			INSTRUCTIONS,
			ARCH_EVENT(UNHALTED_CORE_CYCLES),
			MODEL_EVENT(0),
			MODEL_EVENT(1),
			FIXED_EVENT(INSTRUCTIONS_RETIRED),
			FIXED_EVENT(UNHALTED_CORE_CYCLES),
		},
		.rate = {
			variant->rate, 2 * variant->rate, 0, variant->rate,
			variant->rate, variant->rate + 2,
		},
		.flags = {
			FLAG_USER | FLAG_PC, FLAG_USER, FLAG_USER, FLAG_USER,
			FLAG_USER, FLAG_USER | FLAG_PC,
		},
	};
	int cpu = cpu_next(&self->cpus, -1), events = 6, i;
	__u64 total;
	struct trace_sums sums;

	/* Leaves out events without a counter. */
	while (events - 4 > self->properties.max_num_fixed_events && events > 4) {
		events--;
		config.events[events] = PERFMON_EVENT_ID_NONE;
		config.rate[events] = 0;
		config.flags[events] = 0;
	}
	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, trace_loop(&self->trace, variant->n));
	ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
	for (i = 0; i < events; i++) {
		total = cpi_count(config.events[i],
				  TRACE_LOOP_INSNS(variant->n));
		EXPECT_EQ(total, sums.event[i].total) {
			TH_LOG("event %d", i);
		}
		EXPECT_EQ(config.rate[i] ? total / config.rate[i] : 0,
			  sums.event[i].ticks);
	}
}

FIXTURE(modes)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_SETUP(modes)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(modes)
{
	trace_free(&self->trace);
	close(self->fd);
}

#define N	1000000UL

TEST_F(modes, event_without_a_mode_counts_nothing)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, 1, 0);
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0ULL, sums.event[0].total);
	EXPECT_EQ(0ULL, sums.event[0].ticks);
}

TEST_F(modes, event_without_a_rate_has_one_record)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, 0,
						       FLAG_USER);
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
	EXPECT_EQ(1ULL, sums.event[0].counts);
	EXPECT_EQ(1ULL, sums.times);
}

static __u64 pcs_in_kernel(const struct trace *t, int cpu)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct trace_record r;
	__u64 n = 0;

	while (trace_next(&c, &r) > 0)
		n += r.type == PERFMON_RECORD_PC && is_kernel_address(r.pc);
	return n;
}

/*
 * In kernel mode, a sample may be at the user instruction after the kernel's last instruction. The
 * rate is large, because a debug kernel executes thousands of instructions for each sample.
 */
#define LONG_PERIOD	100003
#define LONG_LOOPS	100

/* The numbers of the events in the config of all modes. */
enum { SAMPLED, USER, BOTH };

/* A config of instructions: sampled in the modes @flags, counted in user mode and in both modes. */
static struct perfmon_config config_of_modes(__u32 flags)
{
	return (struct perfmon_config) {
		.events = { INSTRUCTIONS, MODEL_EVENT(0), MODEL_EVENT(1) },
		.rate = { LONG_PERIOD },
		.flags = { flags | FLAG_PC, FLAG_USER, FLAG_USER | FLAG_OS },
	};
}

/*
 * Expects that the sampled event has counted about @insns, the count of other events. The number of
 * instructions that the kernel executes during the loop depends on the host. But the counters of a
 * CPU are started right after each other, and the sampled counter misses only a part of its
 * handler, so the counts differ by less than half of the loop.
 */
static void expect_near(struct __test_metadata *_metadata, const struct trace_sums *sums,
			__u64 insns)
{
	const __u64 half = TRACE_LOOP_INSNS(LONG_LOOPS * N) / 2;

	EXPECT_EQ(TRACE_LOOP_INSNS(LONG_LOOPS * N), sums->event[USER].total);
	EXPECT_LT(insns, sums->event[SAMPLED].total + half);
	EXPECT_GT(insns + half, sums->event[SAMPLED].total);
}

TEST_F(modes, kernel_mode_counts_the_kernel_alone)
{
	const struct perfmon_config config = config_of_modes(FLAG_OS);
	struct trace_sums sums;
	__u64 kernel_samples;

	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LONG_LOOPS * N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_LT(0ULL, sums.event[SAMPLED].total);
	expect_near(_metadata, &sums, sums.event[BOTH].total - sums.event[USER].total);
	kernel_samples = pcs_in_kernel(&self->trace, self->cpu);
	EXPECT_LE(sums.event[SAMPLED].ticks / 2, kernel_samples);
}

TEST_F(modes, both_modes_count_user_and_kernel)
{
	const struct perfmon_config config = config_of_modes(FLAG_USER | FLAG_OS);
	struct trace_sums sums;
	__u64 kernel_samples;

	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LONG_LOOPS * N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_LT(TRACE_LOOP_INSNS(LONG_LOOPS * N), sums.event[SAMPLED].total);
	expect_near(_metadata, &sums, sums.event[BOTH].total);
	kernel_samples = pcs_in_kernel(&self->trace, self->cpu);
	/*
	 * It is left to chance in which mode a sample is. At least half of the samples that the
	 * loop alone would have are in the loop, unless the kernel executes more instructions than
	 * the loop.
	 */
	EXPECT_LE(TRACE_LOOP_INSNS(LONG_LOOPS * N) / LONG_PERIOD / 2,
		  sums.event[SAMPLED].ticks - kernel_samples);
}

/* The frequency of the times is that of PMIOTSTAMP, which is in MHz. */
TEST_F(modes, header_has_the_frequency_of_the_times)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, 0,
						       FLAG_USER);
	struct pmc_tstamp t = { .pmct_rate = 0 };

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, 1));
	device_ioctl(self->fd, PMIOTSTAMP, &t);
	EXPECT_EQ(t.pmct_rate, self->trace.buffer[self->cpu]->ticks_per_second /
			       1000000);
}

TEST_HARNESS_MAIN
