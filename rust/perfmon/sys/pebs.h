/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PERFMON_PEBS_H
#define _PERFMON_PEBS_H

/* Frees the PEBS buffers of all CPUs, to which no CPU may write records any more. */
void perfmon_pebs_free(void);

#endif
