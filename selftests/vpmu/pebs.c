// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registers of PEBS on a virtual PMU with more counters than reset values in the DS area, and
 * with two MSR numbers for each event select.
 */
#include <errno.h>

#include "harness.h"
#include "pmu.h"

#define MSR_PEBS_ENABLE		0x3f1

/* A bit of an event select: the record has the groups that PEBS_DATA_CFG selects. */
#define SELECT_ADAPTIVE		(1ULL << 34)

/* The format of the records */
#define PERF_CAPABILITIES_PEBS(value)	((value) >> 8 & 0xf)

FIXTURE(pebs)
{
	struct pmu p;
	int reset_counters; /* the general counters that the DS area has a reset value for */
};

FIXTURE_SETUP(pebs)
{
	__u64 capabilities;

	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_LE(6U, self->p.version);
	ASSERT_LT(8, (int)self->p.counters);
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities));
	self->reset_counters = PERF_CAPABILITIES_PEBS(capabilities) == 4 ? 8 : 32;
}

FIXTURE_TEARDOWN(pebs)
{
	msr_write(0, MSR_PEBS_ENABLE, 0);
}

/* Both numbers of a register take the same bits, and show what was written by the other number. */
TEST_F(pebs, adaptive_bit_can_be_written_by_both_numbers)
{
	__u64 value;
	int n;

	for (n = 0; n < (int)self->p.counters; n++) {
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(n), SELECT_ADAPTIVE));
		EXPECT_EQ(0, msr_read(0, MSR_IA32_PERFEVTSEL0 + n, &value));
		EXPECT_EQ(SELECT_ADAPTIVE, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0 + n, 0));
		EXPECT_EQ(0, msr_read(0, MSR_IA32_PMC_GP_CFG_A(n), &value));
		EXPECT_EQ(0ULL, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0 + n, SELECT_ADAPTIVE));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(n), 0));
	}
}

/* A counter without a reset value of its own would take that of a fixed counter. */
TEST_F(pebs, only_counters_with_a_reset_value_have_it)
{
	int n;

	for (n = 0; n < (int)self->p.counters; n++) {
		EXPECT_EQ(n < self->reset_counters ? 0 : -EIO, msr_write(0, MSR_PEBS_ENABLE, 1ULL << n)) {
			TH_LOG("general counter %d", n);
		}
	}
	for (n = 0; n < 32; n++) {
		EXPECT_EQ(self->p.fixed >> n & 1 ? 0 : -EIO, msr_write(0, MSR_PEBS_ENABLE, 1ULL << (32 + n))) {
			TH_LOG("fixed counter %d", n);
		}
	}
}

TEST_HARNESS_MAIN
