/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTESTS_CLOCK_H
#define SELFTESTS_CLOCK_H

#include <linux/types.h>
#include <time.h>

/* Returns the time of CLOCK_MONOTONIC in nanoseconds. */
static inline __u64 clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Returns the time of CLOCK_MONOTONIC in seconds. */
static inline double clock_seconds(void)
{
	return clock_ns() / 1e9;
}

/*
 * Notes the time from @since until now in @longest, in seconds, if that is the longest so far. Sets
 * @since to now.
 */
static inline void clock_note_longest(double *longest, double *since)
{
	double t = clock_seconds();

	if (t - *since > *longest)
		*longest = t - *since;
	*since = t;
}

#endif
