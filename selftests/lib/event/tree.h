/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random trees of tasks that execute known loops: processes, threads, programs, with
 * CPUs of their own; some are killed, some outlive their parents.
 *
 * A tree is executed twice, with the least loops and with longer ones. All else that
 * its tasks do in user mode is the same both times: they wait by calls that sleep
 * once, and those that are killed are killed by this process, which is not counted,
 * while they sleep.
 */
#ifndef SELFTESTS_TREE_H
#define SELFTESTS_TREE_H

#include <sched.h>
#include <stdbool.h>

#include <linux/types.h>

#include "rng.h"

struct event_maker;

/*
 * Makes a tree, the program's one. Returns by how many instructions its loops exceed
 * the least ones.
 */
__u64 tree_grow(struct rng *r, const cpu_set_t *cpus);

int tree_tasks(void);

/*
 * Executes it, counted by one inherited event of the first task; with the @least
 * loops or its own. Returns the sum when all tasks are gone, or a negative errno.
 */
__s64 tree_count(const struct event_maker *by, bool least);

/* Describes it on the standard output. */
void tree_print(void);

#endif
