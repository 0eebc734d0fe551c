// SPDX-License-Identifier: GPL-2.0-only
/*
 * RDPMC for programs that map the page of an event.
 *
 * The kernel owns CR4.PCE: it sets it when a CPU loads an mm that may use RDPMC,
 * and clears it with any other. So the mm is made one that may, and each CPU that
 * has loaded it is made to do so anew: a kernel thread there unloads it. Then the
 * program has PCE wherever it runs, and no other program has. CPUs that are busy
 * with other programs are not waited for.
 *
 * With /sys/bus/event_source/devices/cpu/rdpmc at 0 no mm gets it.
 */
#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <asm/special_insns.h>

#include "cpu_work.h"
#include "perfmon_shim.h"
#include "unload_mm.h"

/* A private matter of the kernel's: it counts the mappings of perf's events. */
static_assert(__same_type(((struct mm_struct *)NULL)->context.perf_rdpmc_allowed,
			  atomic_t));

static DEFINE_PER_CPU(struct cpu_work, cpu_works);
static struct cpu_works works;

void perfmon_rdpmc_init(void)
{
	cpu_works_begin(&works, &cpu_works, unload_mm);
}

void perfmon_rdpmc_exit(void)
{
	cpu_works_end(&works);
}

struct search {
	struct mm_struct *mm;
	struct cpumask *found;
};

/* Finds the CPU if it has loaded the mm, for a program or since the last one. */
static void search_here(void *arg)
{
	struct search *search = arg;

	if (current->active_mm == search->mm)
		cpumask_set_cpu(smp_processor_id(), search->found);
}

/*
 * Returns whether each CPU has loaded the mm anew, or will do so before it executes it,
 * since the caller has changed its number of mappings.
 *
 * All CPUs are called: one that was about to load the mm, and may have looked at the
 * number, or for watchers of the switch, before the change, has loaded it when it
 * answers, and is found.
 */
static bool load_mm_anew(struct mm_struct *mm)
{
	struct search search = { .mm = mm };
	cpumask_var_t found;
	bool done;

	/* Small, and nobody can go on without: a program would keep what it may not have. */
	zalloc_cpumask_var(&found, GFP_KERNEL | __GFP_NOFAIL);
	search.found = found;
	on_each_cpu(search_here, &search, true);
	done = cpu_works_do(&works, found);
	free_cpumask_var(found);
	return done;
}

bool perfmon_rdpmc_begin(struct mm_struct *mm)
{
	if (atomic_inc_return(&mm->context.perf_rdpmc_allowed) == 1 &&
	    !load_mm_anew(mm)) {
		/* Those CPUs that have done so may use it. */
		perfmon_rdpmc_end(mm);
		return false;
	}
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
		load_mm_anew(mm);
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
