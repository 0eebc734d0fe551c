/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes with threads that make all calls at random. The threads of a process
 * share one descriptor, and replace it while the others use it.
 */
#ifndef SELFTESTS_CALL_STRESS_H
#define SELFTESTS_CALL_STRESS_H

#include <stdbool.h>
#include <sys/types.h>

#include <linux/types.h>

#define CALL_STRESS_MAX_PROCESSES	8

struct call_stress_shared;

struct call_stress {
	struct call_stress_shared *shared;
	pid_t pid[CALL_STRESS_MAX_PROCESSES];
	int processes;
};

/* The results of all threads. */
struct call_stress_result {
	__u64 calls;
	__u64 refused;		/* calls that failed with an allowed errno */
	const char *never_succeeded;	/* a call that never succeeded, or "" */
	const char *wrong;	/* a call that failed with another errno, or "" */
	int wrong_errno;
};

/**
 * call_stress_start() - start processes that make calls
 * @processes: number of processes; one of them at a time has the device open for writing
 * @threads: threads of each process
 * @seed: seed of the random numbers
 *
 * Return: 0 or a negative errno; call_stress_stop() is to be called in both cases.
 */
int call_stress_start(struct call_stress *s, int processes, int threads, __u64 seed);

/* The number of calls made until now. */
__u64 call_stress_made(const struct call_stress *s);

/* Returns whether each call has succeeded at least once so far. */
bool call_stress_all_succeeded(const struct call_stress *s);

/* Stops all processes, and waits until they have ended. Returns 0 or a negative errno. */
int call_stress_stop(struct call_stress *s, struct call_stress_result *result);

/* Kills all processes by SIGKILL, also in the middle of calls. Returns 0 or a negative errno. */
int call_stress_kill(struct call_stress *s, struct call_stress_result *result);

#endif
