/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All registers of a CPU's PMU that the module may touch, read and written without the
 * module.
 */
#ifndef SELFTESTS_SNAPSHOT_H
#define SELFTESTS_SNAPSHOT_H

#include <sched.h>

#include <linux/perfmon.h>

#define SNAPSHOT_MAX_COUNTERS	32

/* The values of registers; 0 for registers that this CPU lacks. */
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
 * snapshot_read(), snapshot_write() and snapshot_disturb() leave the calling thread on CPU
 * @cpu (see lvtpc_read()), and return 0 or a negative errno.
 */
int snapshot_read(const struct perfmon_properties *p, int cpu,
		  struct snapshot *s);

/*
 * Writes the registers that may have any value when the module starts: the event selects, the
 * global control, the branch selection, the LVTPC.
 */
int snapshot_write(const struct perfmon_properties *p, int cpu,
		   const struct snapshot *s);

/**
 * snapshot_disturb() - leave the registers as another driver might
 * @before: the values of the registers before the call
 *
 * Most event selects get a value that the module must restore, because it counts nothing. One
 * gets a value that the module must not restore, because its counter would run
 * (IA32_PERFEVTSELx.EN). The other registers get values that prevent counting: counter 0 is
 * disabled in the global control, the LVTPC is masked, and branches of no privilege level are
 * recorded.
 */
int snapshot_disturb(const struct perfmon_properties *p, int cpu,
		     const struct snapshot *before);

/*
 * Compares the registers @before the module has used them with the registers @after the module has
 * released them. Returns the name of the first register with a wrong value, or "".
 */
const char *snapshot_difference(const struct snapshot *before,
				const struct snapshot *after);

/*
 * Compares the present registers of all @cpus with @before, which has an element for each CPU
 * number. Returns as snapshot_difference(). Leaves the calling thread on one CPU.
 */
const char *snapshot_difference_now(const struct perfmon_properties *p,
				    const cpu_set_t *cpus,
				    const struct snapshot *before);

#endif
