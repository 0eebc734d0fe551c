/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A BPF program that calls bpf_get_branch_snapshot(), which reads the last branch records,
 * also those of another driver.
 */
#ifndef SELFTESTS_BRANCH_SNAPSHOT_H
#define SELFTESTS_BRANCH_SNAPSHOT_H

/* Exists if the kernel has bpf(2). */
#define BPF_SYSCTL	"/proc/sys/kernel/unprivileged_bpf_disabled"

/* Loads the program. Returns a descriptor, or a negative errno. */
int branch_snapshot_load(void);

/*
 * Runs the program once, on this CPU. Returns the bytes of branch entries that it has read,
 * or a negative errno.
 */
int branch_snapshot_take(int program);

#endif
