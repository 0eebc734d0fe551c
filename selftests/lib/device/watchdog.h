/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The NMI watchdog, which holds a counter through Linux perf.
 */
#ifndef SELFTESTS_WATCHDOG_H
#define SELFTESTS_WATCHDOG_H

/* The kernel's own, which no libc knows: there is no NMI watchdog. */
#define ENOTSUPP	524

/* Switches it on ('1') or off ('0'): 0 or a negative errno. */
int watchdog_set(char value);

#endif
