// SPDX-License-Identifier: GPL-2.0-only
/*
 * Energy registers of the virtual PMU that wrap soon: $UNIT is at least 28.
 */
#include "loop.h"
#include "power_fixture.h"
#include "retired.h"

/* The register has 32 bits. After its largest value it continues at 0. */
TEST_F(power, energy_wraps)
{
	const struct energy_register *e;
	__u64 from, to, before, most, rest;
	unsigned long n;

	for (e = self->registers; e < self->registers + self->n; e++) {
		/* One and a half times the range of the register */
		n = 3ULL << (31 - (e->unit - INSN_UNIT));
		n /= LOOP_INSNS * e->per_insn;
		before = retired_insns();
		ASSERT_EQ(0, msr_read(0, e->msr, &from));
		loop(n);
		ASSERT_EQ(0, msr_read(0, e->msr, &to));
		most = retired_at_most(before);
		EXPECT_GE(UINT32_MAX, from);
		EXPECT_GE(UINT32_MAX, to);
		/* The energy of the loop, and of what the kernel has executed meanwhile. */
		rest = (__u32)(to - from - energy_of(e, LOOP_INSNS * n));
		EXPECT_GE(energy_of(e, most - LOOP_INSNS * n), rest) {
			TH_LOG("energy of the %s", e->name);
		}
	}
}

TEST_HARNESS_MAIN
