/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random calls of /dev/perfmon, made from a table of its commands and of the
 * fields of their arguments.
 */
#ifndef SELFTESTS_CALLS_H
#define SELFTESTS_CALLS_H

#include <stdbool.h>

#include <linux/perfmon.h>

#include "rng.h"

/* What the machine has: which values are good depends on it. */
struct machine {
	struct perfmon_properties properties;
	struct perfmon_info info;
	bool intel;
	bool tstamp;		/* the TSC's frequency is known */
	__u32 arch_events;	/* a bit for each PERFMON_ARCH_EVENT_* there is */
	__u32 arch_missing;	/* and for each that CPUID says is missing */
};

/* Asks the device and CPUID: 0 or a negative errno. */
int machine_read(struct machine *m);

union argument {
	int num;	/* all of the counting interface begin with it */
	struct pmc pmc;
	struct pmc2 pmc2;
	struct pmc_data data;
	struct pmc_cpu_data cpu_data;
	struct pmc_tstamp tstamp;
	struct perfmon_properties properties;
	struct perfmon_info info;
	struct perfmon_alloc alloc;
	struct perfmon_buffer_handle_req handle;
	struct perfmon_event_definition definition;
	struct perfmon_config config;
	unsigned char bytes[sizeof(struct pmc_cpu_data)];
};

/* Where an argument lies. */
enum where {
	GOOD,
	CROSSING,	/* from a page to the next */
	HALF_WRITABLE,	/* from a page to one that is read-only */
	READ_ONLY,
	STRADDLING,	/* its end is not mapped */
	UNMAPPED,
	KERNEL,		/* an address of the kernel's */
	NON_CANONICAL,	/* one that no program can have */
};

struct call {
	unsigned int cmd;
	__u16 size;		/* of the argument; of an unknown @cmd, any */
	__u8 command;		/* index of the command that it was made from */
	__u8 where;
	__u32 offset;
	union argument arg;
};

#define CALLS_COMMANDS	21

/* The name of command @i, without IOCTL_PERFMON_. */
const char *command_name(unsigned int i);

/*
 * Mostly a right call, and often one with something wrong: an edge of a range,
 * a bit, an address, or the command itself. A call depends on @rng and @machine
 * alone, not on what happened before.
 */
void call_random(struct call *c, struct rng *rng, const struct machine *machine);

/* Makes something else of the argument, or of its place. */
void call_mutate(struct call *c, struct rng *rng, const struct machine *machine);

/* A right call of @cmd with the argument @arg (NULL: zeros). */
struct call call_of(unsigned int cmd, const void *arg, __u16 size);

/* Memory for the arguments: pages that can be accessed in different ways. */
struct places {
	char *pages;	/* two writable, a read-only one, one that is not mapped */
	char *alias;	/* the first three again, writable */
	long page_size;
};

int places_map(struct places *p);

/* Where the argument of a call was put, and what can be done there. */
struct placed {
	void *p;
	void *alias;	/* the same memory, or NULL if it is not all there */
	bool readable;
	bool writable;
};

struct placed call_place(const struct places *places, const struct call *c);

#endif
