/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of the kernel and of the module.
 */
#ifndef SELFTESTS_MEMORY_H
#define SELFTESTS_MEMORY_H

/* A value of /proc/meminfo in KB, or -1. */
long memory_kb(const char *name);

/*
 * The memory in slabs, in KB, without caches; or -1. Always 0 on a kernel with
 * kmemleak, which finds what is lost there: it needs slabs itself, and KASAN keeps
 * for a while what has been freed.
 */
long memory_slab_kb(void);

/* The number of buffers that the module has, or a negative errno. */
int memory_buffers(void);

/* The KB pinned for this process beyond its user's allowance, or -1. */
long memory_pinned_kb(void);

#endif
