/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocations, and copies from and to user space, that fail when a test wants
 * them to: Documentation/fault-injection/fault-injection.rst.
 */
#ifndef SELFTESTS_FAULT_H
#define SELFTESTS_FAULT_H

#include <stdbool.h>

/*
 * Has the kernel consider all allocations, also those that may wait, and not
 * write about it. Returns 0, or -ENOENT if this kernel has no such faults.
 */
int fault_enable(void);

/**
 * fault_arm() - have the @n-th allocation or copy fail that this thread asks for
 * @n: from 1 on
 *
 * Return: 0 or a negative errno.
 */
int fault_arm(unsigned int n);

/* Stops making faults. Returns 1 if there was one, else 0, or a negative errno. */
int fault_disarm(void);

#endif
