/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_CPU_WORK_H
#define _PERFMON_CPU_WORK_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct cpumask;
struct cpu_works;

/* The work of one CPU. */
struct cpu_work {
	struct work_struct work;
	struct cpu_works *works;
	struct completion idle;		/* there is no thread for it */
	atomic64_t done;		/* @asked of the last work that was done */
};

/*
 * Work that has to be done on CPUs by a kernel thread: a call to a CPU can't unload
 * the mm that runs there.
 */
struct cpu_works {
	void (*run)(void);
	struct cpu_work __percpu *cpus;
	struct wait_queue_head queue;
	atomic64_t asked;		/* how often */
};

/* Prepares for cpu_works_do(). */
void cpu_works_begin(struct cpu_works *works, struct cpu_work __percpu *cpus,
		     void (*run)(void));
/*
 * Ends cpu_works_begin(), and waits for work that is still under way. There must be no
 * call of cpu_works_do() any more.
 */
void cpu_works_end(struct cpu_works *works);
/*
 * Calls @works->run on each of the CPUs, by a kernel thread that is bound to it; on
 * some other CPU if the CPU goes offline. Several callers at once are served by one
 * call. It sleeps, up to some seconds.
 *
 * Returns whether all have done so; else @cpus has those left that are busy with
 * what no thread preempts. They do it later.
 */
bool cpu_works_do(struct cpu_works *works, struct cpumask *cpus);

#endif /* _PERFMON_CPU_WORK_H */
