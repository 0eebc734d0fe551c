/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the module leaves behind when nobody uses it: nothing.
 */
#ifndef SELFTESTS_FOOTPRINT_H
#define SELFTESTS_FOOTPRINT_H

#include <sched.h>

#include "snapshot.h"

/* As many CPUs as a test looks at. */
#define FOOTPRINT_MAX_CPUS	64

/* The registers of all online CPUs, and the memory in use. */
struct footprint {
	struct perfmon_properties p;
	cpu_set_t cpus;
	struct snapshot registers[FOOTPRINT_MAX_CPUS];
	long free_kb;
	long slab_kb;
};

/*
 * Takes note of how things are while no counter is set up and no trace is there.
 * Returns 0 or a negative errno. The calling thread may run on any CPU afterwards.
 */
int footprint_take(struct footprint *f);

/**
 * footprint_check() - compare with how things are now
 *
 * The registers must be the same on every CPU, and no buffer be there. Of the
 * memory, some is other people's: 32 MB and 1 MB of slabs may come and go.
 *
 * Return: "", or what is not as it was.
 */
const char *footprint_check(const struct footprint *f);

/* The first half of it: which register of CPU @cpu is another, or "". */
const char *footprint_check_cpu(const struct footprint *f, int cpu);

/**
 * footprint_works() - see whether the device does what it should
 *
 * Opens it for writing, counts a loop and traces one, on a machine on which
 * nothing else runs.
 *
 * Return: "", or what is wrong.
 */
const char *footprint_works(void);

#endif
