/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_PEBS_H
#define _PERFMON_PEBS_H

/* Frees the PEBS buffers of all CPUs. PEBS must be disabled on all of them. */
void perfmon_pebs_free(void);

#endif
