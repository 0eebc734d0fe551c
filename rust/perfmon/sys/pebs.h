/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_PEBS_H
#define _PERFMON_PEBS_H

/* Ends perfmon_pebs_alloc(), when no CPU uses its buffer any more. */
void perfmon_pebs_free(void);

#endif
