/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random calls of /dev/perfmon, from the table of its commands.
 */
#ifndef SELFTESTS_RANDOM_CALL_H
#define SELFTESTS_RANDOM_CALL_H

#include "calls.h"
#include "machine.h"
#include "places.h"
#include "rng.h"

struct call {
	unsigned int cmd;
	__u16 size;		/* of the argument; any for an unknown @cmd */
	__u8 command;		/* index of the command that the call was made from */
	__u8 where;		/* enum argument_place */
	__u32 offset;		/* offset of the argument in its pages */
	union argument arg;
};

/*
 * Makes a random call. The call is often valid, and often has one error: a value out of its range,
 * a wrong bit, a bad address, or a wrong command. The call depends only on @rng and @machine, not
 * on earlier calls.
 */
void call_random(struct call *c, struct rng *rng, const struct machine *machine);

/* Changes a part of the argument, its address, or the command. */
void call_mutate(struct call *c, struct rng *rng, const struct machine *machine);

/* Returns a valid call of @cmd with argument @arg (NULL: zeros). */
struct call call_make(unsigned int cmd, const void *arg, __u16 size);

#endif
