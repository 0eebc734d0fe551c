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
#include "environment.h"
#include "fixture.h"
#include "sound.h"
#include "storm.h"

/* On a busy host it takes longer until each call has succeeded once. */
#define LEAST_CALLS	10000

FIXTURE(calls)
{
	struct sound sound;
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
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, sound_begin(&self->sound));
	ASSERT_EQ(0, sound_disturb(&self->sound));
}

FIXTURE_TEARDOWN(calls)
{
	struct storm_result result;

	storm_kill(&self->storm, &result);
	sound_undisturb(&self->sound);
}

TEST_F_TIMEOUT(calls, every_call_against_every_other, 36000)
{
	__u64 seconds = environment("SECONDS", 5), seed = environment("SEED", 1);
	struct storm_result result;

	ASSERT_EQ(0, storm_start(&self->storm, variant->processes,
				 variant->threads, seed));
	do {
		sleep(seconds);
	} while (storm_made(&self->storm) < LEAST_CALLS);
	ASSERT_EQ(0, storm_stop(&self->storm, &result));
	TH_LOG("seed %llu: %llu calls, %llu of them refused", seed, result.made,
	       result.refused);
	EXPECT_STREQ("", result.wrong) {
		TH_LOG("errno %d", result.wrong_errno);
	}
	EXPECT_STREQ("", result.never);
	EXPECT_STREQ("", sound_counts());
	EXPECT_STREQ("", sound_registers(&self->sound));
	EXPECT_STREQ("", sound_memory(&self->sound));
}

TEST_HARNESS_MAIN
