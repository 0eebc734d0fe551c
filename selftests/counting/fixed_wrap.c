// SPDX-License-Identifier: GPL-2.0-only
/* The tests of wrap.c with a fixed counter. */
#include <linux/perfmon.h>

#define COUNTER	PMC_FIXED(0)
#include "wrap.c"
