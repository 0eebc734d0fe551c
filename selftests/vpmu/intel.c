// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is written to the registers of the virtual PMU on Intel.
 *
 * The module must not have taken the counters.
 */
#include <errno.h>

#include "kselftest_harness.h"
#include "pmu.h"

FIXTURE(intel)
{
	struct pmu p;
};

FIXTURE_SETUP(intel)
{
	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_TRUE(self->p.intel);
}

FIXTURE_TEARDOWN(intel)
{
}

/* Bits beyond those that the registers have, version by version */
TEST_F(intel, reserved_bits_fault)
{
	__u64 general = (1ULL << self->p.counters) - 1;
	__u64 all = general | (__u64)self->p.fixed << 32;
	__u64 any_thread = 1ULL << 21, saved;
	bool has_any_thread = self->p.version == 3 || self->p.version == 4;

	EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERFEVTSEL0, 1ULL << 32));
	EXPECT_EQ(has_any_thread ? 0 : -EIO,
		  msr_write(0, MSR_IA32_PERFEVTSEL0, any_thread));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0, 0));
	if (self->p.full_width)
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_A_PMC0, 1ULL << self->p.width));
	if (self->p.version >= 2) {
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_CTRL, &saved));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL,
					  (all + 1) & ~all));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL,
					  1ULL << 35));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, all));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, saved));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, 1ULL << 61));
		EXPECT_EQ(self->p.version >= 4 ? 0 : -EIO,
			  msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, STATUS_CTR_FRZ));
	}
	if (self->p.fixed & 1) {
		EXPECT_EQ(has_any_thread ? 0 : -EIO,
			  msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 1 << 2));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_FIXED_CTR_CTRL,
					  1 << 12));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 0));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_FIXED_CTR(0),
					  1ULL << self->p.width));
	}
}

/* Intel SDM, volume 3B, "Full-Width Writes to Performance Counters" */
TEST_F(intel, narrow_write_is_sign_extended)
{
	__u64 mask = (1ULL << self->p.width) - 1, value;

	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC0, 0xffff00008765ULL));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC0, &value));
	EXPECT_EQ(0x8765ULL, value);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC0, 0x87654321));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC0, &value));
	EXPECT_EQ(0xffffffff87654321ULL & mask, value);
	if (self->p.full_width) {
		ASSERT_EQ(0, msr_write(0, MSR_IA32_A_PMC0, 0x123456789abcULL & mask));
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC0, &value));
		EXPECT_EQ(0x123456789abcULL & mask, value);
	}
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC0, 0));
}

/* Intel SDM, volume 3B, "Architectural Performance Monitoring Version 4" */
TEST_F(intel, version_4_has_status_set_and_inuse)
{
	__u64 value;

	if (self->p.version < 4) {
		EXPECT_EQ(-EIO, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE,
					 &value));
		return;
	}
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(0ULL, value);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0, 0xc0));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(1ULL, value);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0, 0));

	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_SET, 1));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_STATUS, &value));
	EXPECT_EQ(1ULL, value);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, 1));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_STATUS, &value));
	EXPECT_EQ(0ULL, value);
}

TEST_HARNESS_MAIN
