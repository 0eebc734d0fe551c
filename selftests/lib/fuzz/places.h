/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory for arguments, with pages that can be accessed in different ways.
 */
#ifndef SELFTESTS_PLACES_H
#define SELFTESTS_PLACES_H

#include <stdbool.h>

struct call;

/* Access to the memory of an argument. */
enum argument_place {
	GOOD,
	CROSSING,	/* spans two pages */
	HALF_WRITABLE,	/* the second page is read-only */
	READ_ONLY,
	STRADDLING,	/* the second page is not mapped */
	UNMAPPED,
	KERNEL,		/* a kernel address */
	NON_CANONICAL,	/* not a valid address at all */
};

struct argument_pages {
	char *pages;	/* four pages: two writable, one read-only, one unmapped */
	char *alias;	/* a writable mapping of the first three */
	long page_size;
};

/* Maps the pages. Returns 0 or a negative errno. */
int places_map(struct argument_pages *p);

/* An argument's address, and the access that is possible there. */
struct placed_argument {
	void *p;
	void *alias;	/* the same memory, or NULL if a part is unmapped */
	bool readable;
	bool writable;
};

/* Returns the place of the argument of call @c. */
struct placed_argument call_place(const struct argument_pages *places, const struct call *c);

#endif
