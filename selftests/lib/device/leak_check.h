/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaks after the last close of the device: every register reads as
 * before, the memory is free again, the device counts and traces exactly, and the
 * module has written nothing into the kernel log.
 */
#ifndef SELFTESTS_LEAK_CHECK_H
#define SELFTESTS_LEAK_CHECK_H

#include <sched.h>

#include "snapshot.h"
#include "trace.h"

struct leak_check {
	struct perfmon_properties properties;
	cpu_set_t cpus;		/* online */
	struct snapshot before[TRACE_MAX_CPUS];
	struct snapshot found[TRACE_MAX_CPUS];	/* before leak_check_disturb() */
	long free_kb;
	long slab_kb;
	int kmsg;
};

/* Reads the registers of all online CPUs: 0 or a negative errno. */
int leak_check_begin(struct leak_check *l);

/*
 * Leaves the registers as another driver might (snapshot_disturb()), and expects
 * to find them so. Otherwise a register that the module does not restore would go
 * unnoticed where the module writes the kernel's own value. CPUs that go offline
 * lose it. Returns 0 or a negative errno.
 */
int leak_check_disturb(struct leak_check *l);

/* Writes back what leak_check_disturb() found. */
void leak_check_undisturb(const struct leak_check *l);

/*
 * These return "", or what is wrong. The caller may run on any CPU afterwards. The
 * rest of the system may take 32 MB, 1 MB of it in slabs; the module's buffers must
 * all be gone.
 */
const char *leak_check_registers(const struct leak_check *l);
const char *leak_check_memory(const struct leak_check *l);
const char *leak_check_log(const struct leak_check *l);
const char *leak_check_counts(void);

#endif
