/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel facilities without a Rust binding: macros, inline functions, per-CPU
 * variables, and functions that kernel::bindings leaves out. ffi.rs declares the
 * same functions in the same order.
 */
#ifndef _PERFMON_SHIM_H
#define _PERFMON_SHIM_H

#include <linux/types.h>

struct cpumask;
struct cred;
struct mm_struct;
struct pt_regs;
struct user_struct;

/*
 * Per-CPU memory, one area for each possible CPU. Its type is struct PerCpu in
 * percpu/mod.rs; all bytes are zero at first.
 */
int perfmon_percpu_alloc(size_t size, size_t align);
void perfmon_percpu_free(void);
void *perfmon_percpu_of(unsigned int cpu);
void *perfmon_percpu_here(void);

/* Keeps the task on its CPU until perfmon_unpin(); returns the CPU's area. */
void *perfmon_pin(void);
void perfmon_unpin(void);
/* The same with interrupts off: only NMIs come between. */
void *perfmon_irqs_off(void);
void perfmon_irqs_on(void);

/* Reads an MSR that may be missing: -EIO then. */
int perfmon_rdmsr_safe(u32 msr, u64 *value);

/* Reserve a register against Linux perf: true if it was free. */
bool perfmon_reserve_counter(u32 msr);
bool perfmon_reserve_select(u32 msr);
void perfmon_release_counter(u32 msr);
void perfmon_release_select(u32 msr);

/* Linux's policy: 0 if the caller may count in kernel mode. */
int perfmon_allow_kernel(void);
const struct cred *perfmon_current_cred(void);
/*
 * CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace; security modules
 * are not asked.
 */
bool perfmon_is_capable(const struct cred *cred);

/*
 * Copy a structure of two words from and to a program, in a third of the
 * instructions of copy_from_user(): -EFAULT if the address is bad.
 */
int perfmon_get_16(void *to, unsigned long from);
int perfmon_put_16(unsigned long to, const void *from);

/* Zeroed memory for a trace buffer, or NULL. */
void *perfmon_buffer_alloc(size_t size);
void perfmon_buffer_free(void *start);
/* Opens a read-only descriptor that is closed on exec, or returns an error. */
int perfmon_open_anonymous(const void *operations, void *data);

/* Calls handler() at each NMI, with the area of its CPU. */
int perfmon_nmi_register(int (*handler)(void *area, struct pt_regs *regs));
/* No CPU is in the handler when this returns. */
void perfmon_nmi_unregister(void);

/* The local APIC's entry for performance-monitoring interrupts, on this CPU. */
u32 perfmon_lvtpc_read(void);
void perfmon_lvtpc_write(u32 value);

/*
 * A timer for each CPU, which calls tick() there once in TICK_NSEC, with
 * interrupts off, until it returns false. Started and stopped on the CPU itself;
 * a stopped timer does not tick any more when perfmon_timer_stop() returns.
 */
void perfmon_timers_init(bool (*tick)(void));
u64 perfmon_tick_ns(void);
void perfmon_timer_start(void);
void perfmon_timer_stop(void);

/* Calls down() before the system sleeps or reboots, up() after a sleep. */
int perfmon_power_register(void (*down)(void), void (*up)(void));
void perfmon_power_unregister(void);

/* dirty.c */

/* To be called by the program that loads the module. */
void perfmon_dirty_init(void);
void perfmon_dirty_exit(void);
/*
 * Makes perf zero its dirty counters on these CPUs, which stay online. One caller
 * at a time; it sleeps.
 */
void perfmon_dirty_clean(const struct cpumask *cpus);
/* The same on this CPU, called by a kernel thread that is bound to it. */
void perfmon_dirty_clean_here(void);

/* memory.c */

/* The accounts that memory is charged to, and the pages of each. */
struct perfmon_charge {
	struct user_struct *user;
	struct mm_struct *mm;
	unsigned long user_pages;
	unsigned long mm_pages;
};

/*
 * Charges the caller as perf does for its buffers: first the user, who has
 * @user_kb for each online CPU, then the address space, which has RLIMIT_MEMLOCK
 * unless the caller has CAP_IPC_LOCK. -EPERM if that does not suffice, as perf.
 */
int perfmon_charge(struct perfmon_charge *charge, u32 pages, u32 user_kb);
/* Ends a charge, in any task, also if the one that was charged is gone. */
void perfmon_uncharge(const struct perfmon_charge *charge);

#endif /* _PERFMON_SHIM_H */
