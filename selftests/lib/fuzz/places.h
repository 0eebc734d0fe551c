/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory for arguments, with pages that can be accessed in different ways.
 */
#ifndef SELFTESTS_PLACES_H
#define SELFTESTS_PLACES_H

#include <stdbool.h>

struct call;

/* Where an argument lies. */
enum where {
	GOOD,
	CROSSING,	/* from a page to the next */
	HALF_WRITABLE,	/* from a page to one that is read-only */
	READ_ONLY,
	STRADDLING,	/* its end is not mapped */
	UNMAPPED,
	KERNEL,		/* an address of the kernel's */
	NON_CANONICAL,	/* one that no program can have */
};

struct places {
	char *pages;	/* two writable, a read-only one, one that is not mapped */
	char *alias;	/* the first three again, writable */
	long page_size;
};

/* Maps the pages: 0 or a negative errno. */
int places_map(struct places *p);

/* The place of a call's argument, and the access that is possible there. */
struct placed {
	void *p;
	void *alias;	/* the same memory, or NULL if it is not all there */
	bool readable;
	bool writable;
};

struct placed call_place(const struct places *places, const struct call *c);

#endif
