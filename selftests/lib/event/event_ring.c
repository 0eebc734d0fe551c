// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "event_ring.h"

int event_ring_map(struct event_ring *ring, int fd, unsigned int order, bool overwrites)
{
	size_t page = getpagesize(), size = page << order;
	int prot = overwrites ? PROT_READ : PROT_READ | PROT_WRITE;
	void *start = mmap(NULL, page + size, prot, MAP_SHARED, fd, 0);

	if (start == MAP_FAILED)
		return -errno;
	*ring = (struct event_ring) {
		.page = start,
		.data = (unsigned char *)start + page,
		.size = size,
		.overwrites = overwrites,
	};
	return 0;
}

void event_ring_unmap(struct event_ring *ring)
{
	if (ring->page)
		munmap(ring->page, getpagesize() + ring->size);
	ring->page = NULL;
}

static void copy(const struct event_ring *ring, __u64 at, void *to, size_t size)
{
	size_t offset = at & (ring->size - 1), first = ring->size - offset;

	if (first > size)
		first = size;
	memcpy(to, ring->data + offset, first);
	memcpy((unsigned char *)to + first, ring->data, size - first);
}

bool event_ring_at(const struct event_ring *ring, __u64 at, struct event_record *record)
{
	copy(ring, at, &record->header, sizeof(record->header));
	if (record->header.size < sizeof(record->header) || record->header.size % 8)
		return false;
	copy(ring, at, record, record->header.size);
	return true;
}

bool event_ring_is_empty(const struct event_ring *ring)
{
	return ring->page->data_tail == __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

bool event_ring_next(struct event_ring *ring, struct event_record *record)
{
	__u64 tail = ring->page->data_tail;

	if (event_ring_is_empty(ring) || !event_ring_at(ring, tail, record))
		return false;
	__atomic_store_n(&ring->page->data_tail, tail + record->header.size, __ATOMIC_RELEASE);
	return true;
}
