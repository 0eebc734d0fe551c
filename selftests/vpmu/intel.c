// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to the registers of the virtual PMU on Intel.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "harness.h"
#include "pmu.h"

FIXTURE(intel)
{
	struct pmu p;
};

FIXTURE_SETUP(intel)
{
	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_TRUE(self->p.is_intel);
}

FIXTURE_TEARDOWN(intel)
{
}

/* Tests bits that the registers of the PMU's version do not have. */
TEST_F(intel, reserved_bits_fault)
{
	__u64 general = (1ULL << self->p.counters) - 1;
	__u64 all = general | (__u64)self->p.fixed << 32;
	__u64 any_thread = 1ULL << 21, saved;
	bool has_any_thread = self->p.version == 3 || self->p.version == 4;

	EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERFEVTSEL0, 1ULL << 32));
	EXPECT_EQ(has_any_thread ? 0 : -EIO,
		  msr_write(0, MSR_IA32_PERFEVTSEL0, any_thread));
	EXPECT_EQ(self->p.version >= 6 ? 0 : -EIO,
		  msr_write(0, MSR_IA32_PERFEVTSEL0, SELECT_EQ | SELECT_UMASK2));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0, 0));
	if (self->p.full_width)
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_A_PMC0, 1ULL << self->p.width));
	if (self->p.version >= 2) {
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_CTRL, &saved));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL,
					  (all + 1) & ~all));
		/* No processor has fixed counter 7. */
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL,
					  1ULL << 39));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, all));
		EXPECT_EQ(self->p.metrics ? 0 : -EIO,
			  msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, all | EN_PERF_METRICS));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, saved));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, 1ULL << 61));
		EXPECT_EQ(self->p.version >= 4 ? 0 : -EIO,
			  msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, STATUS_CTR_FRZ));
	}
	EXPECT_EQ(self->p.pt ? 0 : -EIO, msr_write(0, MSR_IA32_RTIT_CTL, TRACE_EN));
	EXPECT_EQ(self->p.pt ? 0 : -EIO, msr_write(0, MSR_IA32_RTIT_CTL, 0));
	if (self->p.fixed & 1) {
		EXPECT_EQ(has_any_thread ? 0 : -EIO,
			  msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 1 << 2));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_FIXED_CTR_CTRL,
					  1 << 28));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 0));
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_FIXED_CTR(0),
					  1ULL << self->p.width));
	}
}

/* Intel SDM, volume 4, table 2-2: a PMU, no BTS, no PEBS */
TEST_F(intel, misc_enable_reports_the_pmu)
{
	const __u64 pmu = 1 << 7 | 1 << 11 | 1 << 12;
	__u64 saved, value;

	ASSERT_EQ(0, msr_read(0, MSR_IA32_MISC_ENABLE, &saved));
	EXPECT_EQ(pmu, saved & pmu);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_MISC_ENABLE, saved & ~pmu));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_MISC_ENABLE, &value));
	EXPECT_EQ(saved, value);
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

/*
 * Intel SDM, volume 2A, "CPUID", leaf 23H: subleaves 0, 1 and 3; with pmu-reload also subleaf 2.
 * Subleaves 1 and 3 repeat leaf 0AH in other forms.
 */
TEST_F(intel, version_6_has_leaf_23)
{
	unsigned int eax, ebx, ecx, edx, events, count;

	ASSERT_TRUE(__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(self->p.version >= 6, (eax >> 8 & 1) != 0);
	if (self->p.version < 6)
		return;
	ASSERT_TRUE(__get_cpuid(0xa, &eax, &ebx, &ecx, &edx));
	count = eax >> 24;
	events = ((1U << count) - 1) & ~ebx;
	ASSERT_TRUE(__get_cpuid_count(0x23, 0, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(self->p.reload ? 0xfU : 0xbU, eax);
	/* UMASK2 and EQ */
	EXPECT_EQ(0x3U, ebx);
	ASSERT_TRUE(__get_cpuid_count(0x23, 1, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ((1U << self->p.counters) - 1, eax);
	EXPECT_EQ(self->p.fixed, ebx);
	ASSERT_TRUE(__get_cpuid_count(0x23, 2, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(self->p.reload ? (1U << self->p.counters) - 1 : 0, ecx);
	EXPECT_EQ(self->p.reload ? self->p.fixed : 0, edx);
	ASSERT_TRUE(__get_cpuid_count(0x23, 3, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(events, eax);
}

/* Intel SDM, volume 4, table 2-2 */
TEST_F(intel, version_6_has_aliases)
{
	__u64 mask = (1ULL << self->p.width) - 1, value;
	unsigned int i;

	if (self->p.version < 6)
		return;
	for (i = 0; i < self->p.counters; i++) {
		ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CTR(i), mask - i));
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC0 + i, &value));
		EXPECT_EQ(mask - i, value);
		ASSERT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0 + i, 0xc0 + i));
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC_GP_CFG_A(i), &value));
		EXPECT_EQ(0xc0ULL + i, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(i), 0));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CTR(i), 0));
	}
	for (i = 0; self->p.fixed >> i; i++) {
		if (!(self->p.fixed >> i & 1))
			continue;
		ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_FX_CTR(i), mask - i));
		ASSERT_EQ(0, msr_read(0, MSR_IA32_FIXED_CTR(i), &value));
		EXPECT_EQ(mask - i, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR(i), 0));
	}
}

#define SMIS	200

/* The firmware executes more instructions than this in an SMI: it saves and restores registers. */
#define SMI_INSNS	20

/* Returns the instructions of all modes around a system management interrupt; 0 on failure. */
static __u64 count_smi(int port)
{
	const __u64 select = 0xc0 | 3 << 16 | 1 << 22;
	const unsigned char command = 0xff;	/* none of the firmware's */
	__u64 value;

	if (msr_write(0, MSR_IA32_PMC0, 0) ||
	    msr_write(0, MSR_IA32_PERFEVTSEL0, select) ||
	    pwrite(port, &command, 1, APM_CONTROL) != 1 ||
	    msr_write(0, MSR_IA32_PERFEVTSEL0, 0) ||
	    msr_read(0, MSR_IA32_PMC0, &value))
		return 0;
	return value;
}

/*
 * Returns the least count of SMIS interrupts, in which the kernel had no other work. Other counts
 * may include a timer tick, most often on a busy host.
 */
static __u64 count_least_smi(int port)
{
	__u64 least = UINT64_MAX, value;
	int i;

	for (i = 0; i < SMIS; i++) {
		value = count_smi(port);
		if (value < least)
			least = value;
	}
	return least;
}

/* Intel SDM, volume 3B, "IA32_DEBUGCTL MSR" */
TEST_F(intel, freeze_while_smm_excludes_the_firmware)
{
	__u64 before, after, capabilities = 0, all, kernel;
	int port = open("/dev/port", O_WRONLY);

	if (self->p.capabilities)
		ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities));
	EXPECT_EQ(self->p.version >= 2, !!(capabilities & PERF_CAP_SMM_FREEZE));
	if (self->p.version < 2) {
		EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_DEBUGCTL, FREEZE_WHILE_SMM));
		close(port);
		return;
	}
	ASSERT_LE(0, port);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 1));
	ASSERT_EQ(0, msr_read(0, MSR_SMI_COUNT, &before));
	/* Clears the register first, since the kernel may have set the bit. */
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, 0));
	all = count_least_smi(port);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, FREEZE_WHILE_SMM));
	kernel = count_least_smi(port);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, 0));
	ASSERT_EQ(0, msr_read(0, MSR_SMI_COUNT, &after));
	ASSERT_EQ(2ULL * SMIS, after - before);
	ASSERT_LT(0ULL, kernel);

	EXPECT_LT(kernel + SMI_INSNS, all);
	TH_LOG("an SMI: %llu instructions", all - kernel);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 0));
	close(port);
}

TEST_HARNESS_MAIN
