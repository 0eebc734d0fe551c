/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KCOV: the kernel code that a thread's calls execute (Documentation/dev-tools/kcov.rst in the
 * kernel's tree). Without CONFIG_KCOV_INSTRUMENT_ALL only the module is instrumented.
 */
#ifndef SELFTESTS_KCOV_H
#define SELFTESTS_KCOV_H

#include <stdbool.h>

/* The record of one thread. */
struct kcov {
	int fd;			/* -1: this kernel has no KCOV */
	unsigned long *area;	/* the number of addresses, then the addresses */
};

/* Starts to record the calling thread. Returns false if the kernel has no KCOV. */
bool kcov_begin(struct kcov *k);
void kcov_end(struct kcov *k);

/* Empties the record. */
void kcov_reset(struct kcov *k);

/* Adds the recorded addresses to those of all threads. Returns the number of new addresses. */
unsigned int kcov_new_places(const struct kcov *k);

/* Returns the number of different addresses that all threads together have recorded. */
unsigned int kcov_places(void);

#endif
