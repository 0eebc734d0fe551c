// SPDX-License-Identifier: GPL-2.0-only
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <asm/msr.h>
#include <asm/nmi.h>

#include "perfmon_shim.h"

static void __percpu *slots;

int perfmon_slots_alloc(size_t size, size_t align)
{
	slots = __alloc_percpu(size, align);
	return slots ? 0 : -ENOMEM;
}

void perfmon_slots_free(void)
{
	free_percpu(slots);
}

/* The slot of a possible CPU. */
void *perfmon_slot(unsigned int cpu)
{
	return per_cpu_ptr(slots, cpu);
}

/* Keeps the caller on its CPU until perfmon_unpin(), and gives its slot. */
void *perfmon_pin(void)
{
	preempt_disable();
	return this_cpu_ptr(slots);
}

void perfmon_unpin(void)
{
	preempt_enable();
}

/* The slot of the CPU that the caller can't leave. */
void *perfmon_this_slot(void)
{
	return raw_cpu_ptr(slots);
}

/* Reads an MSR that may be missing: -EIO then. */
int perfmon_rdmsr_safe(u32 msr, u64 *value)
{
	return rdmsrq_safe(msr, value);
}

/* True if the register was free and is now ours. */
bool perfmon_reserve_counter(u32 msr)
{
	return reserve_perfctr_nmi(msr);
}

bool perfmon_reserve_select(u32 msr)
{
	return reserve_evntsel_nmi(msr);
}

void perfmon_release_counter(u32 msr)
{
	release_perfctr_nmi(msr);
}

void perfmon_release_select(u32 msr)
{
	release_evntsel_nmi(msr);
}

/* Linux's policy: may the caller count all that runs on a CPU? */
int perfmon_allow_cpu(void)
{
	return perf_allow_cpu();
}

/* May it count what the kernel does? */
int perfmon_allow_kernel(void)
{
	return perf_allow_kernel();
}
