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
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#include "perfmon_shim.h"
#include "unload_mm.h"

/*
 * The mm of the program that loaded the module. CPUs only switch to it, so it may
 * outlive the program's memory.
 */
static struct mm_struct *mm;

static DEFINE_PER_CPU(struct work_struct, works);

/* For a kernel thread that is bound to its CPU. */
static void clean(void)
{
	/* perf looks only at a switch from another mm. */
	unload_mm();
	kthread_use_mm(mm);
	kthread_unuse_mm(mm);
	/* Without it the CPU may not use RDPMC any more. */
	unload_mm();
}

static void work_clean(struct work_struct *work)
{
	clean();
}

void perfmon_dirty_init(void)
{
	unsigned int cpu;

	mm = current->mm;
	if (mm)
		mmgrab(mm);
	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&works, cpu), work_clean);
}

void perfmon_dirty_exit(void)
{
	if (mm)
		mmdrop(mm);
}

void perfmon_dirty_clean(const struct cpumask *cpus)
{
	unsigned int cpu;

	if (!mm)
		return;
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	for_each_cpu(cpu, cpus)
		queue_work_on(cpu, system_highpri_wq, per_cpu_ptr(&works, cpu));
	for_each_cpu(cpu, cpus)
		flush_work(per_cpu_ptr(&works, cpu));
	atomic_dec(&mm->context.perf_rdpmc_allowed);
}

void perfmon_dirty_clean_here(void)
{
	if (!mm)
		return;
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	clean();
	atomic_dec(&mm->context.perf_rdpmc_allowed);
}
