/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An idle machine. The module counts CPUs, not a task, so an exact count needs a
 * machine on which nothing else executes instructions in user mode.
 */
#ifndef SELFTESTS_IDLE_H
#define SELFTESTS_IDLE_H

#include <stdbool.h>

/**
 * wait_until_idle() - wait until every other process sleeps
 *
 * A process that was just forked may still execute instructions on another CPU,
 * until the system call in which it waits. Kernel threads do not matter.
 *
 * Return: 0, or -ETIMEDOUT if some process never sleeps.
 */
int wait_until_idle(void);

/* Waits until one thread sleeps or is gone. Returns as wait_until_idle(). */
int wait_until_asleep(int tid);

/*
 * Sleeps for as long as a wait has lasted so far, but for at least a millisecond and at most a
 * tenth of a second. @waited_us is the time waited so far; the function increases it. So a waiting
 * process executes few instructions, even if it waits for a task whose CPU stands still for
 * seconds. Returns false if a minute is over.
 */
bool wait_longer(unsigned int *waited_us);

#endif
