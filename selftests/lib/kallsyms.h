/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of the kernel.
 */
#ifndef SELFTESTS_KALLSYMS_H
#define SELFTESTS_KALLSYMS_H

#include <stdbool.h>

#include <linux/types.h>

struct kernel_function {
	__u64 start, end;
};

/* From its name: 0 or -ENOENT. */
int kernel_function(const char *name, struct kernel_function *f);

/* All functions from one symbol on to another: 0 or -ENOENT. */
int kernel_text(const char *first, const char *end, struct kernel_function *f);

/* All functions of a module: 0 or -ENOENT. */
int kernel_module(const char *name, struct kernel_function *f);

static inline bool kernel_function_has(const struct kernel_function *f, __u64 address)
{
	return address >= f->start && address < f->end;
}

#endif
