/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kinds of cores of a hybrid processor with big and small cores.
 */
#ifndef SELFTESTS_CORE_KINDS_H
#define SELFTESTS_CORE_KINDS_H

#include <linux/types.h>

#define KINDS		2

/*
 * Finds a CPU of each kind, and perf's type of the kind's PMU; the big cores are first. Returns
 * 0 or a negative errno.
 */
int core_kinds_find(int cpu[KINDS], __u32 type[KINDS]);

/*
 * Finds how many general and fixed counters of each kind of core programs can get from the module.
 * @fd is the open device. @cpu has a CPU of each kind; the calling task moves to each of them.
 * Returns 0 or a negative errno.
 */
int core_kinds_counters(int fd, const int cpu[KINDS], int general[KINDS], int fixed[KINDS]);

/* Moves to each CPU in turn, and executes loop(@n) there, @pieces times each. */
void loop_on_each_kind(const int cpu[KINDS], unsigned long pieces, unsigned long n);

#endif
