/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_PEBS_H
#define _PERFMON_PEBS_H

/*
 * Frees what perfmon_pebs_alloc() has allocated. No CPU uses the buffer any
 * more.
 */
void perfmon_pebs_free(void);

#endif
