// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fixed-function counters 4 to 6, which the small cores have from Skymont on: events use them,
 * by the number of the event or by Linux's number of the counter, and so do PMIO and traces.
 * General counters count the same.
 *
 * On the virtual PMU each instruction takes four slots: half a slot is of a wrong path, one and a
 * half slots are left empty by the front end, and two slots are of operations that retired.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "trace.h"
#include "trace_fixture.h"

#define N	100000UL

FIXTURE(slots)
{
	int cpu;
	int device;
};

FIXTURE_VARIANT(slots)
{
	__u16 select;		/* the event in a general counter */
	int fixed;		/* the number of the fixed counter */
	__u16 trace_event;
	unsigned long each;	/* the count of each iteration of loop() */
};

FIXTURE_VARIANT_ADD(slots, bad_speculation)
{
	.select = 0x0073, .fixed = 4, .each = 1, .trace_event = FIXED_EVENT(TOPDOWN_BAD_SPECULATION),
};

FIXTURE_VARIANT_ADD(slots, front_end)
{
	.select = 0x019c, .fixed = 5, .each = 3, .trace_event = FIXED_EVENT(TOPDOWN_FE_BOUND),
};

FIXTURE_VARIANT_ADD(slots, retiring)
{
	.select = 0x02c2, .fixed = 6, .each = 4, .trace_event = FIXED_EVENT(TOPDOWN_RETIRING),
};

FIXTURE_SETUP(slots)
{
	SKIP_WITHOUT_PMU();
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	self->device = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(slots)
{
	close(self->device);
}

/* Returns whether a count is the expected one. A count of half slots is rounded down. */
static bool is_exact(unsigned long expected, __s64 count)
{
	return llabs(count - (__s64)expected) <= 1;
}

/* Returns by how much the count of an event grows with N more iterations; or a negative errno. */
static __s64 count_added(__u64 config)
{
	struct perf_event_attr attr = event_instructions();
	__s64 least, most;
	int fd;

	attr.type = PERF_TYPE_RAW;
	attr.config = config;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	least = event_loop_count(fd, N);
	most = event_loop_count(fd, 2 * N);
	close(fd);
	return most - least;
}

/* Returns the owner of a counter. */
static __u32 owner_of(struct __test_metadata *_metadata, int device, int num)
{
	struct perfmon_counter_owner owner = { .num = num };

	EXPECT_EQ(0, device_ioctl(device, PERFMON_GET_OWNER, &owner));
	return owner.kind;
}

TEST_F(slots, events_take_the_fixed_counter)
{
	const __u64 configs[] = { variant->select, (variant->fixed + 1) << 8 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(configs); i++) {
		struct perf_event_attr attr = event_instructions();
		int fd;

		EXPECT_TRUE(is_exact(N * variant->each, count_added(configs[i])));
		attr.type = PERF_TYPE_RAW;
		attr.config = configs[i];
		fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		EXPECT_EQ((__u32)PERFMON_OWNER_TASKS,
			  owner_of(_metadata, self->device, PMC_FIXED(variant->fixed)));
		close(fd);
		EXPECT_EQ((__u32)PERFMON_OWNER_NONE,
			  owner_of(_metadata, self->device, PMC_FIXED(variant->fixed)));
	}
}

TEST_F(slots, counters_of_all_cpus_count_the_same)
{
	const int numbers[] = { 0, PMC_FIXED(variant->fixed) };
	unsigned int i;

	ASSERT_EQ(0, pmc_setup2(self->device, 0, variant->select | (__u64)PMCF_USR << 16));
	ASSERT_EQ(0, pmc_setup(self->device, PMC_FIXED(variant->fixed), 0, PMCF_USR));
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		const __s64 least = pmc_loop_count(self->device, numbers[i], N);

		EXPECT_TRUE(is_exact(N * variant->each,
				     pmc_loop_count(self->device, numbers[i], 2 * N) - least));
	}
}

TEST_F(slots, traces_have_the_counter)
{
	struct perfmon_config c = one_event(variant->trace_event, 1009, FLAG_USER);
	struct trace_sums sums[2];
	struct trace t;
	int i;

	ASSERT_EQ(0, trace_alloc(&t, self->device, 64));
	ASSERT_EQ(0, trace_stage(&t, &c));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, trace_loop(&t, (i + 1) * N));
		ASSERT_STREQ("", trace_sum(&t, self->cpu, &sums[i]));
		EXPECT_LT(0ULL, sums[i].event[0].ticks);
	}
	EXPECT_TRUE(is_exact(N * variant->each, sums[1].event[0].total - sums[0].event[0].total));
	ASSERT_EQ(0, trace_free(&t));
}

TEST_HARNESS_MAIN
