/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether all is well when nobody has the device open any more: every register
 * is as it was, the device counts and traces exactly, and the module has had
 * nothing to say.
 */
#ifndef SELFTESTS_SOUND_H
#define SELFTESTS_SOUND_H

#include "snapshot.h"
#include "trace.h"

struct sound {
	struct perfmon_properties properties;
	struct snapshot before[TRACE_MAX_CPUS];
	int kmsg;
};

/* Reads the registers of all online CPUs: 0 or a negative errno. */
int sound_begin(struct sound *s);

/* These return "", or what is wrong. */
const char *sound_registers(const struct sound *s);
const char *sound_log(const struct sound *s);
const char *sound_counts(void);

#endif
