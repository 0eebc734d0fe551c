/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine's counters and events, as the device and CPUID report them.
 */
#ifndef SELFTESTS_MACHINE_H
#define SELFTESTS_MACHINE_H

#include <stdbool.h>

#include <linux/perfmon.h>

struct machine {
	struct perfmon_properties properties;
	struct perfmon_info info;
	bool is_intel;
	__u64 select_bits;	/* the bits that event selects have */
	bool tsc_freq_known;	/* the TSC's frequency is known */
	__u32 arch_events;	/* a bit for each PERFMON_ARCH_EVENT_* that CPUID lists */
	__u32 arch_missing;	/* a bit for each architectural event that CPUID reports as missing */
};

/* Reads the properties from the device and CPUID. Returns 0 or a negative errno. */
int machine_read(struct machine *m);

/* The largest rate of an event in a general or a fixed counter. */
__u64 machine_largest_rate(const struct machine *m, bool fixed);

#endif
