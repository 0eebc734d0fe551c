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
 * Work that has to be done on CPUs by a kernel thread: an inter-processor interrupt
 * can't unload the mm of the program that it interrupts.
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
 * Undoes cpu_works_begin(), and waits for work that is still under way. No call of
 * cpu_works_do() may be under way or follow.
 */
void cpu_works_end(struct cpu_works *works);
/*
 * Calls @works->run on each of the CPUs, by a kernel thread that is bound to the CPU.
 * If a CPU goes offline, the call is made on some other CPU. One call of @works->run
 * may serve several callers. Sleeps, for up to some seconds.
 *
 * Returns whether the work was done on all CPUs. Removes the CPUs where it was done
 * from @cpus. A CPU that remains executes a task that no thread preempts, and does the
 * work after that task.
 */
bool cpu_works_do(struct cpu_works *works, struct cpumask *cpus);

#endif /* _PERFMON_CPU_WORK_H */
