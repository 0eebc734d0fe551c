// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kinds of cores of a hybrid processor on the virtual PMU: their CPUID, and raw events that
 * count different things on the two kinds. The first CPU is a big core, the second a small one.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <cpuid.h>

#include "counted_loop.h"
#include "cpu.h"
#include "harness.h"
#include "idle.h"
#include "loop.h"
#include "pmu.h"

#define N	100000UL

/* CPUID.07H:EDX, and the kinds in CPUID.1AH:EAX[31:24] */
#define HYBRID	(1U << 15)
#define CORE	0x40
#define ATOM	0x20

FIXTURE(kinds)
{
};

FIXTURE_VARIANT(kinds)
{
	int cpu;
	unsigned int kind;
	/* The growth of the count for each iteration of loop(), in quarters; a select of 0 ends them. */
	struct { __u64 select; unsigned long quarters; } events[7];
};

/* An iteration has two instructions, one of them a branch. Eight instructions take ten cycles. */
FIXTURE_VARIANT_ADD(kinds, core)
{
	.cpu = 0,
	.kind = CORE,
	.events = { { 0x81d0, 8 }, { 0xe424, 4 }, { 0x0280, 10 } },
};

FIXTURE_VARIANT_ADD(kinds, atom)
{
	.cpu = 1,
	.kind = ATOM,
	/* The last three are slots: of wrong paths, of the front end, of operations that retired. */
	.events = { { 0x81d0, 4 }, { 0xe424, 10 }, { 0x0280, 4 }, { 0x0073, 4 }, { 0x019c, 12 }, { 0x02c2, 16 } },
};

FIXTURE_SETUP(kinds)
{
	ASSERT_EQ(0, pin_to_cpu(variant->cpu));
	ASSERT_EQ(0, msr_write(variant->cpu, MSR_IA32_PERF_GLOBAL_CTRL, 1));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(kinds)
{
	msr_write(variant->cpu, MSR_IA32_PERFEVTSEL0, 0);
	msr_write(variant->cpu, MSR_IA32_PMC0, 0);
	msr_write(variant->cpu, MSR_IA32_PERF_GLOBAL_CTRL, 0);
}

TEST_F(kinds, cpuid_tells_the_kind)
{
	unsigned int eax, ebx, ecx, edx;

	ASSERT_TRUE(__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(HYBRID, edx & HYBRID);
	ASSERT_TRUE(__get_cpuid_count(0x1a, 0, &eax, &ebx, &ecx, &edx));
	EXPECT_EQ(variant->kind, eax >> 24);
	EXPECT_NE(0U, eax & 0xffffff);
	EXPECT_EQ(0U, ebx | ecx | edx);
}

TEST_F(kinds, the_same_number_is_another_event)
{
	unsigned int i;

	for (i = 0; variant->events[i].select; i++) {
		const __u64 select = variant->events[i].select;
		const __u64 least = count_loop(variant->cpu, select, 1);
		const __u64 count = count_loop(variant->cpu, select, N + 1) - least;
		const __u64 expected = variant->events[i].quarters * N / 4;

		/* A count of cycles is rounded down. */
		EXPECT_LE(expected - 1, count);
		EXPECT_GE(expected + 1, count);
	}
}

TEST_HARNESS_MAIN
