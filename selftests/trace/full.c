// SPDX-License-Identifier: GPL-2.0-only
/*
 * A full buffer: its records are complete, the CPU stops counting when the buffer is full, and STOP
 * records the counts up to that moment.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define RATE	97U
#define N	100000UL	/* far more than one page has room for */

/* The maximum number of bytes that the records of a PMI with one event take. */
#define MAX_PMI_BYTES	(sizeof(struct perfmon_time_record) +	\
			 sizeof(struct perfmon_pc_record) +	\
			 sizeof(struct perfmon_count_record))

FIXTURE(full)
{
	struct trace trace;
	int fd;
	int cpu;
	cpu_set_t cpus;
};

FIXTURE_SETUP(full)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd, 1);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(full)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(full, full_buffer_has_whole_records)
{
	const struct perfmon_buffer_header *header =
		self->trace.buffer[self->cpu];
	struct trace_sums sums;
	int i;

	/* The trace runs several times, because the flag belongs to a run, not to the buffer. */
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, trace_loop(&self->trace, N));
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_EQ(PERFMON_BUFFER_FLAG_FULL, header->flags);
		EXPECT_EQ(0ULL, trace_count_misplaced(&self->trace, self->cpu, N, 0, 0));

		/* The count of the last record includes the sample that did not fit. */
		EXPECT_EQ(RATE, sums.event[0].counted);
		EXPECT_EQ((sums.event[0].ticks + 1) * RATE,
			  sums.event[0].total);
		EXPECT_GE(header->capture_end + MAX_PMI_BYTES, self->trace.size);

		ASSERT_EQ(0, trace_loop(&self->trace, 1000));
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_EQ(0U, header->flags);
		EXPECT_EQ(TRACE_LOOP_INSNS(1000), sums.event[0].total);
	}
}

/* All events of the CPU stop at the sample that did not fit. */
TEST_F(full, full_buffer_stops_all_events)
{
	const struct perfmon_config config = {
		.events = { INSTRUCTIONS, MODEL_EVENT(0), MODEL_EVENT(1) },
		.rate = { RATE, 0, 1000003 },
		.flags = { FLAG_USER | FLAG_PC, FLAG_USER, FLAG_USER },
	};
	struct trace_sums sums;
	int i;

	ASSERT_EQ(0, trace_free(&self->trace));
	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_FULL,
		  self->trace.buffer[self->cpu]->flags);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ((sums.event[0].ticks + 1) * RATE,
			  sums.event[i].total);
	}
}

/* Reads the trace's counter on a CPU, which is counter 0, since all counters are free. */
static int counter_read(int cpu, __u64 *value)
{
	return msr_read(cpu, pmu_registers()->counter0, value);
}

/*
 * Returns the count of the trace's counter for loop() on the CPU, including the code that reads
 * the counter.
 */
static long long count_loop(int cpu)
{
	__u64 before, after;
	int err = counter_read(cpu, &before);

	loop(30);
	if (!err)
		err = counter_read(cpu, &after);
	return err ? err : (long long)(after - before);
}

TEST_F(full, full_cpu_counts_nothing_until_stop)
{
	struct trace_sums sums;
	__s64 value;
	int other;

	/*
	 * A counter of the counting interface must continue while the trace's counters stand still.
	 */
	ASSERT_EQ(0, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, 1));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_NE(0LL, count_loop(self->cpu));
	loop(N);
	EXPECT_EQ(0LL, count_loop(self->cpu));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_FULL,
		  self->trace.buffer[self->cpu]->flags);
	value = pmc_value(self->fd, 1);
	loop(N);
	EXPECT_EQ(0LL, count_loop(self->cpu));
	EXPECT_LE(value + LOOP_INSNS * (__s64)N, pmc_value(self->fd, 1));

	/* The other CPUs continue. */
	for_each_cpu_in(other, &self->cpus) {
		if (other == self->cpu)
			continue;
		ASSERT_EQ(0, pin_to_cpu(other));
		EXPECT_NE(0LL, count_loop(other));
		loop(1000);
		EXPECT_EQ(0U, self->trace.buffer[other]->flags);
	}
	ASSERT_EQ(0, trace_stop(&self->trace));
	for_each_cpu_in(other, &self->cpus) {
		ASSERT_STREQ("", trace_sum(&self->trace, other, &sums));
		EXPECT_EQ(sums.event[0].total / RATE -
			  !!self->trace.buffer[other]->flags,
			  sums.event[0].ticks);
		EXPECT_LE(LOOP_INSNS * 1000ULL, sums.event[0].total);
	}
	EXPECT_EQ(0, pmc_stop(self->fd, 1));
}

/* The buffer is full of COUNT records, or of LAST_BRANCH records. */
TEST_F(full, buffer_full_of_large_records_has_whole_records)
{
	struct perfmon_config config = {
		.events = { INSTRUCTIONS, MODEL_EVENT(0), MODEL_EVENT(1) },
		.rate = { RATE },
		.flags = {
			FLAG_USER | FLAG_PC, FLAG_USER | FLAG_TIMEBASE0,
			FLAG_USER | FLAG_TIMEBASE0,
		},
	};
	struct perfmon_properties p;
	struct trace_sums sums;
	int i;

	ASSERT_EQ(0, device_properties(self->fd, &p));
	if (p.flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH)
		config.flags[0] |= FLAG_LAST_BRANCH;
	ASSERT_EQ(0, trace_free(&self->trace));
	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_FULL,
		  self->trace.buffer[self->cpu]->flags);
	EXPECT_LT(0ULL, sums.event[0].ticks);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ((sums.event[0].ticks + 1) * RATE,
			  sums.event[i].total);
	}
}

TEST_HARNESS_MAIN
