/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A child that is ready before its parent starts to count.
 */
#ifndef SELFTESTS_CHILD_H
#define SELFTESTS_CHILD_H

#include <sys/types.h>

/*
 * Forks a child that waits until the parent writes a byte to @start_pipe. The parent closes
 * @start_pipe. Returns as fork(2), or a negative errno.
 */
pid_t fork_waiting(int *start_pipe);

#endif
