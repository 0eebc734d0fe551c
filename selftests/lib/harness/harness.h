/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's harness, with a timeout that is long enough for a busy host.
 */
#ifndef SELFTESTS_HARNESS_H
#define SELFTESTS_HARNESS_H

#include "kselftest_harness.h"

/*
 * The default of 30 seconds is too short for some tests on the debug kernel, and for any test on a
 * host that gives the machine a tenth of a CPU. `run --timeout` ends a machine that hangs.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	600

#endif
