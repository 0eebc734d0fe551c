/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * The status codes that Fuchsia's driver returns, with the values of Linux's error
 * numbers. This driver returns more of Linux's error numbers, which have no name of
 * Fuchsia's.
 */
#ifndef _COMPAT_ZIRCON_ERRORS_H
#define _COMPAT_ZIRCON_ERRORS_H

#include <errno.h>

#define ZX_OK			0
#define ZX_ERR_NO_MEMORY	(-ENOMEM)
#define ZX_ERR_INVALID_ARGS	(-EINVAL)
#define ZX_ERR_BAD_STATE	(-EBADFD)

#endif
