// SPDX-License-Identifier: GPL-2.0-only
/*
 * On Broadwell and Skylake nothing is recorded in the branch records while Intel PT traces, and an
 * access to their registers faults, which the kernel would log with a call trace. The module must
 * not access them, must report the gap, and must record branches again after the trace.
 */
#include <fcntl.h>
#include <unistd.h>
#include <x86intrin.h>

#include "branch_records.h"
#include "cpu.h"
#include "device.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	2048

/*
 * The rate gives 40 samples in the loop, and less than one sample in the kernel's part of a call.
 */
#define RATE	99991
#define N	2000000UL

/* Intel SDM, volume 4, table 2-2 */
#define MSR_IA32_RTIT_CTL	0x570
#define TRACE_EN		(1ULL << 0)

FIXTURE(pt)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_VARIANT(pt)
{
	__u32 flags;	/* the modes of the trace */
};

/* With both modes, the register that selects branches is 0. */
FIXTURE_VARIANT_ADD(pt, user) { FLAG_USER };
FIXTURE_VARIANT_ADD(pt, both) { FLAG_USER | FLAG_OS };

static int write_trace_en(int cpu, __u64 value)
{
	return msr_write(cpu, MSR_IA32_RTIT_CTL, value);
}

FIXTURE_SETUP(pt)
{
	struct perfmon_config config;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd, PAGES);
	ASSERT_EQ(0, write_trace_en(self->cpu, 0));
	config = one_event(INSTRUCTIONS, RATE, variant->flags | FLAG_LAST_BRANCH);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
}

FIXTURE_TEARDOWN(pt)
{
	write_trace_en(self->cpu, 0);
	trace_free(&self->trace);
	close(self->fd);
}

/* The LAST_BRANCH records of a buffer, and how many of them have branches. */
struct branch_counts {
	unsigned int records;
	unsigned int filled;
};

/* Counts the records from @begin up to @end. */
static struct branch_counts count_records(const FIXTURE_DATA(pt) *self, __s64 begin, __s64 end)
{
	struct trace_cursor c = trace_records(&self->trace, self->cpu);
	struct trace_record r;
	struct branch_counts counts = {};

	while (trace_next(&c, &r) > 0) {
		if (r.type != PERFMON_RECORD_LAST_BRANCH || r.time < begin || r.time >= end)
			continue;
		counts.records++;
		counts.filled += r.branches->num_branches != 0;
	}
	return counts;
}

static void expect_no_branches(struct __test_metadata *_metadata, const FIXTURE_DATA(pt) *self,
			       __s64 begin, __s64 end)
{
	const struct branch_counts within = count_records(self, begin, end);

	EXPECT_LT(10U, within.records);
	EXPECT_EQ(0U, within.filled);
}

/*
 * Expects branches in the records from @begin on, after the end of Intel PT. Only the first of
 * these samples has no branches: it enables the branch records again.
 */
static void expect_branches_again(struct __test_metadata *_metadata, const FIXTURE_DATA(pt) *self,
				  __s64 begin)
{
	const struct branch_counts after = count_records(self, begin, INT64_MAX);

	EXPECT_LT(10U, after.records);
	EXPECT_LE(after.records, after.filled + 2);
}

TEST_F(pt, no_branches_while_intel_pt_traces)
{
	struct branch_counts before;
	__s64 excluded, begin, end, resumed;

	ASSERT_EQ(0, trace_start(&self->trace));
	loop(N);
	excluded = __rdtsc();
	ASSERT_EQ(0, write_trace_en(self->cpu, TRACE_EN));
	begin = __rdtsc();
	loop(N);
	end = __rdtsc();
	ASSERT_EQ(0, write_trace_en(self->cpu, 0));
	resumed = __rdtsc();
	loop(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);

	before = count_records(self, 0, excluded);
	EXPECT_LT(10U, before.records);
	EXPECT_EQ(before.records, before.filled);
	expect_no_branches(_metadata, self, begin, end);
	expect_branches_again(_metadata, self, resumed);
}

TEST_F(pt, trace_starts_while_intel_pt_traces)
{
	__s64 end, resumed;

	ASSERT_EQ(0, write_trace_en(self->cpu, TRACE_EN));
	ASSERT_EQ(0, trace_start(&self->trace));
	loop(N);
	end = __rdtsc();
	ASSERT_EQ(0, write_trace_en(self->cpu, 0));
	resumed = __rdtsc();
	loop(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);

	expect_no_branches(_metadata, self, 0, end);
	expect_branches_again(_metadata, self, resumed);
}

/* The records are disabled at the end, so that their registers need not be written. */
TEST_F(pt, trace_stops_while_intel_pt_traces)
{
	const struct branch_records *b = branch_records();
	__u64 before, after;

	ASSERT_EQ(0, msr_read(self->cpu, b->enable, &before));
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, write_trace_en(self->cpu, TRACE_EN));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);
	ASSERT_EQ(0, msr_read(self->cpu, b->enable, &after));
	EXPECT_EQ(before, after);
	ASSERT_EQ(0, write_trace_en(self->cpu, 0));

	/* The next trace is complete. */
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
}

TEST_HARNESS_MAIN
