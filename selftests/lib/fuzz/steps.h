/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps of a fuzzer that lead to a difference from the model.
 */
#ifndef SELFTESTS_STEPS_H
#define SELFTESTS_STEPS_H

#include <stddef.h>

struct steps {
	void *list;
	size_t size;	/* bytes of a step */
	int n;
	/* Executes @n steps. Returns the number of steps up to the difference, or 0 without one. */
	int (*run)(const void *list, int n, void *data);
	void *data;
};

/* Removes steps that the difference does not need. */
void steps_shorten(struct steps *s);

#endif
