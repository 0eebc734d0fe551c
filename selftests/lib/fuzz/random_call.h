/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random calls of /dev/perfmon, made from the table of its commands.
 */
#ifndef SELFTESTS_RANDOM_CALL_H
#define SELFTESTS_RANDOM_CALL_H

#include "calls.h"
#include "machine.h"
#include "places.h"
#include "rng.h"

struct call {
	unsigned int cmd;
	__u16 size;		/* of the argument; of an unknown @cmd, any */
	__u8 command;		/* index of the command that it was made from */
	__u8 where;
	__u32 offset;
	union argument arg;
};

/*
 * Mostly a right call, and often one with something wrong: an edge of a range,
 * a bit, an address, or the command itself. A call depends on @rng and @machine
 * alone, not on what happened before.
 */
void call_random(struct call *c, struct rng *rng, const struct machine *machine);

/* Changes something in the argument, or its place, or the command. */
void call_mutate(struct call *c, struct rng *rng, const struct machine *machine);

/* A right call of @cmd with the argument @arg (NULL: zeros). */
struct call call_of(unsigned int cmd, const void *arg, __u16 size);

#endif
