/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings of the tests that can run longer or with other random numbers: options
 * of the fuzzers,
 *
 *     --seed S --calls N --seconds N --threads T --blind
 *
 * and variables for the others, whose options are the harness's.
 */
#ifndef SELFTESTS_OPTIONS_H
#define SELFTESTS_OPTIONS_H

#include <stdbool.h>

#include <linux/types.h>

struct options {
	unsigned long long seed;
	unsigned long long calls;
	unsigned int seconds;	/* end then, if that is earlier; 0: don't */
	unsigned int threads;
	bool blind;	/* without feedback from the kernel */
};

/*
 * Sets the options that are on the command line, and prints all, so that a run can
 * be repeated. Ends the program with a message at an option that is wrong.
 */
void options_parse(struct options *o, int argc, char **argv);

/* The seconds since options_parse(), and if they are more than o->seconds. */
unsigned int options_elapsed(void);
bool options_time_is_over(const struct options *o);

/*
 * The number in variable @name (ROUNDS, SECONDS or SEED), or @otherwise. Ends the
 * program with a message if it is no number.
 */
__u64 environment(const char *name, __u64 otherwise);

#endif
