/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much memory the kernel has, and what of it is the module's.
 */
#ifndef SELFTESTS_MEMORY_H
#define SELFTESTS_MEMORY_H

/* A value of /proc/meminfo in KB, or -1. */
long memory_kb(const char *name);

/*
 * What is in slabs, in KB, and not the caches'; or -1. Always 0 on a kernel with
 * kmemleak, which finds what is lost there: it needs slabs itself, and KASAN keeps
 * for a while what has been freed.
 */
long memory_slab_kb(void);

/* How many buffers the module has, of whatever size; or a negative errno. */
int memory_buffers(void);

#endif
