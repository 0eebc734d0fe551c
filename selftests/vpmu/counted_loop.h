/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTESTS_VPMU_COUNTED_LOOP_H
#define SELFTESTS_VPMU_COUNTED_LOOP_H

#include "loop.h"
#include "msr.h"

/*
 * Returns the count of an event of Intel in loop(@n), in user mode, by general counter 0 of the CPU
 * that the caller is pinned to, or ~0 on failure. The count includes some instructions around the
 * loop. Not inlined, so that each call executes the same instructions around the loop.
 */
static __u64 __attribute__((noinline)) count_loop(int cpu, __u64 select, unsigned long n)
{
	const __u64 user = 1ULL << 16;
	__u64 value;

	if (msr_write(cpu, MSR_IA32_PMC0, 0) ||
	    msr_write(cpu, MSR_IA32_PERFEVTSEL0, select | user | PERFEVTSEL_EN))
		return ~0ULL;
	loop(n);
	if (msr_write(cpu, MSR_IA32_PERFEVTSEL0, 0) || msr_read(cpu, MSR_IA32_PMC0, &value))
		return ~0ULL;
	return value;
}

#endif
