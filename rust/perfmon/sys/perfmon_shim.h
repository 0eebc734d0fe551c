/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel facilities without a Rust binding: macros, inline functions, per-CPU
 * variables, and functions that kernel::bindings leaves out. ffi.rs is
 * generated from this file, with its comments.
 */
#ifndef _PERFMON_SHIM_H
#define _PERFMON_SHIM_H

#include <linux/types.h>

/*
 * The module relies on its tracepoints and interrupt work running with interrupts off, which
 * they do not on real-time kernels.
 */
#ifdef CONFIG_PREEMPT_RT
#error "The module is not made for real-time kernels (CONFIG_PREEMPT_RT)."
#endif

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
 * Rust code uses an area as the struct PerCpu of percpu/percpu.rs. Returns -ENOMEM
 * if there is no memory.
 */
int perfmon_percpu_alloc(size_t size, size_t align);
/* Frees the areas. */
void perfmon_percpu_free(void);
/* Returns the area of a possible CPU. */
void *perfmon_percpu_of(unsigned int cpu);
/* Returns the area of this CPU, for a caller that can't leave the CPU. */
void *perfmon_percpu_here(void);

/* Keeps the task on its CPU until perfmon_unpin(), and returns the CPU's area. */
void *perfmon_pin(void);
/* Lets the task leave its CPU again, after perfmon_pin(). */
void perfmon_unpin(void);
/*
 * Keeps the task on its CPU and interrupts off until perfmon_irqs_on(), and
 * returns the CPU's area. Only NMIs can interrupt it.
 */
void *perfmon_irqs_off(void);
/* Turns interrupts on again, after perfmon_irqs_off(). */
void perfmon_irqs_on(void);

/* Returns whether each CPU has a DS area that is mapped in all page tables. */
bool perfmon_pebs_has_area(void);
/* Returns whether this CPU may run guests of KVM. */
bool perfmon_vmx_is_on(void);
/* Allocates a PEBS buffer for each CPU that has none. Returns 0 or -ENOMEM. */
int perfmon_pebs_alloc(void);
/*
 * Returns the address of this CPU's DS area, and in *start and *end the range
 * of its buffer. For a caller that can't leave the CPU.
 */
u64 perfmon_pebs_begin(u64 *start, u64 *end);
/*
 * Restores this CPU's DS area as perfmon_pebs_begin() has found it, and clears the
 * records in the page, which programs might be able to read. The caller must stay on
 * the CPU, and the processor must write no records.
 */
void perfmon_pebs_end(void);
/*
 * Clears the records of a program that leaves this CPU, if they are in the page that
 * the page tables of the next program map, too. The caller must stay on the CPU, and
 * the processor must write no records.
 */
void perfmon_pebs_hide(void);

/* Reads an MSR. Returns -EIO if this CPU does not have it. */
int perfmon_rdmsr_safe(u32 msr, u64 *value);
/* Writes an MSR. Returns -EIO if this CPU does not have it, or it can't hold the value. */
int perfmon_wrmsr_safe(u32 msr, u64 value);

/* Returns whether two online CPUs are threads of the same core. */
bool perfmon_same_core(unsigned int a, unsigned int b);
/* Returns whether the core of an online CPU has another thread that is online, or may have one later. */
bool perfmon_may_have_sibling(unsigned int cpu);
/*
 * Returns whether two online CPUs share the registers of a package. On Intel, each
 * die of a package has its own.
 */
bool perfmon_same_package(unsigned int a, unsigned int b);

/* Reserves a counter against Linux perf. Returns whether it was free. */
bool perfmon_reserve_counter(u32 msr);
/* Reserves an event select against Linux perf. Returns whether it was free. */
bool perfmon_reserve_select(u32 msr);
/* Ends the reservation of a counter. */
void perfmon_release_counter(u32 msr);
/* Ends the reservation of an event select. */
void perfmon_release_select(u32 msr);

/*
 * Returns 0 if Linux's policy lets the caller count in kernel mode, else a
 * negative errno.
 */
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
 * of copy_from_user(). Returns -EFAULT if the address is bad.
 */
int perfmon_copy_from_user_16(void *to, unsigned long from);
/* Copies a structure of two words to a program. Returns -EFAULT if the address is bad. */
int perfmon_copy_to_user_16(unsigned long to, const void *from);

/*
 * Copies a structure of from_size bytes from a program to a structure of size bytes.
 * If the program's structure is shorter, the rest of the copy becomes 0. If the
 * program's structure is longer, and its rest is not 0, returns -E2BIG. Returns
 * -EFAULT if the address is bad.
 */
int perfmon_copy_struct(void *to, size_t size, unsigned long from,
			size_t from_size);
/* Copies a word of 32 bits from a program. Returns -EFAULT if the address is bad. */
int perfmon_get_u32(u32 *to, unsigned long from);
/* Copies a word of 32 bits to a program. Returns -EFAULT if the address is bad. */
int perfmon_put_u32(unsigned long to, u32 value);
/*
 * Copies words to a program, in a third of the instructions of copy_to_user().
 * Returns -EFAULT if the address is bad.
 */
int perfmon_put_words(unsigned long to, const u64 *words, size_t count);

/*
 * Allocates @size bytes of zeroed memory by __vmalloc(), in whole pages, which programs
 * may map. Returns NULL if there is no memory.
 */
void *perfmon_buffer_alloc(size_t size);
/* Frees memory of perfmon_buffer_alloc(). */
void perfmon_buffer_free(void *start);
/*
 * Opens a read-only file with these struct file_operations, and returns a
 * descriptor that is closed on exec, or a negative errno. The operations have to
 * exist as long as the file, and expect @data as its private data.
 */
int perfmon_open_anonymous(const void *operations, void *data);

/*
 * Makes a file for reading and writing with these struct file_operations, and
 * returns a reference to it; an error pointer if there are too many files, or no
 * memory. The operations have to exist as long as the file, and expect @data as
 * its private data.
 */
struct file *perfmon_anonymous_file(const void *operations, void *data);
/* Returns whether the file has these struct file_operations. */
bool perfmon_is_file_of(struct file *file, const void *operations);
/*
 * Marks a mapping that is being set up, and so locked for writing: children
 * don't inherit it, it can't grow, and core dumps leave it out.
 */
void perfmon_area_keep_to_program(struct vm_area_struct *area);

/*
 * Makes a wait, at which programs wait for a descriptor. An interrupt calls
 * on_last_overflow() after the last overflow. The function is NULL for a descriptor
 * without overflows. Returns NULL if there is no memory.
 */
struct perfmon_wait *perfmon_wait_new(void (*on_last_overflow)(void));
/* Waits for the interrupts of the last perfmon_wait_overflow() on each CPU. */
void perfmon_wait_sync(struct perfmon_wait *wait);
/* Frees a wait that has no pollers and no waker, after perfmon_wait_sync(). */
void perfmon_wait_free(struct perfmon_wait *wait);
/*
 * Adds a poll(2) of the file to the pollers of the wait, which has to exist until
 * the file is closed. Does not sleep.
 */
void perfmon_wait_poll(struct perfmon_wait *wait, struct file *file,
		       struct poll_table_struct *table);
/*
 * Adds the file to the files whose owners get SIGIO (O_ASYNC), or removes the file
 * from them if @on is 0.
 */
int perfmon_wait_signal(struct perfmon_wait *wait, int fd, struct file *file,
			int on);
/*
 * Wakes the pollers with @events unless these are 0, and sends SIGIO with @band,
 * POLL_IN or POLL_HUP, unless it is 0.
 */
void perfmon_wait_wake(struct perfmon_wait *wait, u32 events, int band);
/*
 * Queues an interrupt on this CPU that sends SIGIO with @band: POLL_IN, or POLL_HUP
 * after the last overflow. May be called in any context.
 */
void perfmon_wait_overflow(struct perfmon_wait *wait, int band);
/*
 * Makes a waker, which wakes the pollers of its waits with EPOLLIN. Returns NULL
 * if there is no memory.
 */
struct perfmon_waker *perfmon_waker_new(void);
/* Frees a waker without waits, which no other call uses. May sleep. */
void perfmon_waker_free(struct perfmon_waker *waker);
/*
 * Adds a wait to the waits of the waker. The wait must have no other waker, and must
 * be removed before the wait or the waker is freed.
 */
void perfmon_waker_add(struct perfmon_waker *waker, struct perfmon_wait *wait);
/* Removes a wait that perfmon_waker_add() has added. */
void perfmon_waker_remove(struct perfmon_waker *waker, struct perfmon_wait *wait);
/*
 * Queues an interrupt that wakes the pollers of all waits of the waker. May be
 * called in any context.
 */
void perfmon_waker_wake(struct perfmon_waker *waker);
/*
 * Returns the cycles of the time-stamp counter that waking and signalling took on
 * this CPU, in interrupts, since the last call. To be called with preemption off.
 */
u64 perfmon_wake_cycles(void);
/* Returns whether the waker has woken its pollers since the last call. */
bool perfmon_waker_consume_wakeup(struct perfmon_waker *waker);

/*
 * Returns the time of a clock in nanoseconds: CLOCK_MONOTONIC,
 * CLOCK_MONOTONIC_RAW, or -1 for the clock that perf and the scheduler use. May
 * be called in NMI handlers.
 */
u64 perfmon_clock(int clock);
/* Returns a reference to the caller's PID namespace; NULL for the initial one. */
struct pid_namespace *perfmon_pid_namespace_get(void);
/* Drops a reference that perfmon_pid_namespace_get() has returned. */
void perfmon_pid_namespace_put(struct pid_namespace *ns);
/*
 * Returns the IDs of a task in a PID namespace: the process ID in bits 31:0, the
 * thread ID in bits 63:32. Both are 0 if the task has no IDs in the namespace, and -1
 * if it has given up its IDs at its exit. @task may be NULL for the current task, and
 * @ns NULL for the initial namespace.
 */
u64 perfmon_task_ids(struct task_struct *task, struct pid_namespace *ns);
/*
 * Returns the process ID of the parent of @task, in both halves of the result, as
 * perfmon_task_ids() would. @task must be the caller.
 */
u64 perfmon_parent_ids(struct task_struct *task, struct pid_namespace *ns);
/* Copies the name of a task: up to 15 bytes, padded with zeros. */
void perfmon_copy_name(const char *name, char to[16]);
/* Returns whether the task, which is the caller, is in execve(2). */
bool perfmon_task_executes(const struct task_struct *task);
/*
 * Returns whether the kernel runs on the stack of @task; true if @task is NULL.
 * In the context switch, the stack may be another task's.
 */
bool perfmon_on_stack_of(const struct task_struct *task);
/*
 * Returns whether a sample of @task may show these registers. Registers of the kernel
 * may not be shown during a context switch, when they may be another task's, nor in
 * execve(2), which has yet to find out which users may look at the new program.
 */
bool perfmon_may_show_regs(struct pt_regs *regs, const struct task_struct *task);
/*
 * Hides the program that the current task has begun to execute from samples on this
 * CPU, or shows it again. For callers with interrupts off.
 */
void perfmon_hide_program(bool hide);
/*
 * Returns whether samples of the current task must show nothing of its program: the
 * task is in execve(2), or perfmon_hide_program() has hidden the program on this CPU.
 * For callers that can't leave the CPU.
 */
bool perfmon_program_is_hidden(void);
/*
 * Returns the registers of the program that was interrupted, or that has called
 * the kernel. NULL in a kernel thread, in execve(2), while the registers are
 * being saved, and if @task is neither NULL nor the current task.
 */
struct pt_regs *perfmon_user_regs(struct pt_regs *regs,
				  const struct task_struct *task);
/*
 * Returns the registers of the program that has called the kernel, or that an
 * interrupt has interrupted. For callers outside of NMIs. NULL in a kernel thread,
 * in execve(2), and if @task is neither NULL nor the current task.
 */
struct pt_regs *perfmon_saved_user_regs(const struct task_struct *task);
/*
 * Returns the address at which the program continues after the system call or
 * interrupt that has just begun, whose handler has not saved its registers yet;
 * else 0.
 */
u64 perfmon_unsaved_user_ip(const struct pt_regs *regs);
/*
 * Returns whether these registers are of 64-bit code, in a program or the
 * kernel.
 */
bool perfmon_regs_are_64(struct pt_regs *regs);
/*
 * Writes up to @room addresses of a call chain in the kernel, the innermost first,
 * and returns the number of addresses. To be called by the NMI that has interrupted
 * the kernel at @regs.
 */
u32 perfmon_kernel_chain(struct pt_regs *regs, u64 *chain, u32 room);
/*
 * Writes up to @room addresses of a call chain in the program, the innermost first,
 * and returns the number of addresses. Follows frame pointers, to the first page
 * that is not in memory.
 */
u32 perfmon_user_chain(struct pt_regs *regs, u64 *chain, u32 room);
/*
 * Returns the number of bytes from the program's stack pointer to the end of the
 * address space; 0 in a kernel thread.
 */
u64 perfmon_user_stack(struct pt_regs *regs);
/*
 * Copies @size bytes of the program's stack from address @from on. Returns the
 * number of bytes that were copied: fewer if a page is not in memory. May be called
 * in NMI handlers.
 */
u32 perfmon_copy_stack(u64 *to, u64 from, u32 size);

/* Calls handler() at each NMI, with the area of its CPU. */
int perfmon_nmi_register(int (*handler)(void *area, struct pt_regs *regs));
/* Ends the calls of handler(). No CPU is in it when this returns. */
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
 * Sets up a timer for each CPU. It calls tick() on its CPU, with interrupts off.
 * tick() returns the nanoseconds until the next call, or 0 to stop the timer.
 */
void perfmon_timers_init(u64 (*tick)(void));
/* Returns the period of the kernel's own tick in nanoseconds. */
u64 perfmon_tick_ns(void);
/*
 * Starts or restarts the timer of this CPU: it ticks after @ns nanoseconds.
 */
void perfmon_timer_start(u64 ns);
/* Stops the timer of this CPU, whose tick() is not under way when this returns. */
void perfmon_timer_stop(void);

/* Calls down() before the system sleeps or reboots, up() after a sleep. */
int perfmon_power_register(void (*down)(void), void (*up)(void));
/* Ends the calls of down() and up(). */
void perfmon_power_unregister(void);

/*
 * Takes a reference to the caller's address space, which
 * perfmon_clean_dirty_counters() uses. To be called by the program that loads the
 * module.
 */
void perfmon_dirty_init(void);
/* Drops the reference that perfmon_dirty_init() has taken. */
void perfmon_dirty_exit(void);
/*
 * Makes perf zero its dirty counters on the CPUs that are online. May sleep.
 * Returns -EBUSY if a real-time program keeps a CPU busy, and the number of that
 * CPU in *busy; -ENOMEM if there is no memory.
 */
int perfmon_clean_dirty_counters(unsigned int *busy);
/*
 * Makes perf zero its dirty counters on this CPU. To be called by a kernel thread
 * that is bound to this CPU.
 */
void perfmon_clean_dirty_counters_here(void);

/*
 * Makes the place-holder of a CPU that is online, with this general counter,
 * unless the CPU already has a place-holder. @constrain keeps perf from moving the
 * place-holder to another counter. Set it only for version 6 of Intel's PMU: for
 * earlier versions perf has no memory for such constraints. May sleep. Returns
 * -EBUSY if another pinned event has the CPU; -ENXIO if perf gives the place-holder
 * another counter; -EOPNOTSUPP if virtual machines have the counters; -ENOMEM if
 * there is no memory. One caller at a time.
 */
int perfmon_place_holder_make(unsigned int cpu, unsigned int counter, bool constrain);
/*
 * Ends the place-holder of a CPU, if it has one. May sleep. One caller at a
 * time.
 */
void perfmon_place_holder_end(unsigned int cpu);
/*
 * Returns whether this CPU has a place-holder that is active, with this counter. If
 * so, the place-holder has been active since it was made, because perf never
 * activates a displaced place-holder again. For a caller with interrupts off.
 */
bool perfmon_place_holder_is_active(unsigned int counter);
/* Makes a kernel thread call f(), and does not wait for it. Does not sleep. */
void perfmon_place_holder_end_soon(void (*f)(void));
/* Waits for the f() of the last perfmon_place_holder_end_soon(). */
void perfmon_place_holder_end_wait(void);

/*
 * Returns the type of the PMU that Linux's perf has for a CPU, which must be online;
 * or a negative errno. May sleep.
 */
int perfmon_perf_type(unsigned int cpu);

/* Sets up the work on CPUs that perfmon_rdpmc_begin() does. */
void perfmon_rdpmc_init(void);
/* Undoes perfmon_rdpmc_init(). */
void perfmon_rdpmc_exit(void);
/*
 * Lets the caller's program use RDPMC, for one more mapping. Returns false if the
 * program can't use it. @mm must be the caller's, locked for writing. May sleep.
 */
bool perfmon_rdpmc_begin(struct mm_struct *mm);
/* Counts one more mapping of a program that may use RDPMC already. */
void perfmon_rdpmc_begin_again(struct mm_struct *mm);
/* Undoes one perfmon_rdpmc_begin() or perfmon_rdpmc_begin_again(). May sleep. */
void perfmon_rdpmc_end(struct mm_struct *mm);
/*
 * Takes the right to use RDPMC from a new task that has an mm of its own: the
 * kernel has copied the number of mappings to that mm, but not the mappings.
 */
void perfmon_rdpmc_clear(struct task_struct *child);
/*
 * Returns whether the task may use RDPMC, or may get the right at this moment. In any
 * context.
 */
bool perfmon_rdpmc_may_have(const struct task_struct *task);
/*
 * Returns whether any program may use RDPMC. To be called while the module has no
 * mappings: then perf has left the right to children of programs that had mapped
 * the page of an event. Looks at all tasks.
 */
bool perfmon_rdpmc_left_by_perf(void);
/*
 * Returns whether a fork may be under way that has copied the right to use RDPMC
 * from a program that has lost it since. Looks at all tasks.
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
 * whose limit is user_kb for each online CPU, then to the address space, whose limit
 * is RLIMIT_MEMLOCK unless the caller has CAP_IPC_LOCK. Returns -EPERM if both
 * limits together are too low, as from perf.
 */
int perfmon_charge(struct perfmon_charge *charge, u32 pages, u32 user_kb);
/* Ends a charge. May be called by any task, also after the charged task's exit. */
void perfmon_uncharge(const struct perfmon_charge *charge);

/*
 * Turns interrupts off, takes the lock of the table of tasks, and returns the
 * flags for perfmon_tasks_unlock().
 */
unsigned long perfmon_tasks_lock(void);
/* Releases the lock, and restores interrupts from what perfmon_tasks_lock() returned. */
void perfmon_tasks_unlock(unsigned long flags);
/*
 * Returns a reference to the thread with this ID in the caller's PID namespace; 0
 * is the caller. Returns NULL if there is no such thread.
 */
struct task_struct *perfmon_task_get(int pid);
/* Returns the CPU that a task runs on, or ran on last. */
unsigned int perfmon_task_cpu(struct task_struct *task);
/* Returns whether the task exits. */
bool perfmon_task_is_exiting(struct task_struct *task);
/* Returns whether the task is a thread of the kernel's own. */
bool perfmon_task_is_kernel(struct task_struct *task);
/* Returns whether the task and the caller are threads of one process. */
bool perfmon_task_is_in_own_process(struct task_struct *task);
/* Returns whether the task has this address space, in any context. */
bool perfmon_task_has_mm(const struct task_struct *task, const struct mm_struct *mm);
/*
 * Returns whether the program that the caller executes (@bprm) is one that other
 * programs of the same user may not look at: it is setuid, has capabilities, or is
 * not readable by the user.
 */
bool perfmon_must_not_count_exec(const struct linux_binprm *bprm);
/* Returns a reference to the caller's process. */
struct pid *perfmon_own_process(void);
/* Returns another reference to @process. */
struct pid *perfmon_process_get(struct pid *process);
/* Releases the reference to @process. */
void perfmon_process_put(struct pid *process);
/*
 * Returns the ID of a process in the caller's PID namespace; 0 if the process has no
 * ID there, or has exited.
 */
int perfmon_process_number(struct pid *process);
/* Copies the caller's name, up to 15 bytes and a 0. */
void perfmon_own_name(char name[16]);

/*
 * Makes a kernel thread call f(), and waits for its return. May sleep. For work that
 * other tasks wait for: a kernel thread gets to run even where other programs of
 * the CPU keep the caller from running.
 */
void perfmon_call(void (*f)(void *data), void *data);
/*
 * Makes a kernel thread call f() in one second. Another call of this within that
 * second has no effect, so f() is not put off for ever.
 */
void perfmon_call_later(void (*f)(void));
/* Cancels perfmon_call_later(). f() is not under way when this returns. */
void perfmon_call_later_cancel(void);
/* Makes a kernel thread call f(), and does not wait for it. Does not sleep. */
void perfmon_call_soon(void (*f)(void));
/* Cancels perfmon_call_soon(). f() is not under way when this returns. */
void perfmon_call_soon_cancel(void);
/*
 * Waits until unregistered probes of tracepoints have returned, and until the
 * functions that were given to call_rcu() have been called.
 */
void perfmon_tracepoints_sync(void);

/* A mapping of a program, as perf's records describe it, without the name. */
struct perfmon_mapping {
	u64 start, size, offset;
	u32 major, minor;
	u64 inode, generation;
	u32 protection, flags;
};

/*
 * Returns a reference to the cgroup whose directory is open as fd, of version 2 or of
 * perf's hierarchy of version 1, or a negative errno as a pointer: EBADF, ENOENT;
 * EOPNOTSUPP if the kernel has no cgroups.
 */
struct cgroup *perfmon_cgroup_get(int fd);
/* Returns whether a cgroup is in a hierarchy of version 1. */
bool perfmon_cgroup_is_of_version_1(const struct cgroup *cgroup);
/* Drops a reference to a cgroup. Does not sleep. */
void perfmon_cgroup_put(struct cgroup *cgroup);
/* Returns the number of a cgroup, which is the inode number of its directory. */
u64 perfmon_cgroup_id(const struct cgroup *cgroup);
/*
 * Returns the cgroup ID that perf would record for a task: the ID of its closest cgroup
 * with the perf_event controller, or of its cgroup of version 2 if the kernel has no such
 * controller; 0 if the kernel has no cgroups. NULL is the current task. May be called in
 * NMI handlers.
 */
u64 perfmon_cgroup_id_of(struct task_struct *task);
/* Returns whether a cgroup is in the hierarchy of perf's controller. */
bool perfmon_cgroup_is_of_perf(const struct cgroup *cgroup);
/*
 * Writes the path of a cgroup from the root of its hierarchy, padded with zeros to a
 * multiple of 8 bytes, and returns the number of bytes. A longer path is truncated, as
 * by perf.
 */
size_t perfmon_cgroup_path(struct cgroup *cgroup, char path[4096]);
/* Returns the number of cgroups that a cgroup is in; 0 for the root. */
int perfmon_cgroup_level(const struct cgroup *cgroup);
/*
 * The cgroups of a task in one hierarchy: by_level[0] is the root, by_level[level] is
 * the cgroup that the task is in, and the cgroups between are its ancestors.
 */
struct perfmon_task_cgroups {
	u64 level;
	struct cgroup *const *by_level;
};

/*
 * Returns the cgroups of version 2 of a task. Their array is NULL if the kernel has no
 * cgroups. For callers with interrupts off; valid as long as they are off.
 */
struct perfmon_task_cgroups perfmon_cgroups_of(struct task_struct *task);
/*
 * Returns the cgroups of a task in perf's hierarchy of version 1. Their array is NULL if the
 * kernel has no such hierarchy. For callers with interrupts off; valid as long as they are off.
 */
struct perfmon_task_cgroups perfmon_cgroups_of_version_1(struct task_struct *task);
/*
 * Calls f() on the CPU that the task is on, or on the CPUs of all threads of its
 * process, with interrupts off. Does not wait for the calls. For callers with
 * interrupts off.
 */
void perfmon_cgroup_call_cpus(struct task_struct *task, bool all_threads, void (*f)(void));

/*
 * Returns 0 if this kernel has the functions that perfmon_mappings_begin() probes,
 * else a negative errno.
 */
int perfmon_mappings_check(void);
/*
 * Makes the kernel call on_map() after each mapping or change of a mapping, in the
 * task that makes it, and on_exec() in a task that executes a program, when its new
 * credentials are known and nothing of the program is mapped yet. Both are called
 * with interrupts off. May sleep. Returns -EOPNOTSUPP, -ENOENT or -EINVAL if this
 * kernel has no kprobes, or can't probe the functions; -ENOMEM if there is no
 * memory.
 */
int perfmon_mappings_begin(void (*on_map)(struct vm_area_struct *area),
			   void (*on_exec)(struct linux_binprm *program));
/*
 * Undoes perfmon_mappings_begin(). Neither of its functions is under way when this
 * returns. May sleep.
 */
void perfmon_mappings_end(void);
/* Returns whether the program may execute what is mapped in the area. */
bool perfmon_mapping_is_executable(const struct vm_area_struct *area);
/*
 * Describes the area that the caller has just mapped. Writes its name, padded with
 * zeros to a multiple of 8 bytes, and returns the number of bytes.
 */
size_t perfmon_mapping_describe(struct vm_area_struct *area, struct perfmon_mapping *to,
				char name[4096]);

/*
 * Waits until all code that runs with interrupts off now has turned them on.
 * May sleep.
 */
void perfmon_rcu_wait(void);

/*
 * Mounts a proc filesystem for perfmon_may_attach(). Returns 0 or a negative
 * errno.
 */
int perfmon_proc_mount(void);
/* Unmounts the proc filesystem. */
void perfmon_proc_unmount(void);
/*
 * Returns 0 if the caller may look at a task, as ptrace_may_access() and the
 * security modules decide, else a negative errno. May sleep.
 */
int perfmon_may_attach(struct task_struct *task);

#endif /* _PERFMON_SHIM_H */
