/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All registers of a CPU's PMU that the module may touch, read and written
 * behind its back.
 */
#ifndef SELFTESTS_SNAPSHOT_H
#define SELFTESTS_SNAPSHOT_H

#include <sched.h>

#include <linux/perfmon.h>

#define SNAPSHOT_MAX_COUNTERS	32

/* Registers that this CPU does not have are 0. */
struct snapshot {
	__u64 select[SNAPSHOT_MAX_COUNTERS];
	__u64 counter[SNAPSHOT_MAX_COUNTERS];
	__u64 fixed[SNAPSHOT_MAX_COUNTERS];
	__u64 fixed_ctrl;
	__u64 global_ctrl;
	__u64 global_status;
	__u64 debugctl;
	__u64 lbr_select;
	__u64 lbr_enable;
	__u64 lbr_size;
	__u32 lvtpc;
};

/*
 * All three leave the calling thread on CPU @cpu (see lvtpc_read()), and return
 * 0 or a negative errno.
 */
int snapshot_read(const struct perfmon_properties *p, int cpu,
		  struct snapshot *s);

/*
 * Writes the registers that another driver may have left in any state: the event
 * selects, the global control, the choice of branches, the interrupt.
 */
int snapshot_write(const struct perfmon_properties *p, int cpu,
		   const struct snapshot *s);

/**
 * snapshot_disturb() - leave the registers as another driver might
 * @found: what they hold
 *
 * The event selects hold values that the module must put back because they
 * count nothing, and one that it must not, because the counter would run
 * (IA32_PERFEVTSELx.EN). The others hold values with which it can't count:
 * counter 0 is disabled in the global control, the interrupt is masked, and
 * branches of no mode are recorded.
 */
int snapshot_disturb(const struct perfmon_properties *p, int cpu,
		     const struct snapshot *found);

/*
 * Returns the name of the first register that does not read @after the module has
 * gone as it should for its value @before; or "".
 */
const char *snapshot_difference(const struct snapshot *before,
				const struct snapshot *after);

/*
 * The same for what the registers of all @cpus read now. @before has an element
 * for each CPU number. Leaves the calling thread on one of them.
 */
const char *snapshot_difference_now(const struct perfmon_properties *p,
				    const cpu_set_t *cpus,
				    const struct snapshot *before);

#endif
