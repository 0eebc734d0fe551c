/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading the ring of an event, as <linux/perf_event.h> describes it at struct
 * perf_event_mmap_page.
 */
#ifndef SELFTESTS_EVENT_RING_H
#define SELFTESTS_EVENT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/perf_event.h>
#include <linux/types.h>

struct event_ring {
	struct perf_event_mmap_page *page;
	const unsigned char *data;
	size_t size;		/* bytes of the data area */
	bool overwrites;
};

/* A copy of a record. Records are shorter than 2^16 bytes. */
struct event_record {
	struct perf_event_header header;
	__u64 words[8191];
};

/*
 * Maps the ring of @fd with 2^@order pages, read-only if @overwrites, so that the kernel
 * overwrites old records. Returns 0 or a negative errno.
 */
int event_ring_map(struct event_ring *ring, int fd, unsigned int order, bool overwrites);
void event_ring_unmap(struct event_ring *ring);

bool event_ring_is_empty(const struct event_ring *ring);

/* Copies the next record and frees its space in the ring. Returns false if there is no record. */
bool event_ring_next(struct event_ring *ring, struct event_record *record);

/* Copies the record at position @at. Returns false if its header is not valid. */
bool event_ring_at(const struct event_ring *ring, __u64 at, struct event_record *record);

#endif
