/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A check for leaks after the last close of the device: every register reads as before,
 * the memory is free again, the device counts and traces exactly, and the module has
 * written nothing into the kernel log.
 */
#ifndef SELFTESTS_LEAK_CHECK_H
#define SELFTESTS_LEAK_CHECK_H

#include <sched.h>

#include "snapshot.h"
#include "trace.h"

struct leak_check {
	struct perfmon_properties properties;
	cpu_set_t cpus;		/* the online CPUs */
	struct snapshot before[TRACE_MAX_CPUS];
	struct snapshot undisturbed[TRACE_MAX_CPUS];	/* values before leak_check_disturb() */
	long free_kb;
	long slab_kb;
	int kmsg;
};

/*
 * Stores the registers of all online CPUs, the free memory, and the end of the kernel log. Returns
 * 0 or a negative errno.
 */
int leak_check_begin(struct leak_check *l);

/*
 * Writes values to the registers as another driver might leave them (snapshot_disturb()), and
 * expects the same values at the end. Otherwise the check could miss a register that the module
 * does not restore, because the register happens to have its old value. CPUs that go offline lose
 * these values. Returns 0 or a negative errno.
 */
int leak_check_disturb(struct leak_check *l);

/* Writes back the values from before leak_check_disturb(). */
void leak_check_undisturb(const struct leak_check *l);

/*
 * Return "", or a description of the leak. leak_check_registers() also unpins the calling thread.
 * leak_check_memory() waits up to a minute until no buffer of the module is left, and as much
 * memory is free as at leak_check_begin(). In the meantime other programs may have taken 32 MB, of
 * which 1 MB in slabs.
 */
const char *leak_check_registers(const struct leak_check *l);
const char *leak_check_memory(const struct leak_check *l);
const char *leak_check_log(const struct leak_check *l);
const char *leak_check_counts(void);

#endif
