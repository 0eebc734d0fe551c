/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures the cost of operations in instructions, while another task, the partner, alternates with
 * the calling task: each sched_yield(2) makes two context switches. For one CPU whose time-stamp
 * counter advances with each instruction.
 */
#ifndef SELFTESTS_PARTNER_H
#define SELFTESTS_PARTNER_H

#include <sys/types.h>

/*
 * Gives the calling task a real-time priority, and starts the partner with the same priority.
 * Outside of measurements the partner is stopped, because it leaves no CPU time to kernel threads,
 * and opening an event waits for kernel threads. Returns the partner, or a negative errno.
 */
pid_t partner_start(void);

/* Lets the partner run, or stops it. */
void partner_continue(void);
void partner_stop(void);

/* Ends the partner. */
void partner_end(void);

/*
 * Returns the least of many measured costs of an operation, so that the result includes no timer
 * interrupt.
 */
unsigned long long partner_least_cost(void (*operation)(void));

/* Calls sched_yield(2). */
void partner_yield(void);

#endif
