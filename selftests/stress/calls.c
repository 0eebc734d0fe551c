// SPDX-License-Identifier: GPL-2.0-only
/*
 * All calls at the same time, from threads and processes that share descriptors and replace them
 * while others use them. A call fails only with an errno that the table of calls allows, and no
 * memory, counter or register is lost.
 *
 * SECONDS and SEED in the environment set the length and the random numbers.
 */
#include <unistd.h>

#include "call_stress.h"
#include "device.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "options.h"

#define LEAST_CALLS	10000

/*
 * The maximum number of periods of SECONDS until each call has succeeded once. Which calls succeed
 * depends on the timing of the threads.
 */
#define MOST_TIMES	50

FIXTURE(calls)
{
	struct leak_check leaks;
	struct call_stress stress;
};

FIXTURE_VARIANT(calls)
{
	int processes;
	int threads;	/* threads of each process */
};

FIXTURE_VARIANT_ADD(calls, on_one_descriptor) { 1, 6 };
FIXTURE_VARIANT_ADD(calls, on_several_descriptors) { 4, 2 };

FIXTURE_SETUP(calls)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, leak_check_disturb(&self->leaks));
}

FIXTURE_TEARDOWN(calls)
{
	struct call_stress_result result;

	call_stress_kill(&self->stress, &result);
	leak_check_undisturb(&self->leaks);
}

TEST_F_TIMEOUT(calls, concurrent_calls_fail_only_as_allowed, 36000)
{
	__u64 seconds = env_number("SECONDS", 5), seed = env_number("SEED", 1);
	struct call_stress_result result;
	int times = 0;

	ASSERT_EQ(0, call_stress_start(&self->stress, variant->processes,
				 variant->threads, seed));
	do {
		sleep(seconds);
	} while (call_stress_made(&self->stress) < LEAST_CALLS ||
		 (!call_stress_all_succeeded(&self->stress) && ++times < MOST_TIMES));
	ASSERT_EQ(0, call_stress_stop(&self->stress, &result));
	TH_LOG("seed %llu: %llu calls, %llu of them refused", seed, result.calls,
	       result.refused);
	EXPECT_STREQ("", result.wrong) {
		TH_LOG("errno %d", result.wrong_errno);
	}
	EXPECT_STREQ("", result.never_succeeded);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
