/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel facilities without a Rust binding: macros, inline functions, per-CPU
 * variables, and functions that kernel::bindings leaves out. ffi.rs is made of
 * this file, with its comments.
 */
#ifndef _PERFMON_SHIM_H
#define _PERFMON_SHIM_H

#include <linux/types.h>

struct cgroup;
struct cred;
struct file;
struct linux_binprm;
struct mm_struct;
struct perfmon_wait;
struct perfmon_waker;
struct pid;
struct pid_namespace;
struct poll_table_struct;
struct pt_regs;
struct task_struct;
struct user_struct;
struct vm_area_struct;

/*
 * Allocates an area of per-CPU memory for each possible CPU, all bytes zero.
 * -ENOMEM if there is no memory. Its type is struct PerCpu in percpu/mod.rs.
 */
int perfmon_percpu_alloc(size_t size, size_t align);
/* Frees the areas. */
void perfmon_percpu_free(void);
/* Returns the area of a possible CPU. */
void *perfmon_percpu_of(unsigned int cpu);
/* Returns the area of this CPU, which the caller can't leave. */
void *perfmon_percpu_here(void);

/* Keeps the task on its CPU until perfmon_unpin(), and returns the CPU's area. */
void *perfmon_pin(void);
/* Ends perfmon_pin(). */
void perfmon_unpin(void);
/*
 * Keeps the task on its CPU and interrupts off until perfmon_irqs_on(), and
 * returns the CPU's area. Only NMIs come between.
 */
void *perfmon_irqs_off(void);
/* Ends perfmon_irqs_off(). */
void perfmon_irqs_on(void);

/* Returns whether CPUs have a DS area that is mapped whatever runs. */
bool perfmon_pebs_has_area(void);
/* Returns whether this CPU may run guests of KVM. */
bool perfmon_vmx_is_on(void);
/* Allocates the buffers of all CPUs, unless they are there. -ENOMEM. */
int perfmon_pebs_alloc(void);
/* Returns this CPU's DS area, and from where to where its buffer is. */
u64 perfmon_pebs_begin(u64 *start, u64 *end);
/* Clears what the processor has written for programs to see. */
void perfmon_pebs_end(void);
/*
 * Clears the records of a program that leaves this CPU, if they are in the page that
 * the next one has in its page tables.
 */
void perfmon_pebs_hide(void);

/* Reads an MSR that may be missing: -EIO then. */
int perfmon_rdmsr_safe(u32 msr, u64 *value);

/* Returns whether two online CPUs are of the same core. */
bool perfmon_same_core(unsigned int a, unsigned int b);
/* Returns whether another online CPU is of the same core as this one, which is online. */
bool perfmon_has_sibling(unsigned int cpu);
/*
 * Returns whether two online CPUs share the registers of a package: on Intel those
 * of a die.
 */
bool perfmon_same_package(unsigned int a, unsigned int b);

/* Reserves a counter against Linux perf: true if it was free. */
bool perfmon_reserve_counter(u32 msr);
/* Reserves an event select against Linux perf: true if it was free. */
bool perfmon_reserve_select(u32 msr);
/* Ends the reservation of a counter. */
void perfmon_release_counter(u32 msr);
/* Ends the reservation of an event select. */
void perfmon_release_select(u32 msr);

/* Returns 0 if Linux's policy lets the caller count in kernel mode. */
int perfmon_allow_kernel(void);
/* Returns the credentials of the current task, without a reference. */
const struct cred *perfmon_current_cred(void);
/*
 * Returns whether the credentials have CAP_PERFMON or CAP_SYS_ADMIN in the
 * initial user namespace. Security modules are not asked.
 */
bool perfmon_is_capable(const struct cred *cred);

/*
 * Copies a structure of two words from a program, in a third of the instructions
 * of copy_from_user(). -EFAULT if the address is bad.
 */
int perfmon_copy_from_user_16(void *to, unsigned long from);
/* Copies a structure of two words to a program. -EFAULT if the address is bad. */
int perfmon_copy_to_user_16(unsigned long to, const void *from);

/*
 * Copies a structure of from_size bytes from a program to one of size bytes. The
 * rest of the longer one is or becomes 0: else -E2BIG. -EFAULT if the address is
 * bad.
 */
int perfmon_copy_struct(void *to, size_t size, unsigned long from,
			size_t from_size);
/* Copies a word from a program. -EFAULT if the address is bad. */
int perfmon_get_u32(u32 *to, unsigned long from);
/* Copies a word to a program. -EFAULT if the address is bad. */
int perfmon_put_u32(unsigned long to, u32 value);
/*
 * Copies words to a program, in a third of the instructions of copy_to_user().
 * -EFAULT if the address is bad.
 */
int perfmon_put_words(unsigned long to, const u64 *words, size_t count);

/* Allocates zeroed memory for a trace buffer. NULL if there is none. */
void *perfmon_buffer_alloc(size_t size);
/* Frees the memory of a trace buffer. */
void perfmon_buffer_free(void *start);
/*
 * Opens a read-only file of these struct file_operations, and returns a
 * descriptor that is closed on exec, or an error.
 */
int perfmon_open_anonymous(const void *operations, void *data);

/*
 * Makes a file for reading and writing of these struct file_operations. An error
 * pointer if there can't be another one.
 */
struct file *perfmon_anonymous_file(const void *operations, void *data);
/* Returns whether the file has these struct file_operations. */
bool perfmon_is_file_of(struct file *file, const void *operations);
/*
 * Keeps a mapping that is being set up from children, from growing, and from core
 * dumps.
 */
void perfmon_area_keep(struct vm_area_struct *area);

/*
 * Makes a place where programs wait. After an overflow that was the last one, ended()
 * is called in an interrupt; if ended is NULL, there are no overflows. NULL if there is
 * no memory.
 */
struct perfmon_wait *perfmon_wait_new(void (*ended)(void));
/* Waits for the interrupts of the last perfmon_wait_overflow() on each CPU. */
void perfmon_wait_sync(struct perfmon_wait *wait);
/* Frees it; no program waits there, and there is no such interrupt. */
void perfmon_wait_free(struct perfmon_wait *wait);
/* Adds a poll(2) of the file to the pollers, and returns. */
void perfmon_wait_poll(struct perfmon_wait *wait, struct file *file,
		       struct poll_table_struct *table);
/* Adds the file to those whose owners get SIGIO, or takes it away (O_ASYNC). */
int perfmon_wait_signal(struct perfmon_wait *wait, int fd, struct file *file,
			int on);
/* Wakes the pollers with @events, and sends SIGIO with POLL_IN or POLL_HUP, if not 0. */
void perfmon_wait_wake(struct perfmon_wait *wait, u32 events, int band);
/*
 * Sends SIGIO soon, from any context: with POLL_IN, or with POLL_HUP after the last
 * overflow.
 */
void perfmon_wait_overflow(struct perfmon_wait *wait, int band);
/*
 * Makes a waker: from any context it wakes pollers, with EPOLLIN. NULL if
 * there is no memory.
 */
struct perfmon_waker *perfmon_waker_new(void);
/* Frees a waker that is not used any more. It sleeps. */
void perfmon_waker_free(struct perfmon_waker *waker);
/* Makes the waker wake the pollers here, too. A place has one waker at a time. */
void perfmon_waker_add(struct perfmon_waker *waker, struct perfmon_wait *wait);
/* Ends perfmon_waker_add(). */
void perfmon_waker_remove(struct perfmon_waker *waker, struct perfmon_wait *wait);
/* Wakes them soon. */
void perfmon_waker_wake(struct perfmon_waker *waker);
/*
 * Returns the cycles of the time-stamp counter that waking and signalling took on this
 * CPU, in interrupts, since the last call. Without preemption.
 */
u64 perfmon_wake_cycles(void);
/* Returns whether they were woken since the last call. */
bool perfmon_waker_take(struct perfmon_waker *waker);

/*
 * Returns the time in nanoseconds, also in an NMI: of CLOCK_MONOTONIC,
 * CLOCK_MONOTONIC_RAW, or with -1 of the clock that perf and the scheduler have.
 */
u64 perfmon_clock(int clock);
/* Returns a reference to the caller's PID namespace; NULL for the first one. */
struct pid_namespace *perfmon_pid_namespace_get(void);
/* Ends it. */
void perfmon_pid_namespace_put(struct pid_namespace *ns);
/*
 * Returns the numbers of a task, NULL for the current one, in the namespace, NULL for
 * the first one: the process, and above it the thread. 0 if it has none there.
 */
u64 perfmon_task_ids(struct task_struct *task, struct pid_namespace *ns);
/* Returns perfmon_task_ids() of the parent of a task, which is the caller. */
u64 perfmon_parent_ids(struct task_struct *task, struct pid_namespace *ns);
/* Copies the name of a task, up to 15 bytes and zeros. */
void perfmon_copy_name(const char *name, char to[16]);
/* Returns whether the task, which is the caller, is executing another program. */
bool perfmon_task_executes(const struct task_struct *task);
/*
 * Returns whether the stack that the kernel is on is that of @task: in the context
 * switch it may be another's. Any will do if @task is NULL.
 */
bool perfmon_on_stack_of(const struct task_struct *task);
/*
 * Returns whether these registers, of a sample of @task, tell nothing of others: nor
 * what the kernel knows of a program that begins, before it is known which users may know it.
 */
bool perfmon_may_show_regs(struct pt_regs *regs, const struct task_struct *task);
/*
 * Returns the registers of the program that is interrupted, or that has called the
 * kernel. NULL in a thread of the kernel's, while a program begins, while they are being
 * saved, and if another task than @task is the current one; any will do if that is NULL.
 */
struct pt_regs *perfmon_user_regs(struct pt_regs *regs,
				  const struct task_struct *task);
/*
 * Returns where the program goes on that has just called the kernel, or was just
 * interrupted: its registers are not saved yet. 0 elsewhere.
 */
u64 perfmon_program_address(const struct pt_regs *regs);
/* Returns whether they are registers of 64 bits. */
bool perfmon_regs_are_64(struct pt_regs *regs);
/*
 * Writes up to room addresses of a call chain in the kernel, the innermost first,
 * and returns how many. For an NMI that came at regs.
 */
u32 perfmon_kernel_chain(struct pt_regs *regs, u64 *chain, u32 room);
/* The same in the program, by frame pointers; only what is in memory is read. */
u32 perfmon_user_chain(struct pt_regs *regs, u64 *chain, u32 room);
/* Returns the bytes from the program's stack pointer to the end of its addresses. */
u64 perfmon_user_stack(struct pt_regs *regs);
/* Copies from the program's stack, in an NMI. Returns the bytes that were copied. */
u32 perfmon_copy_stack(u64 *to, u64 from, u32 size);

/* Calls handler() at each NMI, with the area of its CPU. */
int perfmon_nmi_register(int (*handler)(void *area, struct pt_regs *regs));
/* Ends the calls. No CPU is in the handler when this returns. */
void perfmon_nmi_unregister(void);

/*
 * Reads the local APIC's entry for performance-monitoring interrupts, on this
 * CPU.
 */
u32 perfmon_lvtpc_read(void);
/*
 * Writes the local APIC's entry for performance-monitoring interrupts, on this
 * CPU.
 */
void perfmon_lvtpc_write(u32 value);

/*
 * Sets up a timer for each CPU, which calls tick() there, with interrupts off, and
 * again after as many nanoseconds as that returns; no more if it returns 0.
 */
void perfmon_timers_init(u64 (*tick)(void));
/* Returns the period of the kernel's own tick. */
u64 perfmon_tick_ns(void);
/*
 * Starts the timer of this CPU: it ticks after so many nanoseconds, also if it was
 * to tick at another time.
 */
void perfmon_timer_start(u64 ns);
/* Stops the timer of this CPU. It does not tick any more when this returns. */
void perfmon_timer_stop(void);

/* Calls down() before the system sleeps or reboots, up() after a sleep. */
int perfmon_power_register(void (*down)(void), void (*up)(void));
/* Ends the calls. */
void perfmon_power_unregister(void);

/*
 * Takes the address space that perfmon_dirty_clean() uses: that of the program
 * that loads the module, which has to be the caller.
 */
void perfmon_dirty_init(void);
/* Gives the address space back. */
void perfmon_dirty_exit(void);
/*
 * Makes perf zero its dirty counters on the CPUs that are online; it sleeps. -EBUSY
 * if a real-time program keeps a CPU, which is in *busy; -ENOMEM.
 */
int perfmon_dirty_clean(unsigned int *busy);
/*
 * Makes perf zero its dirty counters on this CPU. The caller is a kernel thread
 * that is bound to it.
 */
void perfmon_dirty_clean_here(void);

/*
 * Makes the place-holder of a CPU that is online, with this general counter, unless it
 * has one. @constrain: perf may give it no other counter; only for perf's version 6 of
 * Intel's PMU, since before perf has no memory for such constraints. It sleeps. -EBUSY
 * if another pinned event has the CPU; -ENXIO if perf gives it another counter;
 * -EOPNOTSUPP if virtual machines have the counters; -ENOMEM. One caller at a time.
 */
int perfmon_hold(unsigned int cpu, unsigned int counter, bool constrain);
/* Ends the place-holder of a CPU, if it has one. It sleeps. One caller at a time. */
void perfmon_unhold(unsigned int cpu);
/*
 * Returns whether the place-holder of this CPU has had the CPU all the time. For a
 * caller with interrupts off.
 */
bool perfmon_holds_here(unsigned int counter);
/* Has a kernel thread call f() soon. It does not sleep. */
void perfmon_unhold_soon(void (*f)(void));
/* Waits for the f() of the last perfmon_unhold_soon(). */
void perfmon_unhold_wait(void);

/* Prepares for perfmon_rdpmc_begin(). */
void perfmon_rdpmc_init(void);
/* Ends perfmon_rdpmc_init(). */
void perfmon_rdpmc_exit(void);
/*
 * Lets the caller's program use RDPMC, once more. Returns false if it can't. mm is
 * the caller's, and locked for writing; it sleeps.
 */
bool perfmon_rdpmc_begin(struct mm_struct *mm);
/* Lets a program that may use RDPMC do so once more. */
void perfmon_rdpmc_again(struct mm_struct *mm);
/* Ends one perfmon_rdpmc_begin() or perfmon_rdpmc_again(); it sleeps. */
void perfmon_rdpmc_end(struct mm_struct *mm);
/*
 * Keeps RDPMC from a new task that has an mm of its own: it has no mapping, but the
 * kernel copies the number of mappings.
 */
void perfmon_rdpmc_forget(struct task_struct *child);
/* Returns whether the task may use RDPMC, in any context. */
bool perfmon_rdpmc_has(const struct task_struct *task);
/*
 * Returns whether any program may use RDPMC: perf leaves that to the children of
 * those that had a page mapped. It looks at all tasks.
 */
bool perfmon_rdpmc_left_by_perf(void);
/*
 * Returns whether a child may be in the making that has a copy of a program's right,
 * although that has ended since. It looks at all tasks.
 */
bool perfmon_rdpmc_may_be_copied(void);

/* The accounts that memory is charged to, and the pages of each. */
struct perfmon_charge {
	struct user_struct *user;
	struct mm_struct *mm;
	unsigned long user_pages;
	unsigned long mm_pages;
};

/*
 * Charges pages to the caller, as perf does for its buffers: first to the user,
 * who has user_kb for each online CPU, then to the address space, which has
 * RLIMIT_MEMLOCK unless the caller has CAP_IPC_LOCK. -EPERM if that does not
 * suffice, as from perf.
 */
int perfmon_charge(struct perfmon_charge *charge, u32 pages, u32 user_kb);
/* Ends a charge, in any task, also if the one that was charged is gone. */
void perfmon_uncharge(const struct perfmon_charge *charge);

/*
 * Takes the lock of the table of tasks, with interrupts off, and returns what
 * perfmon_tasks_unlock() needs.
 */
unsigned long perfmon_tasks_lock(void);
/* Ends perfmon_tasks_lock(). */
void perfmon_tasks_unlock(unsigned long flags);
/*
 * Returns a reference to the thread with this number in the caller's PID
 * namespace; 0 is the caller. NULL if there is none.
 */
struct task_struct *perfmon_task_get(int pid);
/* Returns the CPU that a task runs on, or ran on last. */
unsigned int perfmon_task_cpu(struct task_struct *task);
/* Returns whether the task exits. */
bool perfmon_task_is_exiting(struct task_struct *task);
/* Returns whether the task is a thread of the kernel's own. */
bool perfmon_task_is_kernel(struct task_struct *task);
/* Returns whether both tasks are threads of one process. */
bool perfmon_task_is_mine(struct task_struct *task);
/* Returns whether the task has this address space, in any context. */
bool perfmon_task_is_in(const struct task_struct *task, const struct mm_struct *mm);
/*
 * Returns whether the caller, which executes a program by bprm, has become one
 * that others of its user may not look at any more: by a setuid program, by
 * capabilities, or by a program that it can't read.
 */
bool perfmon_exec_is_private(const struct linux_binprm *bprm);
/* Returns a reference to the caller's process. */
struct pid *perfmon_own_process(void);
/* Gives the reference back. */
void perfmon_process_put(struct pid *process);
/*
 * Returns the number of a process in the caller's PID namespace; 0 if it has none
 * there, or has exited.
 */
int perfmon_process_number(struct pid *process);
/* Copies the caller's name, up to 15 bytes and a 0. */
void perfmon_own_name(char name[16]);

/*
 * Has a kernel thread call f(), and waits for it; it sleeps. For what other tasks
 * wait for: they would wait until the caller gets to run.
 */
void perfmon_call(void (*f)(void *data), void *data);
/*
 * Calls f() in a second, in a task of the kernel's. If that was asked for before,
 * the second begins anew.
 */
void perfmon_call_later(void (*f)(void));
/* Calls f() no more; it has returned when this does. */
void perfmon_call_later_cancel(void);
/* Calls f() as soon as a task of the kernel's can. It does not sleep. */
void perfmon_call_soon(void (*f)(void));
/* Calls f() no more; it has returned when this does. */
void perfmon_call_soon_cancel(void);
/*
 * Waits for functions that tracepoints may still be calling, and for those that
 * call_rcu() has been given.
 */
void perfmon_tracepoints_sync(void);

/* What a program has mapped, as perf's records describe it, without its name. */
struct perfmon_mapping {
	u64 start, size, offset;
	u32 major, minor;
	u64 inode, generation;
	u32 protection, flags;
};

/*
 * Returns a reference to the cgroup of version 2 whose directory is open as fd, or a
 * negative errno as a pointer: EBADF, ENOENT; EOPNOTSUPP if the kernel has no cgroups.
 */
struct cgroup *perfmon_cgroup_get(int fd);
/* Gives a reference back. Does not sleep. */
void perfmon_cgroup_put(struct cgroup *cgroup);
/* Returns the number that the kernel gives it, which the directory has as its inode. */
u64 perfmon_cgroup_id(const struct cgroup *cgroup);
/* Returns the number of cgroups that it is in. */
int perfmon_cgroup_level(const struct cgroup *cgroup);
/*
 * Returns the cgroup of version 2 that the task is in, or the one at the level that
 * this is in if its own is deeper, as long as the caller has preemption off. NULL if
 * the kernel has no cgroups.
 */
struct cgroup *perfmon_cgroup_of(struct task_struct *task, int level);
/* Returns the cgroup that it is in; NULL for the root. */
struct cgroup *perfmon_cgroup_parent(struct cgroup *cgroup);
/* Returns whether it is in the other one, at any depth, or is that. */
bool perfmon_cgroup_is_within(struct cgroup *cgroup, struct cgroup *ancestor);
/*
 * Calls f() soon on the CPU that the task is on, or on those of all threads of its
 * process, with interrupts off. For callers with interrupts off.
 */
void perfmon_cgroup_moved(struct task_struct *task, bool all_threads, void (*f)(void));

/*
 * Returns 0 if this kernel can tell a module what programs map, as far as that is known
 * before it is asked to.
 */
int perfmon_mappings_check(void);
/*
 * Calls mapped() after each mapping or change of one, by the task that makes it, and
 * begins() when the rights to look at a program are known that the task begins to execute,
 * before anything of that is mapped: both with interrupts off. It sleeps. -EOPNOTSUPP,
 * -ENOENT or -EINVAL if this kernel has no kprobes for that, -ENOMEM.
 */
int perfmon_mappings_begin(void (*mapped)(struct vm_area_struct *area),
			   void (*begins)(struct linux_binprm *program));
/* Ends the calls: none is under way when this returns. It sleeps. */
void perfmon_mappings_end(void);
/* Returns whether the program may execute what is mapped there. */
bool perfmon_mapping_is_executable(const struct vm_area_struct *area);
/*
 * Describes what the caller has just mapped. Writes its name, with zeros up to a multiple
 * of 8 bytes, and returns how many these are.
 */
size_t perfmon_mapping_describe(struct vm_area_struct *area, struct perfmon_mapping *to,
				char name[4096]);

/* Waits until all code has left that runs with interrupts off now. It sleeps. */
void perfmon_rcu_wait(void);

/* Mounts a proc for perfmon_may_attach(). */
int perfmon_proc_mount(void);
/* Unmounts it. */
void perfmon_proc_unmount(void);
/*
 * Returns 0 if the caller may look at a task, as ptrace_may_access() and the security
 * modules answer; it sleeps.
 */
int perfmon_may_attach(struct task_struct *task);

#endif /* _PERFMON_SHIM_H */
