// SPDX-License-Identifier: GPL-2.0-only
#include "cpi.h"
#include "cpu.h"
#include "msr.h"
#include "retired.h"

/* Intel SDM, volume 4, table 2-2; AMD APM, volume 2, appendix A */
#define MSR_APERF	0xe8

/* The number of instructions that a register may count late: see retired_at_most(). */
#define MAX_LATE_INSNS	65536

/*
 * Cycles and instructions are rounded down, so the difference of two values is too small by at most
 * two.
 */
#define ROUNDING_INSNS		2

__u64 retired_on(int cpu)
{
	__u64 cycles;

	return msr_read(cpu, MSR_APERF, &cycles) ? 0 : cycles * CPI_ONE / CPI_CYCLES;
}

__u64 retired_insns(void)
{
	__u64 insns = 0;
	int cpu;

	for (cpu = 0; cpu < cpu_ids(); cpu++)
		insns += retired_on(cpu);
	return insns;
}

__u64 retired_at_most(__u64 before)
{
	const int cpus = cpu_ids();

	return retired_insns() - before + cpus * ROUNDING_INSNS + (cpus - 1) * MAX_LATE_INSNS;
}
