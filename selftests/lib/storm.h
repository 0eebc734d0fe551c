/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes with threads that make every call there is, at random, on one
 * descriptor for each process that they exchange under each other's feet.
 */
#ifndef SELFTESTS_STORM_H
#define SELFTESTS_STORM_H

#include <sys/types.h>

#include <linux/types.h>

#define STORM_MAX_PROCESSES	8

struct storm_shared;

struct storm {
	struct storm_shared *shared;
	pid_t pid[STORM_MAX_PROCESSES];
	int processes;
};

/* What came of it. */
struct storm_result {
	__u64 made;		/* calls */
	__u64 refused;		/* those of them with an errno that is allowed */
	const char *never;	/* a call that never succeeded, or "" */
	const char *wrong;	/* a call with an errno that is not, or "" */
	int wrong_errno;
};

/**
 * storm_start() - begin
 * @processes: of which one at a time can have the device for writing
 * @threads: of each
 * @seed: of the random numbers
 *
 * Return: 0 or a negative errno; storm_stop() is to be called in both cases.
 */
int storm_start(struct storm *s, int processes, int threads, __u64 seed);

/* How many calls have been made until now. */
__u64 storm_made(const struct storm *s);

/* Tells all of them to end, waits until they have: 0 or a negative errno. */
int storm_stop(struct storm *s, struct storm_result *result);

/* Ends them by SIGKILL, wherever they are. */
int storm_kill(struct storm *s, struct storm_result *result);

#endif
