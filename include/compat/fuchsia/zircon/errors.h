/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * The status codes that Fuchsia's driver returns. Their values are Linux's, and
 * there are more of Linux's: a program that asks for one of these gets it.
 */
#ifndef _COMPAT_ZIRCON_ERRORS_H
#define _COMPAT_ZIRCON_ERRORS_H

#include <errno.h>

#define ZX_OK			0
#define ZX_ERR_NO_MEMORY	(-ENOMEM)
#define ZX_ERR_INVALID_ARGS	(-EINVAL)
#define ZX_ERR_BAD_STATE	(-EBADFD)

#endif
