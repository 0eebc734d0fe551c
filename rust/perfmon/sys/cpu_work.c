// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work that a kernel thread has to do on CPUs, without waiting for their programs.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/topology.h>
#include <uapi/linux/sched/types.h>

#include "cpu_work.h"

/* The time in which a kernel worker gets to run, unless real-time tasks have the CPU. */
#define WORKER_TIMEOUT	(HZ / 20)
/*
 * The number of waits of WORKER_TIMEOUT, after which cpu_works_do() returns false.
 * The module's own thread preempts all tasks except tasks of the same priority.
 */
#define MAX_ROUNDS	40		/* 2 s */

static void run_work(struct cpu_work *work)
{
	struct cpu_works *works = work->works;
	s64 done, requests = atomic64_read(&works->requests);

	/*
	 * Pairs with atomic64_inc_return() in cpu_works_do(): run() sees what
	 * callers wrote before they made the requests that were read here.
	 */
	smp_mb();
	works->run();
	done = atomic64_read(&work->done);
	while (done < requests && !atomic64_try_cmpxchg(&work->done, &done, requests))
		;
	wake_up_all(&works->queue);
}

static void run_in_worker(struct work_struct *work)
{
	run_work(container_of(work, struct cpu_work, work));
}

static int run_in_thread(void *data)
{
	struct cpu_work *work = data;

	run_work(work);
	/*
	 * The module may be unloaded once the work is idle, so the thread must
	 * not return to the module's code.
	 */
	kthread_complete_and_exit(&work->idle, 0);
}

/*
 * Makes a thread of the highest real-time priority do the work. The thread preempts
 * the other tasks of the CPU. A CPU has at most one such thread, so that threads
 * don't pile up where they can't run.
 */
static void begin_thread(struct cpu_work *work, unsigned int cpu)
{
	const struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_FIFO,
		.sched_priority = MAX_RT_PRIO - 1,
	};
	struct task_struct *thread;

	if (!try_wait_for_completion(&work->idle))
		return;
	thread = kthread_create_on_node(run_in_thread, work, cpu_to_node(cpu),
					"perfmon/%u", cpu);
	if (IS_ERR(thread)) {
		complete(&work->idle);
		return;
	}
	kthread_bind(thread, cpu);
	sched_setattr_nocheck(thread, &attr);
	wake_up_process(thread);
}

/* Removes the CPUs that have served the request; returns whether none is left. */
static bool cpus_are_done(struct cpu_works *works, struct cpumask *cpus, s64 requests)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpus) {
		if (atomic64_read(&per_cpu_ptr(works->cpus, cpu)->done) >= requests)
			cpumask_clear_cpu(cpu, cpus);
	}
	return cpumask_empty(cpus);
}

bool cpu_works_do(struct cpu_works *works, struct cpumask *cpus)
{
	s64 requests = atomic64_inc_return(&works->requests);
	unsigned int cpu, round;

	for_each_cpu(cpu, cpus)
		queue_work_on(cpu, system_highpri_wq,
			      &per_cpu_ptr(works->cpus, cpu)->work);
	for (round = 0; round < MAX_ROUNDS; round++) {
		if (wait_event_timeout(works->queue, cpus_are_done(works, cpus, requests),
				       WORKER_TIMEOUT))
			return true;
		/*
		 * A thread is needed in each round: a thread that existed before may
		 * have read the number of requests before this request was added.
		 */
		for_each_cpu(cpu, cpus)
			begin_thread(per_cpu_ptr(works->cpus, cpu), cpu);
	}
	return cpus_are_done(works, cpus, requests);
}

void cpu_works_begin(struct cpu_works *works, struct cpu_work __percpu *cpus,
		     void (*run)(void))
{
	unsigned int cpu;

	works->run = run;
	works->cpus = cpus;
	init_waitqueue_head(&works->queue);
	atomic64_set(&works->requests, 0);
	for_each_possible_cpu(cpu) {
		struct cpu_work *work = per_cpu_ptr(cpus, cpu);

		INIT_WORK(&work->work, run_in_worker);
		init_completion(&work->idle);
		complete(&work->idle);
		work->works = works;
		atomic64_set(&work->done, 0);
	}
}

void cpu_works_end(struct cpu_works *works)
{
	struct cpu_work *work;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		work = per_cpu_ptr(works->cpus, cpu);
		cancel_work_sync(&work->work);
		wait_for_completion(&work->idle);
	}
}
