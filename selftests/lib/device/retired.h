/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The number of instructions that the machine has retired, computed from the cycle counters (APERF)
 * of its CPUs. On any host, this number is an upper bound for the values that the virtual PMU
 * computes from instructions (Documentation/virtual-pmu.rst). For machines with pmu-power=on.
 */
#ifndef SELFTESTS_RETIRED_H
#define SELFTESTS_RETIRED_H

#include <linux/types.h>

/*
 * Returns the number of instructions that a CPU has retired in all modes, or 0 if the CPU has no
 * APERF.
 */
__u64 retired_on(int cpu);

/* Returns the sum of the instructions that all CPUs have retired. */
__u64 retired_insns(void);

/*
 * Returns the largest number of instructions that a register of the package can have counted since
 * retired_insns() returned @before. The register may include another CPU's instructions up to 65536
 * instructions late.
 */
__u64 retired_at_most(__u64 before);

#endif
