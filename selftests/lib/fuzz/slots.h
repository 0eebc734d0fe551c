/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots for descriptors and mappings that threads share. Slots change atomically:
 * the thread that takes something out of a slot closes or unmaps it.
 */
#ifndef SELFTESTS_SLOTS_H
#define SELFTESTS_SLOTS_H

#include <stddef.h>

/* Puts a descriptor (-1: none) into a slot, and closes the one that was there. */
void fd_put(int *slot, int fd);

/* The descriptor in a slot, or -1. */
int fd_get(const int *slot);

struct mapping {
	void *p;
	size_t size;
};

/*
 * Maps a buffer by its handle: part of it, all, or more, rightly or wrongly, as the
 * bits of @how say. Returns NULL if that is refused.
 */
struct mapping *mapping_make(int handle, unsigned int how, long page_size);

/* The mapping in a slot, which is empty afterwards; or NULL. */
struct mapping *mapping_take(struct mapping **slot);

/* Puts a mapping into a slot, and unmaps the one that was there. */
void mapping_put(struct mapping **slot, struct mapping *m);

#endif
