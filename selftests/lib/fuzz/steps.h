/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps of a fuzzer that lead to a difference.
 */
#ifndef SELFTESTS_STEPS_H
#define SELFTESTS_STEPS_H

#include <stddef.h>

struct steps {
	void *list;
	size_t size;	/* of a step */
	int n;
	/* Does @n steps from the beginning: how many it took to differ, or 0. */
	int (*run)(const void *list, int n, void *data);
	void *data;
};

/* Leaves out what is not needed for the difference. */
void steps_shorten(struct steps *s);

#endif
