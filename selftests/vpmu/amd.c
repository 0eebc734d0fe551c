// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to the registers of the virtual PMU on AMD.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>

#include "cpu.h"
#include "harness.h"
#include "pmu.h"

#define MSR_EFER	0xc0000080
/* VMMCALL and other instructions for virtual machines exist. */
#define EFER_SVME	(1ULL << 12)

#define USR		(1ULL << 16)

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

static sigjmp_buf interrupted;

static void jump_out(int)
{
	siglongjmp(interrupted, 1);
}

/*
 * Defines a function that executes VMMCALL, which is undefined outside of a virtual machine,
 * followed by @nops instructions that do not run. The function returns the count, or ~0 on failure.
 */
#define DEFINE_VMMCALL(name, nops)							\
static __u64 __attribute__((noinline)) name(void)					\
{											\
	__u64 value;									\
											\
	if (msr_write(0, MSR_AMD_PERF_CTR0_LEGACY, 0) ||				\
	    msr_write(0, MSR_AMD_PERF_CTL0_LEGACY, 0xc0 | USR | PERFEVTSEL_EN))		\
		return ~0ULL;								\
	if (!sigsetjmp(interrupted, 1))							\
		__asm__ volatile("	vmmcall\n"					\
				 "	.skip	" #nops ", 0x90" : : : "memory");	\
	if (msr_write(0, MSR_AMD_PERF_CTL0_LEGACY, 0) ||				\
	    msr_read(0, MSR_AMD_PERF_CTR0_LEGACY, &value))				\
		return ~0ULL;								\
	return value;									\
}

DEFINE_VMMCALL(vmmcall_alone, 0)
DEFINE_VMMCALL(vmmcall_and_nops, 64)

/* The instructions that follow VMMCALL in the same translated block of code are not counted. */
TEST_F(amd, instructions_after_vmmcall_are_not_counted)
{
	const struct sigaction action = { .sa_handler = jump_out };
	__u64 efer, enabled = 0, alone;

	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, sigaction(SIGILL, &action, NULL));
	if (self->p.version >= 2) {
		ASSERT_EQ(0, msr_read(0, MSR_AMD_PERF_GLOBAL_CTL, &enabled));
		ASSERT_EQ(0, msr_write(0, MSR_AMD_PERF_GLOBAL_CTL, 1));
	}
	ASSERT_EQ(0, msr_read(0, MSR_EFER, &efer));
	ASSERT_EQ(0, msr_write(0, MSR_EFER, efer | EFER_SVME));
	EXPECT_NE(~0ULL, vmmcall_alone());
	alone = vmmcall_alone();
	EXPECT_NE(~0ULL, alone);
	vmmcall_and_nops();
	EXPECT_EQ(alone, vmmcall_and_nops());
	EXPECT_EQ(0, msr_write(0, MSR_EFER, efer));
	if (self->p.version >= 2)
		EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_GLOBAL_CTL, enabled));
	EXPECT_EQ(0, msr_write(0, MSR_AMD_PERF_CTR0_LEGACY, 0));
}

TEST_HARNESS_MAIN
