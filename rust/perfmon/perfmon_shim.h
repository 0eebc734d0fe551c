/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the module needs of the kernel and Rust has no binding for: macros,
 * inline functions, per-CPU variables, functions that kernel::bindings leaves
 * out. ffi.rs declares the same functions, in the same order.
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
 * The per-CPU memory: allocated here, since Rust has no per-CPU pointers. What
 * is in it is Rust's (struct Slot in cpu.rs); all bytes are zero at first.
 */
int perfmon_slots_alloc(size_t size, size_t align);
void perfmon_slots_free(void);
void *perfmon_slot(unsigned int cpu);
void *perfmon_pin(void);
void perfmon_unpin(void);
void *perfmon_interrupts_off(void);
void perfmon_interrupts_on(void);
void *perfmon_this_slot(void);

int perfmon_rdmsr_safe(u32 msr, u64 *value);

bool perfmon_reserve_counter(u32 msr);
bool perfmon_reserve_select(u32 msr);
void perfmon_release_counter(u32 msr);
void perfmon_release_select(u32 msr);

int perfmon_allow_kernel(void);
const struct cred *perfmon_current_cred(void);
bool perfmon_is_capable(const struct cred *cred);

int perfmon_get_16(void *to, unsigned long from);
int perfmon_put_16(unsigned long to, const void *from);

void *perfmon_buffer_alloc(size_t size);
void perfmon_buffer_free(void *start);
int perfmon_open_anonymous(const void *operations, void *data);

int perfmon_nmi_register(int (*handler)(void *slot, struct pt_regs *regs));
void perfmon_nmi_unregister(void);
u32 perfmon_lvtpc_read(void);
void perfmon_lvtpc_write(u32 value);

void perfmon_timers_init(bool (*tick)(void));
u64 perfmon_tick_ns(void);
void perfmon_timer_start(void);
void perfmon_timer_stop(void);

int perfmon_power_register(void (*down)(void), void (*up)(void));
void perfmon_power_unregister(void);

/* dirty.c */
void perfmon_dirty_init(void);
void perfmon_dirty_exit(void);
void perfmon_dirty_clean(const struct cpumask *cpus);
void perfmon_dirty_clean_here(void);

/* memory.c */

/* Who pays for memory, and how many pages each. */
struct perfmon_charge {
	struct user_struct *user;
	struct mm_struct *mm;
	unsigned long user_pages;
	unsigned long mm_pages;
};

int perfmon_charge(struct perfmon_charge *charge, u32 pages, u32 user_kb);
void perfmon_uncharge(const struct perfmon_charge *charge);

#endif /* _PERFMON_SHIM_H */
