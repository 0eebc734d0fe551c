/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a test that checks for leaks.
 */
#ifndef SELFTESTS_LEAK_FIXTURE_H
#define SELFTESTS_LEAK_FIXTURE_H

#include "fixture.h"
#include "leak_check.h"

/* Expects exact counts, the registers as before, and no memory lost. */
static inline void expect_no_leaks(struct __test_metadata *_metadata,
				   const struct leak_check *leaks)
{
	EXPECT_STREQ("", leak_check_counts());
	EXPECT_STREQ("", leak_check_registers(leaks));
	EXPECT_STREQ("", leak_check_memory(leaks));
}

#endif
