// SPDX-License-Identifier: GPL-2.0-only
/*
 * RDPMC for programs that map the page of an event.
 *
 * The kernel owns CR4.PCE: it sets it when a CPU loads an mm that may use RDPMC,
 * and clears it with any other. So the mm is made one that may, and each CPU is
 * made to load its mm anew: a kernel thread there unloads it. Then the program has
 * PCE wherever it runs, and no other program has.
 *
 * With /sys/bus/event_source/devices/cpu/rdpmc at 0 no mm gets it.
 */
#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/workqueue.h>
#include <asm/special_insns.h>

#include "perfmon_shim.h"
#include "unload_mm.h"

/* A private matter of the kernel's: it counts the mappings of perf's events. */
static_assert(__same_type(((struct mm_struct *)NULL)->context.perf_rdpmc_allowed,
			  atomic_t));

static DEFINE_PER_CPU(struct work_struct, works);
static DEFINE_MUTEX(lock);

static void work_unload(struct work_struct *work)
{
	unload_mm();
}

void perfmon_rdpmc_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&works, cpu), work_unload);
}

/*
 * CPUs may come and go meanwhile: one that comes has loaded no mm before, and the
 * work of one that goes is done on another.
 */
static void load_mm_anew(void)
{
	unsigned int cpu;

	mutex_lock(&lock);
	for_each_online_cpu(cpu)
		queue_work_on(cpu, system_highpri_wq, per_cpu_ptr(&works, cpu));
	for_each_possible_cpu(cpu)
		flush_work(per_cpu_ptr(&works, cpu));
	mutex_unlock(&lock);
}

bool perfmon_rdpmc_begin(struct mm_struct *mm)
{
	if (atomic_inc_return(&mm->context.perf_rdpmc_allowed) == 1)
		load_mm_anew();
	/* The caller's CPU has loaded it anew, too. */
	if (native_read_cr4() & X86_CR4_PCE)
		return true;
	atomic_dec(&mm->context.perf_rdpmc_allowed);
	return false;
}

void perfmon_rdpmc_again(struct mm_struct *mm)
{
	atomic_inc(&mm->context.perf_rdpmc_allowed);
}

void perfmon_rdpmc_end(struct mm_struct *mm)
{
	/* A program that exits uses nothing any more. */
	if (atomic_dec_and_test(&mm->context.perf_rdpmc_allowed) &&
	    atomic_read(&mm->mm_users))
		load_mm_anew();
}

void perfmon_rdpmc_forget(struct task_struct *child)
{
	if (child->mm && child->mm != current->mm)
		atomic_set(&child->mm->context.perf_rdpmc_allowed, 0);
}

bool perfmon_rdpmc_has(const struct task_struct *task)
{
	return task->mm && atomic_read(&task->mm->context.perf_rdpmc_allowed);
}

bool perfmon_rdpmc_is_left(void)
{
	struct task_struct *process, *thread;
	bool found = false;

	rcu_read_lock();
	for_each_process_thread(process, thread) {
		/* The mm is there as long as the lock is held. */
		task_lock(thread);
		found = perfmon_rdpmc_has(thread);
		task_unlock(thread);
		if (found)
			goto out;
	}
out:
	rcu_read_unlock();
	return found;
}

bool perfmon_rdpmc_is_own(const struct task_struct *task)
{
	return task->mm == current->mm;
}
