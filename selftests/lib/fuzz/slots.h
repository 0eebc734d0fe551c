/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots for descriptors and mappings, which threads exchange atomically. The thread that
 * takes a descriptor or mapping out of a slot closes or unmaps it.
 */
#ifndef SELFTESTS_SLOTS_H
#define SELFTESTS_SLOTS_H

#include <stddef.h>

/* Puts a descriptor (-1: none) into a slot, and closes the slot's previous descriptor. */
void fd_put(int *slot, int fd);

/* Returns the descriptor in a slot, or -1. */
int fd_get(const int *slot);

struct mapping {
	void *p;
	size_t size;
};

/*
 * Maps a buffer by its handle: a part, all, or more than it, with valid or invalid flags,
 * depending on the bits of @how. Returns NULL if mmap(2) fails.
 */
struct mapping *mapping_make(int handle, unsigned int how, long page_size);

/* Takes the mapping out of a slot; NULL if the slot is empty. */
struct mapping *mapping_take(struct mapping **slot);

/* Puts a mapping into a slot, and unmaps the slot's previous mapping. */
void mapping_put(struct mapping **slot, struct mapping *m);

#endif
