/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Fuchsia's names of the compiler's attributes. */
#ifndef _COMPAT_ZIRCON_COMPILER_H
#define _COMPAT_ZIRCON_COMPILER_H

#include <sys/cdefs.h>

#define __PACKED	__attribute__((__packed__))
#define __ALIGNED(n)	__attribute__((__aligned__(n)))
#define __UNUSED	__attribute__((__unused__))
#define __UNREACHABLE	__builtin_unreachable()

#define __BEGIN_CDECLS	__BEGIN_DECLS
#define __END_CDECLS	__END_DECLS

#endif
