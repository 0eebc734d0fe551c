/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All registers of a CPU's PMU that the module may touch, read and written
 * behind its back.
 */
#ifndef SELFTESTS_SNAPSHOT_H
#define SELFTESTS_SNAPSHOT_H

#include <linux/perfmon.h>

#define SNAPSHOT_MAX_COUNTERS	32

/* Those that this CPU does not have are 0. */
struct snapshot {
	__u64 select[SNAPSHOT_MAX_COUNTERS];
	__u64 counter[SNAPSHOT_MAX_COUNTERS];
	__u64 fixed[SNAPSHOT_MAX_COUNTERS];
	__u64 fixed_ctrl;
	__u64 global_ctrl;
	__u64 global_status;
	__u64 debugctl;
	__u64 lbr_select;
	__u32 lvtpc;
};

/*
 * Both leave the calling thread on CPU @cpu (see lvtpc_read()), and return 0 or
 * a negative errno.
 */
int snapshot_read(const struct perfmon_properties *p, int cpu,
		  struct snapshot *s);

/*
 * Writes the registers that somebody else may have left in any state: the event
 * selects, the global control, the choice of branches, the interrupt.
 */
int snapshot_write(const struct perfmon_properties *p, int cpu,
		   const struct snapshot *s);

#endif
