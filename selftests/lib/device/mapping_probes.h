/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kprobes that report mappings to the module.
 */
#ifndef SELFTESTS_MAPPING_PROBES_H
#define SELFTESTS_MAPPING_PROBES_H

/* Returns the number of these kprobes in the kernel, or a negative errno. */
int mapping_probes(void);

/*
 * Waits until the kernel has no such kprobe. Returns 0 or a negative errno: -ETIMEDOUT after a
 * minute.
 */
int mapping_probes_wait_until_gone(void);

#endif
