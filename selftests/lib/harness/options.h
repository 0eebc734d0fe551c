/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings of tests that can run longer, or with other random numbers. The fuzzers have the options
 *
 *     --seed S --calls N --seconds N --threads T --blind
 *
 * Other tests have environment variables, since the harness parses their options.
 */
#ifndef SELFTESTS_OPTIONS_H
#define SELFTESTS_OPTIONS_H

#include <stdbool.h>

#include <linux/types.h>

struct options {
	unsigned long long seed;
	unsigned long long calls;
	unsigned int seconds;	/* limit of the time; 0: none */
	unsigned int threads;
	bool blind;	/* without feedback from the kernel */
};

/*
 * Sets @o from the command line, and prints all settings, so that a run can be repeated. If an
 * option is wrong, ends the program with a message.
 */
void options_parse(struct options *o, int argc, char **argv);

/* Return the seconds since options_parse(), and whether they exceed o->seconds. */
unsigned int options_elapsed(void);
bool options_time_is_over(const struct options *o);

/*
 * Returns the number in environment variable @name (ROUNDS, SECONDS or SEED), or @otherwise if it
 * is not set. If the value is not a number, ends the program with a message.
 */
__u64 env_number(const char *name, __u64 otherwise);

#endif
