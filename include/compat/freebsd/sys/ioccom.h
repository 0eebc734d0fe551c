/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Where a program written for FreeBSD looks for ioctl(2). */
#ifndef _COMPAT_SYS_IOCCOM_H
#define _COMPAT_SYS_IOCCOM_H

#include <sys/ioctl.h>

#endif
