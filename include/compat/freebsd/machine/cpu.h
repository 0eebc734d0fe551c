/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/* Programs for FreeBSD's perfmon(4) include this; nothing of it is needed. */
