/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel facilities without a Rust binding: macros, inline functions, per-CPU
 * variables, and functions that kernel::bindings leaves out. ffi.rs is made of
 * this file, with its comments.
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

/* Reads an MSR that may be missing: -EIO then. */
int perfmon_rdmsr_safe(u32 msr, u64 *value);

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
int perfmon_get_16(void *to, unsigned long from);
/* Copies a structure of two words to a program. -EFAULT if the address is bad. */
int perfmon_put_16(unsigned long to, const void *from);

/* Allocates zeroed memory for a trace buffer. NULL if there is none. */
void *perfmon_buffer_alloc(size_t size);
/* Frees the memory of a trace buffer. */
void perfmon_buffer_free(void *start);
/*
 * Opens a read-only file of these struct file_operations, and returns a
 * descriptor that is closed on exec, or an error.
 */
int perfmon_open_anonymous(const void *operations, void *data);

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
 * Sets up a timer for each CPU, which calls tick() there once in
 * perfmon_tick_ns(), with interrupts off, until it returns false.
 */
void perfmon_timers_init(bool (*tick)(void));
/* Returns the period of the timers, the kernel's own tick. */
u64 perfmon_tick_ns(void);
/* Starts the timer of this CPU. */
void perfmon_timer_start(void);
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
 * Makes perf zero its dirty counters on these CPUs, which stay online. One caller
 * at a time; it sleeps.
 */
void perfmon_dirty_clean(const struct cpumask *cpus);
/*
 * Makes perf zero its dirty counters on this CPU. The caller is a kernel thread
 * that is bound to it.
 */
void perfmon_dirty_clean_here(void);

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

#endif /* _PERFMON_SHIM_H */
