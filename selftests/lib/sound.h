/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether all is well when nobody has the device open any more: every register
 * is as it was, the memory is given back, the device counts and traces exactly,
 * and the module has had nothing to say.
 */
#ifndef SELFTESTS_SOUND_H
#define SELFTESTS_SOUND_H

#include <sched.h>

#include "snapshot.h"
#include "trace.h"

struct sound {
	struct perfmon_properties properties;
	cpu_set_t cpus;		/* those that are online */
	struct snapshot before[TRACE_MAX_CPUS];
	struct snapshot found[TRACE_MAX_CPUS];	/* before sound_disturb() */
	long free_kb;
	long slab_kb;
	int kmsg;
};

/* Reads the registers of all online CPUs: 0 or a negative errno. */
int sound_begin(struct sound *s);

/*
 * Leaves the registers as somebody else might (snapshot_disturb()), and expects to
 * find them so: then also those are looked at that the kernel happens to keep at
 * the module's value. CPUs that go offline lose it. Returns 0 or a negative errno.
 */
int sound_disturb(struct sound *s);

/* Undoes that. */
void sound_undisturb(const struct sound *s);

/*
 * These return "", or what is wrong. The caller may run on any CPU afterwards. Of
 * the memory, some is other people's: 32 MB and 1 MB of slabs may come and go, but
 * none of the module's buffers.
 */
const char *sound_registers(const struct sound *s);
const char *sound_memory(const struct sound *s);
const char *sound_log(const struct sound *s);
const char *sound_counts(void);

#endif
