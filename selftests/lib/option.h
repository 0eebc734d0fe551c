/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a test runs, and with which random numbers: from the environment, so
 * that the same program has a short form and a long one.
 */
#ifndef SELFTESTS_OPTION_H
#define SELFTESTS_OPTION_H

#include <linux/types.h>

/*
 * The number that environment variable @name holds, or @otherwise. The tests
 * know ROUNDS, SECONDS and SEED.
 */
__u64 option(const char *name, __u64 otherwise);

#endif
