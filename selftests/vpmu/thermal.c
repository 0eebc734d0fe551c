// SPDX-License-Identifier: GPL-2.0-only
/*
 * Temperatures of the virtual PMU, which only Intel has.
 */
#include "cpu.h"
#include "harness.h"
#include "loop.h"
#include "power.h"
#include "retired.h"

/* Returns degrees Celsius from register @msr; 0 if it can't be read. */
static int temperature(__u32 msr)
{
	__u64 target, status;

	if (msr_read(0, MSR_TEMPERATURE_TARGET, &target) ||
	    msr_read(0, msr, &status))
		return 0;
	return ((target >> 16) & 0xff) - ((status >> 16) & 0x7f);
}

/* The temperature rises by a degree every 2^22 instructions, and wraps to the lowest. */
TEST(temperature_rises_with_instructions)
{
	const struct {
		__u32 msr;
		int lowest;
	} sensors[] = {
		{ MSR_THERM_STATUS, 40 },
		{ MSR_PACKAGE_THERM_STATUS, 50 },
	};
	const unsigned long n = (1UL << 22) / LOOP_INSNS;
	__u64 status, before;
	int degrees, from, to, most;
	size_t i;

	ASSERT_EQ(0, pin_to_cpu(0));
	for (i = 0; i < ARRAY_SIZE(sensors); i++) {
		for (degrees = 1; degrees < 9; degrees += 7) {
			before = retired_insns();
			from = temperature(sensors[i].msr);
			loop(n * degrees);
			to = temperature(sensors[i].msr);
			/*
			 * Instructions of all modes raise the temperature. The first degree comes
			 * sooner.
			 */
			most = 1 + (retired_at_most(before) >> 22);
			EXPECT_LE(sensors[i].lowest, from);
			EXPECT_GT(sensors[i].lowest + 32, from);
			EXPECT_LE(degrees, (to - from + 32) % 32);
			EXPECT_GE(most, (to - from + 32) % 32);
		}
	}
	ASSERT_EQ(0, msr_read(0, MSR_THERM_STATUS, &status));
	EXPECT_EQ(1ULL, status >> 31);
}

TEST_HARNESS_MAIN
