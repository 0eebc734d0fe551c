/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_UNLOAD_MM_H
#define _PERFMON_UNLOAD_MM_H

#include <linux/mmu_context.h>
#include <linux/preempt.h>

/*
 * Unloads the mm of the task that ran on this CPU before the caller. The caller must
 * be a kernel thread without an mm: the CPU keeps the mm of the previous task loaded
 * for such a thread.
 */
static inline void unload_mm(void)
{
	preempt_disable();
	leave_mm();
	preempt_enable();
}

#endif /* _PERFMON_UNLOAD_MM_H */
