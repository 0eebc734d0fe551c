/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of operations in instructions, beside a task that the calling task alternates with: each
 * sched_yield(2) is two context switches. For one CPU whose time-stamp counter advances with each
 * instruction.
 */
#ifndef SELFTESTS_PARTNER_H
#define SELFTESTS_PARTNER_H

#include <sys/types.h>

/*
 * Gives the calling task a real-time priority, and starts the partner, which has the same. The
 * partner runs only while something is measured: it leaves no CPU time to kernel threads, which
 * opening an event waits for. Returns the partner, or a negative errno.
 */
pid_t partner_start(void);

/* Lets the partner run, or stops it. */
void partner_continue(void);
void partner_stop(void);

/* Ends the partner. */
void partner_end(void);

/* Returns the least of many costs of an operation, which has no timer interrupt in it. */
unsigned long long partner_least_cost(void (*operation)(void));

/* Calls sched_yield(2). */
void partner_yield(void);

#endif
