/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Empty: programs for FreeBSD's perfmon(4) include it, and use nothing of it. */
