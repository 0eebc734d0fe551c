/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The options of the tests that run for as long as one wants:
 *
 *     --seed S --calls N --seconds N --threads T --blind
 */
#ifndef SELFTESTS_OPTIONS_H
#define SELFTESTS_OPTIONS_H

#include <stdbool.h>

struct options {
	unsigned long long seed;
	unsigned long long calls;
	unsigned int seconds;	/* end then, if that is earlier; 0: don't */
	unsigned int threads;
	bool blind;	/* without feedback from the kernel */
};

/*
 * Changes what was asked for; ends the program, with a message, if that is
 * nonsense. Prints the options, so that a run can be repeated.
 */
void options_parse(struct options *o, int argc, char **argv);

/* How many seconds ago that was, and whether they are over. */
unsigned int options_elapsed(void);
bool options_time_is_over(const struct options *o);

#endif
