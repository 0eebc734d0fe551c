/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A real-time program that never sleeps, on one CPU.
 */
#ifndef SELFTESTS_SPINNER_H
#define SELFTESTS_SPINNER_H

#include <stdbool.h>
#include <sys/types.h>

struct spinner {
	pid_t pid;			/* 0: none */
	struct spinner_state *state;	/* shared with the program */
	char fair_file[64];		/* path of the setting of its CPU's fair server */
	char saved_rt[32], saved_fair[32];	/* saved settings of the kernel; empty: no such setting */
};

enum spinner_limits {
	SPINNER_LEAVES_A_SHARE,	/* the kernel's settings: others get 5 % of the CPU */
	SPINNER_TAKES_ALL,
};

/* Returns whether SPINNER_TAKES_ALL leaves nothing to others on this kernel. */
bool spinner_can_take_all(int cpu);

/*
 * Starts the program (SCHED_FIFO) on CPU @cpu. It ends by itself after five minutes. Returns 0 or
 * a negative errno.
 */
int spinner_start(struct spinner *s, int cpu, int priority, enum spinner_limits limits);

/* Stops the program, and restores the settings. Returns whether the program ran all the time. */
bool spinner_stop(struct spinner *s);

#endif
