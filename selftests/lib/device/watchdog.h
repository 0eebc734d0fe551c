/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The NMI watchdog, which holds a counter through Linux perf.
 */
#ifndef SELFTESTS_WATCHDOG_H
#define SELFTESTS_WATCHDOG_H

/* An errno of the kernel that libc lacks: the kernel has no NMI watchdog. */
#define ENOTSUPP	524

/* Switches the watchdog on ('1') or off ('0'). Returns 0 or a negative errno. */
int watchdog_set(char value);

#endif
