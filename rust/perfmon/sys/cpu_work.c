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

/* A worker of the kernel's comes to run by then, unless real-time tasks keep it out. */
#define SOON	(HZ / 20)
/* A thread of our own preempts all but those of its own priority, and the kernel's. */
#define ROUNDS	40		/* 2 s */

static void serve(struct cpu_work *work)
{
	struct cpu_works *works = work->works;
	s64 done, asked = atomic64_read(&works->asked);

	/*
	 * Pairs with atomic64_inc_return() in cpu_works_do(): run() sees what those have
	 * written before the requests so far.
	 */
	smp_mb();
	works->run();
	done = atomic64_read(&work->done);
	while (done < asked && !atomic64_try_cmpxchg(&work->done, &done, asked))
		;
	wake_up_all(&works->queue);
}

static void do_work(struct work_struct *work)
{
	serve(container_of(work, struct cpu_work, work));
}

static int do_thread(void *data)
{
	struct cpu_work *work = data;

	serve(work);
	/* The module may go as soon as the work is idle: this does not return. */
	kthread_complete_and_exit(&work->idle, 0);
}

/*
 * Has a thread do the work that goes before real-time programs, as the kernel's own
 * threads for calls to CPUs do. A CPU has one at a time: where it can't run, there are
 * not more and more.
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
	thread = kthread_create_on_node(do_thread, work, cpu_to_node(cpu),
					"perfmon/%u", cpu);
	if (IS_ERR(thread)) {
		complete(&work->idle);
		return;
	}
	kthread_bind(thread, cpu);
	sched_setattr_nocheck(thread, &attr);
	wake_up_process(thread);
}

/* Removes the CPUs that have done what was asked for; returns whether that is all. */
static bool are_done(struct cpu_works *works, struct cpumask *cpus, s64 asked)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpus) {
		if (atomic64_read(&per_cpu_ptr(works->cpus, cpu)->done) >= asked)
			cpumask_clear_cpu(cpu, cpus);
	}
	return cpumask_empty(cpus);
}

bool cpu_works_do(struct cpu_works *works, struct cpumask *cpus)
{
	s64 asked = atomic64_inc_return(&works->asked);
	unsigned int cpu, round;

	for_each_cpu(cpu, cpus)
		queue_work_on(cpu, system_highpri_wq,
			      &per_cpu_ptr(works->cpus, cpu)->work);
	for (round = 0; round < ROUNDS; round++) {
		if (wait_event_timeout(works->queue, are_done(works, cpus, asked),
				       SOON))
			return true;
		/* Again: one that was there may have begun before the caller asked. */
		for_each_cpu(cpu, cpus)
			begin_thread(per_cpu_ptr(works->cpus, cpu), cpu);
	}
	return are_done(works, cpus, asked);
}

void cpu_works_begin(struct cpu_works *works, struct cpu_work __percpu *cpus,
		     void (*run)(void))
{
	unsigned int cpu;

	works->run = run;
	works->cpus = cpus;
	init_waitqueue_head(&works->queue);
	atomic64_set(&works->asked, 0);
	for_each_possible_cpu(cpu) {
		struct cpu_work *work = per_cpu_ptr(cpus, cpu);

		INIT_WORK(&work->work, do_work);
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
