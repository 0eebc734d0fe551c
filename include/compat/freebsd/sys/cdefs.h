/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * The C library's <sys/cdefs.h>, which all of its headers include, and the
 * attributes of FreeBSD's <sys/cdefs.h>. The attribute __unused is left out,
 * because Linux's headers have members of that name.
 */
#ifndef _COMPAT_SYS_CDEFS_H
#define _COMPAT_SYS_CDEFS_H

#include_next <sys/cdefs.h>

#define __dead2			__attribute__((__noreturn__))
#define __pure2			__attribute__((__const__))
#define __printflike(f, a)	__attribute__((__format__(__printf__, f, a)))

#endif
