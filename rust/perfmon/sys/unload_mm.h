/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_UNLOAD_MM_H
#define _PERFMON_UNLOAD_MM_H

#include <linux/mmu_context.h>
#include <linux/preempt.h>

/*
 * Unloads the mm of a program. A kernel thread without an mm may still have the
 * mm of the task before it.
 */
static inline void unload_mm(void)
{
	preempt_disable();
	leave_mm();
	preempt_enable();
}

#endif /* _PERFMON_UNLOAD_MM_H */
