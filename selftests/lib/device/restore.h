/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registers of the PMU before, while and after a child has the device: the child
 * uses it, says so, and gives it up in one of several ways.
 */
#ifndef SELFTESTS_RESTORE_H
#define SELFTESTS_RESTORE_H

#include <sched.h>

#include "snapshot.h"
#include "trace.h"

struct restore {
	cpu_set_t cpus;		/* online */
	struct perfmon_properties p;
	struct snapshot found[TRACE_MAX_CPUS];
	struct snapshot before[TRACE_MAX_CPUS];	/* the child has the device */
	int child;
	int to_child;
	int from_child;
};

/* The ways in which the child gives up the device. */
enum end { STOP, CLOSE, EXIT, KILL };

/* The child's ends of the pipes. */
struct restore_pipes {
	int in;
	int out;
};

/*
 * Leaves the registers of all CPUs as another driver might (snapshot_disturb()):
 * 0 or a negative errno.
 */
int restore_begin(struct restore *r);

/* fork(2), with pipes to the child: 0 in the child, or a negative errno. */
int restore_fork(struct restore *r, struct restore_pipes *pipes);

/* For the child: reports a step to the parent, and waits for its answer. */
int restore_tell(const struct restore_pipes *pipes);

/* Waits until the child uses the device: 0 or -EPIPE. */
int restore_wait(const struct restore *r);

/* Has the child give the device up, waits until it has: 0 or a negative errno. */
int restore_end_child(const struct restore *r, enum end end);

/* The first register that does not read as before, on any CPU; or "". */
const char *restore_difference(const struct restore *r);

/* Ends the child, and puts back what restore_begin() found. */
void restore_finish(const struct restore *r);

#endif
