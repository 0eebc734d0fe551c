/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Fuchsia's types that the interface uses. */
#ifndef _COMPAT_ZIRCON_TYPES_H
#define _COMPAT_ZIRCON_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <zircon/compiler.h>
#include <zircon/errors.h>

/* A buffer's handle is a file descriptor, to be mapped by mmap(2). */
typedef int zx_handle_t;
#define ZX_HANDLE_INVALID	(-1)

typedef int32_t zx_status_t;
typedef int64_t zx_ticks_t;
typedef int64_t zx_time_t;

#endif
