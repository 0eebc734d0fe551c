/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Where a program written for FreeBSD looks for the interface. */
#ifndef _COMPAT_MACHINE_PERFMON_H
#define _COMPAT_MACHINE_PERFMON_H

#include <linux/perfmon.h>

#endif
