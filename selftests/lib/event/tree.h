/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random trees of tasks that execute known loops: processes, threads and programs, pinned to
 * different CPUs. Some are killed, some outlive their parents.
 *
 * A tree is executed twice, with the shortest loops and with longer loops. All other instructions
 * of its tasks in user mode are the same both times: each wait is a single system call that sleeps,
 * and a task is killed while it sleeps. The process that kills it is not counted.
 */
#ifndef SELFTESTS_TREE_H
#define SELFTESTS_TREE_H

#include <sched.h>
#include <stdbool.h>

#include <linux/types.h>

#include "rng.h"

struct event_maker;

/*
 * Makes the program's only tree. Returns the number of instructions by which its loops exceed
 * the shortest loops.
 */
__u64 tree_make(struct rng *r, const cpu_set_t *cpus);

/*
 * Makes the processes of the tree enter some of @count cgroups, before their first loop and before
 * they start their children. The first process enters the first cgroup. @procs are the descriptors
 * of the files cgroup.procs. Sets in @expected by how many instructions the loops in each cgroup
 * exceed the shortest ones.
 */
void tree_use_cgroups(struct rng *r, const int *procs, int count, __u64 *expected);

/* Returns the number of tasks in the tree. */
int tree_tasks(void);

/*
 * Executes the tree with the shortest loops (@shortest_loops) or with its own loops. One inherited
 * event of the first task counts. Returns the sum when all tasks are gone, or a negative errno.
 */
__s64 tree_run_and_count(const struct event_maker *maker, bool shortest_loops);

/* Prints the tree to the standard output. */
void tree_print(void);

#endif
