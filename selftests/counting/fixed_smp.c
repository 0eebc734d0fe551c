// SPDX-License-Identifier: GPL-2.0-only
/* The tests of smp.c with a fixed counter. */
#include <linux/perfmon.h>

#define COUNTER	PMC_FIXED(0)
#include "smp.c"
