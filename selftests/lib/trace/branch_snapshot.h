/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A BPF program that calls bpf_get_branch_snapshot(), which reads the last branch
 * records beside their owner.
 */
#ifndef SELFTESTS_BRANCH_SNAPSHOT_H
#define SELFTESTS_BRANCH_SNAPSHOT_H

/* A file of kernels that have bpf(2) */
#define BPF_SYSCTL	"/proc/sys/kernel/unprivileged_bpf_disabled"

/* Loads the program: a descriptor, or a negative errno. */
int branch_snapshot_load(void);

/*
 * Runs it once, on this CPU: the bytes of branches that it has read, or a negative
 * errno.
 */
int branch_snapshot_take(int program);

#endif
