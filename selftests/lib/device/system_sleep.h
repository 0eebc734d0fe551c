/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sending the system to sleep.
 */
#ifndef SELFTESTS_SYSTEM_SLEEP_H
#define SELFTESTS_SYSTEM_SLEEP_H

struct system_sleep {
	const char *level;	/* value of pm_test: the step after which the system wakes up, or "none" */
	const char *state;	/* the word for /sys/power/state */
	int alarm;		/* seconds until the system wakes up by an alarm; 0: at once */
};

/* Sets pm_test for sleeps of this kind, and removes its delay. Returns 0 or a negative errno. */
int system_sleep_prepare(const struct system_sleep *how);

/* Sleeps, and wakes up. Returns 0 or a negative errno. */
int system_sleep_once(const struct system_sleep *how);

/* Undoes system_sleep_prepare(). */
void system_sleep_end(void);

#endif
