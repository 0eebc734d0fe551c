// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every call against every other, from threads and processes that share
 * descriptors and take them away from each other: only the errors that some state
 * calls for, and in the end all is as it was.
 *
 * SECONDS and SEED in the environment make it longer, and another.
 */
#include <unistd.h>

#include "device.h"
#include "footprint.h"
#include "kselftest_harness.h"
#include "option.h"
#include "storm.h"

FIXTURE(calls)
{
	struct footprint before;
	struct storm storm;
};

FIXTURE_VARIANT(calls)
{
	int processes;
	int threads;	/* of each */
};

FIXTURE_VARIANT_ADD(calls, on_one_descriptor) { 1, 6 };
FIXTURE_VARIANT_ADD(calls, on_several_descriptors) { 4, 2 };

FIXTURE_SETUP(calls)
{
	if (!pmu_expected())
		SKIP(return, "this CPU has no PMU");
	ASSERT_EQ(0, footprint_take(&self->before));
}

FIXTURE_TEARDOWN(calls)
{
	struct storm_result result;

	storm_kill(&self->storm, &result);
}

TEST_F_TIMEOUT(calls, every_call_against_every_other, 36000)
{
	__u64 seconds = option("SECONDS", 5), seed = option("SEED", 1);
	struct storm_result result;

	ASSERT_EQ(0, storm_start(&self->storm, variant->processes,
				 variant->threads, seed));
	sleep(seconds);
	ASSERT_EQ(0, storm_stop(&self->storm, &result));
	TH_LOG("seed %llu: %llu calls in %llu s, %llu of them refused", seed,
	       result.made, seconds, result.refused);
	EXPECT_STREQ("", result.wrong) {
		TH_LOG("errno %d", result.wrong_errno);
	}
	EXPECT_STREQ("", result.never);
	EXPECT_STREQ("", footprint_works());
	EXPECT_STREQ("", footprint_check(&self->before));
}

TEST_HARNESS_MAIN
