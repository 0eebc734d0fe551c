// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to the registers of the virtual PMU on AMD.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <errno.h>

#include "harness.h"
#include "pmu.h"

FIXTURE(amd)
{
	struct pmu p;
};

FIXTURE_SETUP(amd)
{
	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_FALSE(self->p.is_intel);
}

FIXTURE_TEARDOWN(amd)
{
}

/* Bits 19, 21, 39:36 and 63:42 of an event select can't be written. */
TEST_F(amd, reserved_bits_are_ignored)
{
	__u64 value;

	ASSERT_EQ(0, msr_write(0, MSR_AMD_PERF_CTL0_LEGACY,
			       ALL & ~PERFEVTSEL_EN & ~PERFEVTSEL_INT));
	ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_CTL0_LEGACY, &value));
	EXPECT_EQ(0x30fff87ffffULL, value);
	EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_CTL0_LEGACY, 0));
	ASSERT_EQ(0, msr_write(0, MSR_AMD_PERF_CTR0_LEGACY, ALL));
	ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_CTR0_LEGACY, &value));
	EXPECT_EQ((1ULL << 48) - 1, value);
	EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_CTR0_LEGACY, 0));
	if (self->p.version >= 2) {
		EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_GLOBAL_STATUS, ALL));
		ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_GLOBAL_STATUS, &value));
		EXPECT_EQ(0ULL, value);
	}
}

/* AMD APM, volume 2, "Core Performance-Monitoring Counters" */
TEST_F(amd, legacy_registers_are_aliases)
{
	__u64 value;
	int i;

	if (!self->p.core_ext) {
		EXPECT_EQ(-EIO, msr_read(0, MSR_AMD_PERF_CTR0, &value));
		return;
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, msr_write(0, MSR_AMD_PERF_CTR0 + 2 * i, 100 + i));
		ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_CTR0_LEGACY + i,
				      &value));
		EXPECT_EQ(100ULL + i, value);
		ASSERT_EQ(0, msr_write(0, MSR_AMD_PERF_CTL0_LEGACY + i, 0xc0));
		ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_CTL0 + 2 * i, &value));
		EXPECT_EQ(0xc0ULL, value);
		EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_CTL0 + 2 * i, 0));
		EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_CTR0 + 2 * i, 0));
	}
}

TEST_HARNESS_MAIN
