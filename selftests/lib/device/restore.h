/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The registers of the PMU before, during and after the use of the device by a child. The child
 * reports each step, and gives the device up in one of several ways.
 */
#ifndef SELFTESTS_RESTORE_H
#define SELFTESTS_RESTORE_H

#include <sched.h>

#include "snapshot.h"
#include "trace.h"

struct restore {
	cpu_set_t cpus;		/* the online CPUs */
	struct perfmon_properties p;
	struct snapshot undisturbed[TRACE_MAX_CPUS];	/* values before restore_begin() */
	struct snapshot before[TRACE_MAX_CPUS];	/* values before the child uses the device */
	int child;
	int to_child;
	int from_child;
};

/* The ways in which the child gives up the device. */
enum restore_end { STOP, CLOSE, EXIT, KILL };

/* The child's ends of the pipes. */
struct restore_pipes {
	int in;
	int out;
};

/*
 * Leaves the registers of all CPUs as another driver might (snapshot_disturb()). Returns 0
 * or a negative errno.
 */
int restore_begin(struct restore *r);

/* Forks, with pipes to the child. Returns the PID, 0 in the child, or a negative errno. */
int restore_fork(struct restore *r, struct restore_pipes *pipes);

/* For the child: reports a step to the parent, and waits for its answer. */
int restore_report_step(const struct restore_pipes *pipes);

/* Waits until the child uses the device. Returns 0 or -EPIPE. */
int restore_wait_until_used(const struct restore *r);

/* Makes the child give the device up as @end says, and waits for it. Returns 0 or -errno. */
int restore_end_child(const struct restore *r, enum restore_end end);

/* Returns the first register that does not read as before, on any CPU; or "". */
const char *restore_difference(const struct restore *r);

/* Ends the child, and writes back the values from before restore_begin(). */
void restore_finish(const struct restore *r);

#endif
