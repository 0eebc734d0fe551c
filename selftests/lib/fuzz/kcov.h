/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel code that a thread's calls execute: KCOV
 * (Documentation/dev-tools/kcov.rst in the kernel's tree). Without
 * CONFIG_KCOV_INSTRUMENT_ALL only the module is built for it.
 */
#ifndef SELFTESTS_KCOV_H
#define SELFTESTS_KCOV_H

#include <stdbool.h>

/* The code that one thread executes. */
struct kcov {
	int fd;			/* -1: this kernel has no KCOV */
	unsigned long *area;	/* how many addresses there are, and they */
};

/* Begins to record the calling thread: false if this kernel can't. */
bool kcov_begin(struct kcov *k);
void kcov_end(struct kcov *k);

/* Forgets what has been recorded. */
void kcov_reset(struct kcov *k);

/* The number of places reached now that no thread has reached before. */
unsigned int kcov_new_places(const struct kcov *k);

/* The number of places reached in all. */
unsigned int kcov_places(void);

#endif
