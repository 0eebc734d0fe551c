// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "slots.h"

void fd_put(int *slot, int fd)
{
	int old = __atomic_exchange_n(slot, fd, __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
}

int fd_get(const int *slot)
{
	return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

struct mapping *mapping_make(int handle, unsigned int how, long page_size)
{
	int protection = how & 0x300 ? PROT_READ : PROT_READ | PROT_WRITE;
	int flags = how & 0xc00 ? MAP_SHARED : MAP_PRIVATE;
	off_t offset = how & 0x3000 ? 0 : page_size * (how >> 14 & 7);
	struct mapping *m = malloc(sizeof(*m));

	if (!m)
		return NULL;
	m->size = page_size * (1 + how % 8);
	m->p = mmap(NULL, m->size, protection, flags, handle, offset);
	if (m->p == MAP_FAILED) {
		free(m);
		return NULL;
	}
	return m;
}

struct mapping *mapping_take(struct mapping **slot)
{
	return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
}

void mapping_put(struct mapping **slot, struct mapping *m)
{
	struct mapping *old = __atomic_exchange_n(slot, m, __ATOMIC_ACQ_REL);

	if (old)
		munmap(old->p, old->size);
	free(old);
}
