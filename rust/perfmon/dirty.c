// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux perf's dirty counters.
 *
 * perf does not zero a counter when an event gives it up. It marks it as dirty,
 * on that CPU, and zeroes it when the CPU next loads an mm that may use RDPMC
 * (perf_clear_dirty_counters()): also if the counter is reserved for somebody
 * else by then. So whoever reserves counters makes perf do that first, while
 * nothing counts: each CPU loads an mm that may use RDPMC.
 *
 * With /sys/bus/event_source/devices/cpu/rdpmc at 0 no mm may, and perf zeroes
 * nothing as long as it is so.
 */
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#include "perfmon_shim.h"

/*
 * That of the program that loaded the module. It is only switched to, so it may
 * have lost its memory long since.
 */
static struct mm_struct *mm;

static DEFINE_PER_CPU(struct work_struct, works);

/*
 * Lets no mm of a program be loaded. A kernel thread without an mm has at most
 * the one that ran before it.
 */
static void unload_mm(void)
{
	preempt_disable();
	leave_mm();
	preempt_enable();
}

/* In a kernel thread that is bound to its CPU. */
static void clean(void)
{
	/* Only a switch from another one makes perf look. */
	unload_mm();
	kthread_use_mm(mm);
	kthread_unuse_mm(mm);
	/* The CPU's permission to use RDPMC goes with it. */
	unload_mm();
}

static void work_clean(struct work_struct *work)
{
	clean();
}

/* To be called by the program that loads the module. */
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

/*
 * Makes perf zero its dirty counters on these CPUs, which stay online, and
 * returns when it has. One caller at a time; it sleeps.
 */
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

/* The same on this CPU, by the kernel thread that is bound to it. */
void perfmon_dirty_clean_here(void)
{
	if (!mm)
		return;
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	clean();
	atomic_dec(&mm->context.perf_rdpmc_allowed);
}
