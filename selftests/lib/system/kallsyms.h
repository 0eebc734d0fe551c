/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Addresses of kernel functions.
 */
#ifndef SELFTESTS_KALLSYMS_H
#define SELFTESTS_KALLSYMS_H

#include <stdbool.h>

#include <linux/types.h>

struct kernel_function {
	__u64 start, end;
};

/* Finds a function by its name. Returns 0 or -ENOENT. */
int find_kernel_function(const char *name, struct kernel_function *f);

/* Finds the range from symbol @first to symbol @end. Returns 0 or -ENOENT. */
int find_kernel_text(const char *first, const char *end, struct kernel_function *f);

/* Finds the text of a module. Returns 0 or -ENOENT. */
int find_kernel_module(const char *name, struct kernel_function *f);

static inline bool kernel_function_has(const struct kernel_function *f, __u64 address)
{
	return address >= f->start && address < f->end;
}

#endif
