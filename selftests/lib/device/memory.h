/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of the kernel and of the module.
 */
#ifndef SELFTESTS_MEMORY_H
#define SELFTESTS_MEMORY_H

/* Returns a value of /proc/meminfo in KB, or -1. */
long memory_kb(const char *name);

/*
 * Returns the unreclaimable memory in slabs in KB, or -1. Returns 0 on a kernel with kmemleak:
 * kmemleak finds leaks in slabs itself, and the number would include its own slabs and KASAN's
 * quarantine.
 */
long memory_slab_kb(void);

/* Returns the number of the module's buffers, or a negative errno. */
int memory_buffers(void);

/* Returns the KB pinned for this process beyond its user's allowance, or -1. */
long memory_pinned_kb(void);

#endif
