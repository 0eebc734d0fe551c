// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kcov.h>

#include "kcov.h"

/* The maximum number of addresses that are recorded for a sequence of calls. */
#define AREA_WORDS	(1UL << 16)
#define AREA_BYTES	(AREA_WORDS * sizeof(unsigned long))

/* The size of the table: more than the module has basic blocks, and a power of two. */
#define PLACES		(1U << 15)

static unsigned long places[PLACES];	/* a hash table */
static unsigned int place_count;

bool kcov_begin(struct kcov *k)
{
	*k = (struct kcov) {
		.fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC),
	};
	if (k->fd < 0)
		return false;
	if (ioctl(k->fd, KCOV_INIT_TRACE, AREA_WORDS))
		goto fail;
	k->area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		       k->fd, 0);
	if (k->area == MAP_FAILED)
		goto fail;
	if (!ioctl(k->fd, KCOV_ENABLE, KCOV_TRACE_PC))
		return true;
	munmap(k->area, AREA_BYTES);
fail:
	close(k->fd);
	k->fd = -1;
	return false;
}

void kcov_end(struct kcov *k)
{
	if (k->fd < 0)
		return;
	ioctl(k->fd, KCOV_DISABLE, 0);
	munmap(k->area, AREA_BYTES);
	close(k->fd);
	k->fd = -1;
}

void kcov_reset(struct kcov *k)
{
	if (k->fd >= 0)
		__atomic_store_n(&k->area[0], 0, __ATOMIC_RELAXED);
}

/* Adds a place to the table, which the threads share. Returns true if it was new. */
static bool add_place(unsigned long address)
{
	unsigned int i = address % PLACES, tries;
	unsigned long occupant;

	for (tries = 0; tries < PLACES; tries++, i = (i + 1) % PLACES) {
		occupant = 0;
		if (__atomic_compare_exchange_n(&places[i], &occupant, address,
						false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_add(&place_count, 1, __ATOMIC_RELAXED);
			return true;
		}
		if (occupant == address)
			return false;
	}
	return false;
}

unsigned int kcov_new_places(const struct kcov *k)
{
	unsigned long n, i;
	unsigned int new = 0;

	if (k->fd < 0)
		return 0;
	n = __atomic_load_n(&k->area[0], __ATOMIC_RELAXED);
	for (i = 1; i <= n && i < AREA_WORDS; i++)
		new += add_place(k->area[i]);
	return new;
}

unsigned int kcov_places(void)
{
	return __atomic_load_n(&place_count, __ATOMIC_RELAXED);
}
