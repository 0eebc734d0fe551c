/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* FreeBSD's <sys/ioccom.h>, which programs include for ioctl(2). */
#ifndef _COMPAT_SYS_IOCCOM_H
#define _COMPAT_SYS_IOCCOM_H

#include <sys/ioctl.h>

#endif
