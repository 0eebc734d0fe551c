/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A child that is ready before its parent starts to count.
 */
#ifndef SELFTESTS_CHILD_H
#define SELFTESTS_CHILD_H

#include <sys/types.h>

/*
 * fork(2) that returns in the child when the parent has written a byte to @go,
 * which the parent closes. A negative errno if that fails.
 */
pid_t fork_waiting(int *go);

#endif
