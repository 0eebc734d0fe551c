/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the kernel's <linux/types.h> that perfmon_shim.h needs, for
 * bindgen. It needs no kernel source, and uses names that bindgen turns into
 * Rust's own types.
 */
#ifndef _LINUX_TYPES_H
#define _LINUX_TYPES_H

typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

#define u32 uint32_t
#define u64 uint64_t
#define bool _Bool

#endif /* _LINUX_TYPES_H */
