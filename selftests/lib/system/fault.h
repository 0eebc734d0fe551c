/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Makes chosen allocations, and copies from and to user space, fail:
 * Documentation/fault-injection/fault-injection.rst in the kernel's tree.
 */
#ifndef SELFTESTS_FAULT_H
#define SELFTESTS_FAULT_H

#include <stdbool.h>

/*
 * Lets faults hit all allocations, including allocations that may wait, without a message in the
 * log. Returns 0, or -ENOENT if this kernel has no fault injection.
 */
int fault_enable(void);

/**
 * fault_arm() - make the @n-th allocation or copy of this thread fail
 * @n: from 1 on
 *
 * Return: 0 or a negative errno.
 */
int fault_arm(unsigned int n);

/*
 * Disarms the fault. Returns 1 if the fault has made an allocation or copy fail, 0 if not, or
 * -errno.
 */
int fault_disarm(void);

/*
 * Arm and disarm a fault in the kernel's unbound workers, which also execute work of modules: the
 * @n-th allocation of each worker fails.
 */
int fault_arm_workers(unsigned int n);
int fault_disarm_workers(void);

#endif
