/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The test cases at the end of a fuzzer. The functions are in a header, because kselftest.h counts
 * the cases separately in each file that includes it.
 */
#ifndef SELFTESTS_FUZZ_REPORT_H
#define SELFTESTS_FUZZ_REPORT_H

#include "kselftest.h"
#include "leak_check.h"

#define FUZZ_LEAK_CASES	3

/* Reports leaks, after the device is closed. */
static inline void fuzz_report_leaks(const struct leak_check *leaks)
{
	const char *problem = leak_check_registers(leaks);

	ksft_test_result(!*problem, "registers read as before %s\n", problem);
	problem = leak_check_log(leaks);
	ksft_test_result(!*problem, "the module logged nothing %s\n", problem);
	problem = leak_check_counts();
	ksft_test_result(!*problem, "the device counts exactly %s\n", problem);
}

#endif
