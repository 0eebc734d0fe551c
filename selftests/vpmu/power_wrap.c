// SPDX-License-Identifier: GPL-2.0-only
/*
 * Energy of the virtual PMU in registers that wrap soon: $UNIT is 28 at least.
 */
#include "loop.h"
#include "power_fixture.h"

/* The register has 32 bits, and goes on from 0. */
TEST_F(power, energy_wraps)
{
	const struct energy *e;
	__u64 from, to, grown;
	unsigned long n;

	for (e = self->all; e < self->all + self->n; e++) {
		/* One and a half times the range, and what the kernel adds */
		n = 3ULL << (31 - (e->unit - INSN_UNIT));
		n /= LOOP_INSNS * e->per_insn;
		ASSERT_EQ(0, msr_read(0, e->msr, &from));
		loop(n);
		ASSERT_EQ(0, msr_read(0, e->msr, &to));
		EXPECT_GE(UINT32_MAX, from);
		EXPECT_GE(UINT32_MAX, to);
		grown = (__u32)(to - from);
		EXPECT_LE((1ULL << 31) - (1ULL << 20), grown);
		EXPECT_GE((1ULL << 31) + (1ULL << 30), grown) {
			TH_LOG("energy of the %s", e->name);
		}
	}
}

TEST_HARNESS_MAIN
