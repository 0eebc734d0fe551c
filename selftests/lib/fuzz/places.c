// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "places.h"
#include "random_call.h"

int places_map(struct argument_pages *p)
{
	const int both = PROT_READ | PROT_WRITE;
	int fd, err = 0;

	p->page_size = sysconf(_SC_PAGESIZE);
	fd = memfd_create("arguments", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, 4 * p->page_size))
		err = -errno;
	p->pages = mmap(NULL, 4 * p->page_size, both, MAP_SHARED, fd, 0);
	p->alias = mmap(NULL, 3 * p->page_size, both, MAP_SHARED, fd, 0);
	close(fd);
	if (err)
		return err;
	if (p->pages == MAP_FAILED || p->alias == MAP_FAILED ||
	    mprotect(p->pages + 2 * p->page_size, p->page_size, PROT_READ) ||
	    munmap(p->pages + 3 * p->page_size, p->page_size))
		return -errno;
	return 0;
}

/* Returns the address @bytes before the end of page @page. */
static long before_end(const struct argument_pages *places, int page, long bytes)
{
	return (page + 1) * places->page_size - bytes;
}

/* Addresses without memory. A 32-bit program may map every page but the last. */
static const unsigned long nowhere[] = {
	[UNMAPPED] = 0,
	[KERNEL] = sizeof(long) == 8 ? -1UL << 40 : -4096UL,
	[NON_CANONICAL] = 1UL << (8 * sizeof(long) - 2),
};

struct placed_argument call_place(const struct argument_pages *places, const struct call *c)
{
	const long page = places->page_size, size = c->size;
	/* The number of bytes before the border; at least one byte is on each side. */
	const long bytes_before = size > 1 ? 1 + c->offset % (size - 1) : 0;
	struct placed_argument placed = { .readable = true, .writable = true };
	long offset = 0;

	switch (c->where) {
	case GOOD:
		offset = c->offset % (page - size);
		break;
	case CROSSING:
		offset = before_end(places, 0, bytes_before);
		break;
	case HALF_WRITABLE:
		offset = before_end(places, 1, bytes_before);
		placed.writable = !size;
		break;
	case READ_ONLY:
		offset = 2 * page + c->offset % (page - size);
		placed.writable = !size;
		break;
	case STRADDLING:
		offset = before_end(places, 2, bytes_before);
		placed.readable = placed.writable = !size;
		break;
	default:
		placed.readable = placed.writable = !size;
		placed.p = (char *)nowhere[c->where] + c->offset;
		return placed;
	}
	placed.p = places->pages + offset;
	if (placed.readable)
		placed.alias = places->alias + offset;
	return placed;
}
