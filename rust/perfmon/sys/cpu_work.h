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
	struct completion idle;		/* complete while the work has no thread */
	atomic64_t done;		/* @requests when the last finished run began */
};

/*
 * Work that has to be done on CPUs by a kernel thread: a call to a CPU can't unload
 * the mm that runs there.
 */
struct cpu_works {
	void (*run)(void);
	struct cpu_work __percpu *cpus;
	struct wait_queue_head queue;
	atomic64_t requests;		/* the number of requests so far */
};

/* Prepares for cpu_works_do(). */
void cpu_works_begin(struct cpu_works *works, struct cpu_work __percpu *cpus,
		     void (*run)(void));
/*
 * Ends cpu_works_begin(), and waits for work that is still under way.
 * cpu_works_do() must not be called any more.
 */
void cpu_works_end(struct cpu_works *works);
/*
 * Calls @works->run on each of the CPUs, by a kernel thread that is bound to it; on
 * some other CPU if the CPU goes offline. One call may serve several callers.
 * Sleeps, for up to some seconds.
 *
 * Returns whether all CPUs have done so. If not, those that are still in @cpus
 * run something that no thread preempts, and do the work later.
 */
bool cpu_works_do(struct cpu_works *works, struct cpumask *cpus);

#endif /* _PERFMON_CPU_WORK_H */
