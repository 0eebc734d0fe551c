// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random trees of tasks, counted by one inherited event of the first task. The sum is known in
 * advance.
 *
 * ROUNDS and SEED in the environment set the number of trees and the random numbers.
 */
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "options.h"
#include "rng.h"
#include "tree.h"

FIXTURE(event)
{
	cpu_set_t cpus;
	struct rng random;
	__u64 rounds;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	self->random = rng_seed(env_number("SEED", 1));
	self->rounds = env_number("ROUNDS", 25);
	ASSERT_EQ(0, cpus_online(&self->cpus));
}

FIXTURE_TEARDOWN(event)
{
	restore_maker(_metadata, variant);
}

TEST_F_TIMEOUT(event, sum_of_a_random_tree_is_exact, 36000)
{
	__u64 round, expected, tasks = 0;
	__s64 least, value;

	for (round = 0; round < self->rounds; round++) {
		expected = tree_make(&self->random, &self->cpus);
		tasks += tree_tasks();
		least = tree_run_and_count(variant->maker, true);
		ASSERT_LE(0, least);
		value = tree_run_and_count(variant->maker, false);
		EXPECT_EQ(least + (__s64)expected, value) {
			TH_LOG("tree %llu", round);
			tree_print();
			break;
		}
	}
	TH_LOG("%llu trees, %llu tasks", round, tasks);
}

TEST_HARNESS_MAIN
