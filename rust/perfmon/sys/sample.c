// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data of the interrupted task for samples. All functions may be called in
 * NMIs.
 */
#include <linux/compat.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/task_stack.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <asm/cpu_entry_area.h>
#include <asm/unwind.h>

#include "perfmon_shim.h"

u64 perfmon_clock(int clock)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
		return ktime_get_mono_fast_ns();
	case CLOCK_MONOTONIC_RAW:
		return ktime_get_raw_fast_ns();
	default:
		return local_clock();
	}
}

struct pid_namespace *perfmon_pid_namespace_get(void)
{
	struct pid_namespace *ns = task_active_pid_ns(current);

	return ns == &init_pid_ns ? NULL : get_pid_ns(ns);
}

void perfmon_pid_namespace_put(struct pid_namespace *ns)
{
	put_pid_ns(ns);
}

u64 perfmon_task_ids(struct task_struct *task, struct pid_namespace *ns)
{
	u32 process, thread;

	if (!task)
		task = current;
	if (!ns) {
		process = task->tgid;
		thread = task->pid;
	} else {
		process = task_tgid_nr_ns(task, ns);
		thread = task_pid_nr_ns(task, ns);
		/* A task that has given up its IDs at its exit has ID -1, as from perf. */
		if (!process && !pid_alive(task))
			process = thread = -1;
	}
	return (u64)thread << 32 | process;
}

u64 perfmon_parent_ids(struct task_struct *task, struct pid_namespace *ns)
{
	u64 ids;

	rcu_read_lock();
	/* Both halves are the process, as from perf. */
	ids = (u32)perfmon_task_ids(rcu_dereference(task->real_parent)->group_leader, ns);
	rcu_read_unlock();
	return ids << 32 | ids;
}

void perfmon_copy_name(const char *name, char to[16])
{
	strscpy_pad(to, name, 16);
}

bool perfmon_task_executes(const struct task_struct *task)
{
	return task->in_execve;
}

bool perfmon_on_stack_of(const struct task_struct *task)
{
	return !task || task == current;
}

/* The current task has begun to execute a program, and on_exec() was not called yet. */
static DEFINE_PER_CPU(bool, program_is_hidden);

void perfmon_hide_program(bool hide)
{
	this_cpu_write(program_is_hidden, hide);
}

/*
 * An exec may fail after the new program has got its credentials and its memory, for
 * lack of memory for instance. The kernel clears in_execve then, before the task ends.
 */
bool perfmon_program_is_hidden(void)
{
	return current->in_execve || this_cpu_read(program_is_hidden);
}

bool perfmon_may_show_regs(struct pt_regs *regs, const struct task_struct *task)
{
	return user_mode(regs) || (perfmon_on_stack_of(task) && !perfmon_program_is_hidden());
}

/*
 * The entry points of system calls, with a number of bytes: all of the program's
 * registers are saved within the first @bytes of the entry's code, and the code that
 * returns to the program lies after them.
 */
static const struct entry {
	u32 msr, bytes;
} syscall_entries[] = {
	{ MSR_LSTAR, 96 }, { MSR_CSTAR, 128 }, { MSR_IA32_SYSENTER_EIP, 128 },
};

static bool is_in_entry(const struct entry *entry, const struct pt_regs *regs)
{
	u64 start;

	rdmsrq(entry->msr, start);
	return regs->ip - start < entry->bytes;
}

/*
 * Returns whether all of the program's registers have been saved where
 * task_pt_regs() says, when the kernel has @regs: not in the first instructions
 * of a system call, nor on the stack on which exceptions begin.
 */
static bool are_user_regs_saved(const struct pt_regs *regs, const struct pt_regs *user)
{
	unsigned long stack = (unsigned long)task_stack_page(current);
	int i;

	/*
	 * Interrupts have a stack of their own, which they use after the
	 * registers have been saved. The NMI itself counts as one interrupt.
	 */
	if (hardirq_count() > HARDIRQ_OFFSET || in_serving_softirq())
		return true;
	if (regs->sp < stack || regs->sp > stack + THREAD_SIZE)
		return false;
	if (regs->sp <= (unsigned long)user)
		return true;
	/* FRED has no entry points of system calls to tell the entry from the return. */
	if (cpu_feature_enabled(X86_FEATURE_FRED))
		return false;
	/* On the return to the program, its saved registers are still complete. */
	for (i = 0; i < ARRAY_SIZE(syscall_entries); i++) {
		if (is_in_entry(&syscall_entries[i], regs))
			return false;
	}
	return true;
}

struct pt_regs *perfmon_saved_user_regs(const struct task_struct *task)
{
	/*
	 * In the context switch, the registers may still belong to another task.
	 */
	if (!perfmon_on_stack_of(task))
		return NULL;
	/*
	 * io_uring's workers have no registers of a program. The registers of a
	 * new program are set before on_exec() checks which users may look at
	 * it.
	 */
	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || perfmon_program_is_hidden())
		return NULL;
	return task_pt_regs(current);
}

struct pt_regs *perfmon_user_regs(struct pt_regs *regs,
				  const struct task_struct *task)
{
	struct pt_regs *user;

	if (user_mode(regs))
		return regs;
	user = perfmon_saved_user_regs(task);
	return user && are_user_regs_saved(regs, user) ? user : NULL;
}

/*
 * Returns the address at which an interrupt or an exception has interrupted the
 * program, if the kernel is still on the entry stack; else 0. The processor has
 * pushed the five words at its top: RIP, CS, RFLAGS, RSP, SS (Intel SDM, volume
 * 3A, "64-Bit Mode Stack Frame"). The kernel's return to the program pushes the
 * same words.
 */
static u64 interrupted_address(const struct pt_regs *regs)
{
	const struct entry_stack *stack = cpu_entry_stack(smp_processor_id());
	const unsigned long *frame = (const unsigned long *)(stack + 1) - 5;

	if (regs->sp < (unsigned long)stack || regs->sp > (unsigned long)frame)
		return 0;
	return (frame[1] & SEGMENT_RPL_MASK) == USER_RPL ? frame[0] : 0;
}

u64 perfmon_unsaved_user_ip(const struct pt_regs *regs)
{
	/*
	 * SYSCALL stores the address of the next instruction in RCX (Intel SDM,
	 * volume 2B).
	 */
	u64 address = is_in_entry(&syscall_entries[0], regs) ? regs->cx : interrupted_address(regs);

	return address < TASK_SIZE_MAX ? address : 0;
}

bool perfmon_regs_are_64(struct pt_regs *regs)
{
	return user_64bit_mode(regs) || !user_mode(regs);
}

u32 perfmon_kernel_chain(struct pt_regs *regs, u64 *chain, u32 room)
{
	struct unwind_state state;
	unsigned long address;
	u32 n = 0;

	if (n < room)
		chain[n++] = regs->ip;
	for (unwind_start(&state, current, regs, NULL);
	     n < room && !unwind_done(&state); unwind_next_frame(&state)) {
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		chain[n++] = address;
	}
	return n;
}

/*
 * Walks the frames of functions that begin with push %rbp; mov %rsp, %rbp: a frame
 * has the address of the caller's frame, then the address of the instruction after
 * the call. To be called after copy_from_user_nmi() has read the first frame.
 */
static __always_inline u32 walk_frames(u64 at, u64 *chain, u32 n, u32 room, const bool is_64)
{
	/*
	 * Readers would take a higher address for a context mark, or for an
	 * address in the kernel.
	 */
	const u64 highest = TASK_SIZE_MAX - 1;
	u64 next, address;

	/*
	 * Access begins once for all frames, so each address is masked before
	 * it is used.
	 */
	(void)masked_user_access_begin((const void __user *)at);
	/*
	 * %rbp need not be a frame pointer: stop at a frame that is not aligned,
	 * or not above the previous one.
	 */
	while (n < room && IS_ALIGNED(at, is_64 ? 8 : 4)) {
		const void __user *frame = mask_user_address((const void __user *)at);

		if (is_64) {
			unsafe_get_user(next, (const u64 __user *)frame, end);
			unsafe_get_user(address, (const u64 __user *)frame + 1, end);
		} else {
			unsafe_get_user(next, (const u32 __user *)frame, end);
			unsafe_get_user(address, (const u32 __user *)frame + 1, end);
		}
		if (!address || address > highest)
			break;
		chain[n++] = address;
		if (next <= at)
			break;
		at = next;
	}
end:
	user_read_access_end();
	return n;
}

u32 perfmon_user_chain(struct pt_regs *regs, u64 *chain, u32 room)
{
	u8 byte;
	u32 n = 0;

	if (n < room)
		chain[n++] = regs->ip;
	/*
	 * Checks that the CPU has loaded the task's address space, and that the
	 * first frame can be read.
	 */
	if (n >= room || copy_from_user_nmi(&byte, (void __user *)regs->bp, 1))
		return n;
	pagefault_disable();
	n = user_64bit_mode(regs) ? walk_frames(regs->bp, chain, n, room, true) :
				    walk_frames(regs->bp, chain, n, room, false);
	pagefault_enable();
	return n;
}

u64 perfmon_user_stack(struct pt_regs *regs)
{
	return current->mm && regs->sp < TASK_SIZE ? TASK_SIZE - regs->sp : 0;
}

u32 perfmon_copy_stack(u64 *to, u64 from, u32 size)
{
	return size - copy_from_user_nmi(to, (void __user *)from, size);
}
