// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux perf's dirty counters.
 *
 * perf does not zero a counter when an event gives it up. It marks the counter as
 * dirty on that CPU, and zeroes it when the CPU next loads an mm that may use
 * RDPMC (perf_clear_dirty_counters()), even if the counter has another owner by
 * then. So before an owner programs reserved counters, each CPU loads an mm that
 * may use RDPMC, and perf zeroes its dirty counters while nothing counts.
 *
 * With /sys/bus/event_source/devices/cpu/rdpmc at 0 no mm may use RDPMC, and perf
 * zeroes nothing.
 */
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "cpu_work.h"
#include "perfmon_shim.h"
#include "unload_mm.h"

/*
 * The mm of the program that loaded the module. CPUs only switch to it and read none
 * of its memory, which the kernel frees when the program exits.
 */
static struct mm_struct *mm;

static DEFINE_PER_CPU(struct cpu_work, cpu_works);
static struct cpu_works works;

/* To be called by a kernel thread that is bound to its CPU. */
static void clean_dirty_counters(void)
{
	/* perf zeroes its counters only when the CPU switches from another mm. */
	unload_mm();
	kthread_use_mm(mm);
	kthread_unuse_mm(mm);
	/* Clears CR4.PCE, so that the CPU's next program can't use RDPMC. */
	unload_mm();
}

void perfmon_dirty_init(void)
{
	mm = current->mm;
	if (mm)
		mmgrab(mm);
	cpu_works_begin(&works, &cpu_works, clean_dirty_counters);
}

void perfmon_dirty_exit(void)
{
	cpu_works_end(&works);
	if (mm)
		mmdrop(mm);
}

int perfmon_clean_dirty_counters(unsigned int *busy)
{
	cpumask_var_t cpus;
	int err = 0;

	if (!mm)
		return 0;
	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	cpumask_copy(cpus, cpu_online_mask);
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	if (!cpu_works_do(&works, cpus)) {
		*busy = cpumask_first(cpus);
		err = -EBUSY;
	}
	atomic_dec(&mm->context.perf_rdpmc_allowed);
	free_cpumask_var(cpus);
	return err;
}

void perfmon_clean_dirty_counters_here(void)
{
	if (!mm)
		return;
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	clean_dirty_counters();
	atomic_dec(&mm->context.perf_rdpmc_allowed);
}
