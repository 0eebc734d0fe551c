/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a test runs, and with which random numbers: from the environment, as
 * the arguments are kselftest's. Programs that have their own use options.h.
 */
#ifndef SELFTESTS_ENVIRONMENT_H
#define SELFTESTS_ENVIRONMENT_H

#include <linux/types.h>

/* The number in variable @name, or @otherwise: ROUNDS, SECONDS, or SEED. */
__u64 environment(const char *name, __u64 otherwise);

#endif
