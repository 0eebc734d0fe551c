// SPDX-License-Identifier: GPL-2.0-only
/*
 * RDPMC for programs that map the page of an event.
 *
 * The kernel owns CR4.PCE: it sets the bit when a CPU loads an mm that may use
 * RDPMC, and clears it when a CPU loads another mm. So the module marks the mm
 * as one that may use RDPMC, and makes each CPU that has loaded the mm load it
 * anew: a kernel thread on that CPU unloads it. Then PCE is set wherever the
 * program runs, and clear for other programs. The module waits only for the CPUs
 * that have loaded the mm.
 *
 * With /sys/bus/event_source/devices/cpu/rdpmc at 0 no mm may use RDPMC.
 *
 * An mm has the right as long as its number of mappings, ours and perf's, is
 * not 0. These calls and events change the number, or leave it as it is:
 *
 *   mmap      From 0 to 1: the CPUs that have loaded the mm load it anew. If one can't,
 *             the mapping gives no right.
 *   mremap    The copy counts as a mapping, and the old mapping ends. A part that
 *             munmap() or mprotect() splits off counts as a mapping, too.
 *   munmap    From 1 to 0: the CPUs that have loaded the mm load it anew. A thread of
 *             the program that is of the highest real-time priority and never sleeps
 *             keeps the right until it sleeps.
 *   fork      The kernel copies the mm with the number, not the mappings; the tracepoint
 *             task_newtask sets the child's number to 0 before the child runs. The
 *             module unregisters from the tracepoint when no event is open any more,
 *             but not while a fork that began before may be under way
 *             (perfmon_rdpmc_may_be_copied()): it waits for a fork that a debugger
 *             has stopped, for instance. Children to which perf has left the
 *             right keep it.
 *   vfork     Parent and child have one mm, and one right, as threads.
 *   exec      The task gets a new mm, which has no mapping. The mm that it leaves keeps
 *             its mappings and the right, for the parent of vfork() and other tasks that
 *             share it. But the page of an event of the task that has left the mm does
 *             not show them a counter for RDPMC (event/slot/user_pages.rs).
 *   exit      The mm and its mappings end with the last task, and no CPU executes the
 *             program any more.
 *   switch    Loading an mm sets or clears CR4.PCE; a CPU that keeps the
 *             mm it has loaded leaves the bit as it is. Kernel threads have the mm of the
 *             task before them, and execute no program.
 *   hotplug   A CPU that goes offline has loaded the kernel's own mm, and loads another
 *             when it comes online. The work that was queued for it runs on another
 *             CPU, so nothing waits for it.
 *   sleep     No program runs. The first CPU wakes up with the mm, and with the CR4,
 *             that it had.
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
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include <asm/processor.h>
#include <asm/ptrace.h>
#include <asm/special_insns.h>
#include <asm/thread_info.h>
#include <asm/unistd.h>

#include "cpu_work.h"
#include "perfmon_shim.h"
#include "unload_mm.h"

/* The type of perf's number of mappings is private to the kernel, and may change. */
static_assert(__same_type(((struct mm_struct *)NULL)->context.perf_rdpmc_allowed,
			  atomic_t));

static DEFINE_PER_CPU(struct cpu_work, cpu_works);
static struct cpu_works works;

/*
 * A program has got the right since perfmon_rdpmc_may_be_copied() last returned
 * false.
 */
static bool right_was_given;

void perfmon_rdpmc_init(void)
{
	cpu_works_begin(&works, &cpu_works, unload_mm);
}

void perfmon_rdpmc_exit(void)
{
	cpu_works_end(&works);
}

struct mm_cpu_search {
	struct mm_struct *mm;
	struct cpumask *cpus;
};

/*
 * Adds this CPU to search->cpus if it has loaded the mm: for the task that runs,
 * or still for the previous task.
 */
static void find_mm_here(void *arg)
{
	struct mm_cpu_search *search = arg;

	if (current->active_mm == search->mm)
		cpumask_set_cpu(smp_processor_id(), search->cpus);
}

/*
 * The number of programs that are getting the right. Meanwhile a switch hides the
 * counters from each program. Otherwise a CPU could look for the right just before
 * the program gets it, and load the mm just after that: the program would find the
 * counts of other tasks until the mm is loaded anew.
 */
static atomic_t beginning = ATOMIC_INIT(0);

static void do_nothing(void *unused)
{
}

/* From here on, each switch that begins hides the counters, and no other is under way. */
static void begin_to_hide(void)
{
	atomic_inc(&beginning);
	/* Interrupts are off during a switch, so it ends before its CPU answers. */
	on_each_cpu(do_nothing, NULL, true);
}

static void end_to_hide(void)
{
	atomic_dec(&beginning);
}

/*
 * Makes the CPUs that have loaded the mm load it anew, after the caller has
 * changed its number of mappings. Does not wait for the CPUs in @busy, whose work
 * is still under way. Returns false if a CPU is too busy to do so, and adds such CPUs
 * to @busy.
 *
 * All CPUs are called. A CPU that was about to load the mm may have read the number,
 * or looked for users of the context switch, before the change. Such a CPU has loaded
 * the mm when it answers the call, so find_mm_here() finds the mm.
 */
static bool load_mm_anew(struct mm_struct *mm, struct cpumask *busy)
{
	struct mm_cpu_search search = { .mm = mm };
	cpumask_var_t cpus;
	bool done;

	/*
	 * The allocation must not fail, or a program would keep a right that it
	 * has to lose. The mask is small.
	 */
	zalloc_cpumask_var(&cpus, GFP_KERNEL | __GFP_NOFAIL);
	search.cpus = cpus;
	on_each_cpu(find_mm_here, &search, true);
	cpumask_andnot(cpus, cpus, busy);
	done = cpu_works_do(&works, cpus);
	cpumask_or(busy, busy, cpus);
	free_cpumask_var(cpus);
	return done;
}

/*
 * Counts the end of a mapping. Returns whether the program has to lose the right. An mm
 * without users belongs to a program that has exited.
 */
static bool end_last_mapping(struct mm_struct *mm)
{
	return atomic_dec_and_test(&mm->context.perf_rdpmc_allowed) &&
	       atomic_read(&mm->mm_users);
}

/* Gives the right to a program that has none. Returns false if a CPU is too busy. */
static bool give_right(struct mm_struct *mm)
{
	cpumask_var_t busy;
	bool done = true;

	zalloc_cpumask_var(&busy, GFP_KERNEL | __GFP_NOFAIL);
	begin_to_hide();
	if (atomic_inc_return(&mm->context.perf_rdpmc_allowed) == 1)
		done = load_mm_anew(mm, busy);
	/*
	 * If a CPU is busy, the program has the right on the others, which
	 * have loaded the mm anew.
	 */
	if (!done && end_last_mapping(mm))
		load_mm_anew(mm, busy);
	end_to_hide();
	free_cpumask_var(busy);
	return done;
}

bool perfmon_rdpmc_begin(struct mm_struct *mm)
{
	WRITE_ONCE(right_was_given, true);
	if (!atomic_inc_not_zero(&mm->context.perf_rdpmc_allowed) && !give_right(mm))
		return false;
	/*
	 * This CPU has loaded the mm anew, too. If PCE is clear, no mm may use
	 * RDPMC.
	 */
	if (native_read_cr4() & X86_CR4_PCE)
		return true;
	atomic_dec(&mm->context.perf_rdpmc_allowed);
	return false;
}

void perfmon_rdpmc_begin_again(struct mm_struct *mm)
{
	atomic_inc(&mm->context.perf_rdpmc_allowed);
}

void perfmon_rdpmc_end(struct mm_struct *mm)
{
	cpumask_var_t busy;

	if (!end_last_mapping(mm))
		return;
	zalloc_cpumask_var(&busy, GFP_KERNEL | __GFP_NOFAIL);
	load_mm_anew(mm, busy);
	free_cpumask_var(busy);
}

void perfmon_rdpmc_clear(struct task_struct *child)
{
	if (child->mm && child->mm != current->mm)
		atomic_set(&child->mm->context.perf_rdpmc_allowed, 0);
}

static bool has_right(const struct task_struct *task)
{
	return task->mm && atomic_read(&task->mm->context.perf_rdpmc_allowed);
}

bool perfmon_rdpmc_may_have(const struct task_struct *task)
{
	return has_right(task) || (task->mm && atomic_read(&beginning));
}

bool perfmon_rdpmc_left_by_perf(void)
{
	struct task_struct *process, *thread;
	bool found = false;

	rcu_read_lock();
	for_each_process_thread(process, thread) {
		/* The mm is there as long as the lock is held. */
		task_lock(thread);
		found = has_right(thread);
		task_unlock(thread);
		if (found)
			goto out;
	}
out:
	rcu_read_unlock();
	return found;
}

/* The numbers that programs of 32 bits use for the system calls that copy an mm. */
#define NR32_FORK	2
#define NR32_CLONE	120
#define NR32_CLONE3	435

/*
 * Returns whether a task may be copying its mm, by the number of its present or
 * last system call. A task that has returned to its program has this number until its
 * next interrupt. The caller holds RCU's read lock, so the stack stays allocated.
 */
static bool may_fork(struct task_struct *task)
{
	char *stack = READ_ONCE(task->stack);
	struct pt_regs *regs;

	if (!stack || !READ_ONCE(task->mm))
		return false;
	regs = (struct pt_regs *)(stack + THREAD_SIZE - TOP_OF_KERNEL_STACK_PADDING) - 1;
	if (READ_ONCE(task_thread_info(task)->status) & TS_COMPAT) {
		switch ((int)READ_ONCE(regs->orig_ax)) {
		case NR32_CLONE:
			return !(READ_ONCE(regs->bx) & CLONE_VM);
		case NR32_FORK:
		case NR32_CLONE3:
			return true;
		}
		return false;
	}
	switch ((int)READ_ONCE(regs->orig_ax) & ~__X32_SYSCALL_BIT) {
	case __NR_clone:
		return !(READ_ONCE(regs->di) & CLONE_VM);
	case __NR_fork:
	case __NR_clone3:
		/* The flags of clone3() are in the program's memory. */
		return true;
	}
	return false;
}

/*
 * Returns whether a task that has made a child by vfork() waits for the child. The
 * wait may take for ever. The tracepoint task_newtask has been called then. The child
 * points to the completion, which is on the stack of the task that waits. The waiting
 * task need not be the child's parent (CLONE_PARENT). The caller holds RCU's read
 * lock.
 */
static bool waits_for_vfork(struct task_struct *task)
{
	const unsigned long stack = (unsigned long)READ_ONCE(task->stack);
	struct task_struct *process, *child;

	for_each_process_thread(process, child) {
		unsigned long done = (unsigned long)READ_ONCE(child->vfork_done);

		if (done - stack < THREAD_SIZE)
			return true;
	}
	return false;
}

/*
 * The largest number of tasks that may be forking for which the search looks for children
 * of vfork(), since it goes through all tasks for each.
 */
#define MAX_FORKING_TASKS	64

bool perfmon_rdpmc_may_be_copied(void)
{
	struct task_struct *process, *thread;
	unsigned int forking_tasks = 0;

	/*
	 * The flag is cleared before the search, since another program may get
	 * the right during the search.
	 */
	if (!xchg(&right_was_given, false))
		return false;
	rcu_read_lock();
	for_each_process_thread(process, thread) {
		if (!may_fork(thread))
			continue;
		if (++forking_tasks > MAX_FORKING_TASKS || !waits_for_vfork(thread)) {
			WRITE_ONCE(right_was_given, true);
			goto out;
		}
	}
out:
	rcu_read_unlock();
	return READ_ONCE(right_was_given);
}
