// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks the mode of the local APICs, which APIC in the environment names (xapic or x2apic), so
 * that a machine that is meant to test one mode can't silently use the other.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "harness.h"
#include "msr.h"

/* Intel SDM, volume 3A, section 12.12.1 */
#define APICBASE_X2APIC	(1ULL << 10)

TEST(apic_mode_is_the_expected_one)
{
	const char *name = getenv("APIC");
	bool is_x2apic = name && !strcmp(name, "x2apic");
	cpu_set_t cpus;
	__u64 base;
	int cpu;

	ASSERT_TRUE(is_x2apic || (name && !strcmp(name, "xapic")));
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(cpu, &cpus) {
		ASSERT_EQ(0, msr_read(cpu, MSR_IA32_APICBASE, &base));
		EXPECT_EQ(is_x2apic, !!(base & APICBASE_X2APIC));
	}
}

TEST_HARNESS_MAIN
