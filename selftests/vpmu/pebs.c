// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registers of PEBS: with formats from 4 on, of a virtual PMU with more counters than reset values
 * in the DS area, and with two MSR numbers for each event select.
 */
#include <errno.h>
#include <sched.h>

#include "harness.h"
#include "pmu.h"

#define MSR_IA32_DS_AREA	0x600

/* A bit of an event select: the record has the groups that PEBS_DATA_CFG selects. */
#define SELECT_ADAPTIVE		(1ULL << 34)

/* Returns the address of a page that the kernel always has mapped. */
static unsigned long gdt_address(void)
{
	struct {
		__u16 limit;
		unsigned long base;
	} __attribute__((packed)) gdt;

	__asm__ volatile("sgdt %0" : "=m" (gdt));
	return gdt.base;
}

FIXTURE(pebs)
{
	struct pmu p;
	int format;
	int reset_counters; /* the general counters that the DS area has a reset value for */
};

FIXTURE_SETUP(pebs)
{
	__u64 capabilities;

	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities));
	self->format = PERF_CAPABILITIES_PEBS(capabilities);
	ASSERT_LE(3, self->format);
	if (self->format > 3) {
		ASSERT_LE(6U, self->p.version);
		ASSERT_LT(8, (int)self->p.counters);
	}
	self->reset_counters = self->format == 4 ? 8 : 32;
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

	if (self->format == 3)
		return;
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

	if (self->format == 3)
		return;
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

/* Intel SDM, volume 3B, "IA32_PERF_GLOBAL_INUSE MSR": bit 63 tells that something can interrupt. */
TEST_F(pebs, counters_with_pebs_are_in_use)
{
	const __u64 pmi_in_use = 1ULL << 63;
	__u64 value;

	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(0ULL, value & pmi_in_use);
	ASSERT_EQ(0, msr_write(0, MSR_PEBS_ENABLE, 1));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(pmi_in_use, value & pmi_in_use);
}

/*
 * With format 3, bits 35:32 of PEBS_ENABLE are for load latency of the general counters. They do not give PEBS to
 * the fixed counters, whose overflows show in GLOBAL_STATUS. For PEBS the counter would be reloaded from the DS area:
 * any address that the kernel has mapped.
 */
TEST_F(pebs, load_latency_is_no_pebs_of_fixed_counters)
{
	const __u64 fixed_0 = 1ULL << 32;
	__u64 saved, value;

	if (self->format != 3)
		return;
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DS_AREA, &saved));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, (__u64)gdt_address()));
	ASSERT_EQ(0, msr_write(0, MSR_PEBS_ENABLE, fixed_0));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR(0), (1ULL << self->p.width) - 100));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 3));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, fixed_0));
	sched_yield();
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 0));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_STATUS, &value));
	EXPECT_EQ(fixed_0, value);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, value));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, saved));
}

TEST_HARNESS_MAIN
