// SPDX-License-Identifier: GPL-2.0-only
/*
 * Energy and clocks of the virtual PMU, on a machine with two CPUs.
 */
#include "loop.h"
#include "power_fixture.h"
#include "retired.h"

/* Iterations of two loops, and the difference of their instructions. */
#define SHORT_LOOP	1000UL
#define LONG_LOOP	(SHORT_LOOP + 65536UL)
#define DIFFERENCE	(LOOP_INSNS * (LONG_LOOP - SHORT_LOOP))

/*
 * Returns the growth of register @msr in loop(@n) and the calls around it: the least of many
 * measurements, since an interrupt increases it. Returns ~0 if the register can't be read.
 */
static __attribute__((noinline)) __u64 register_growth(__u32 msr, unsigned long n, __u64 mask)
{
	__u64 least = ~0ULL, from, to;
	int i;

	for (i = 0; i < 200; i++) {
		if (msr_read(0, msr, &from))
			return ~0ULL;
		loop(n);
		if (msr_read(0, msr, &to))
			return ~0ULL;
		to = (to - from) & mask;
		least = to < least ? to : least;
	}
	return least;
}

TEST_F(power, unit_is_the_configured_one)
{
	__u64 unit;

	ASSERT_EQ(0, msr_read(0, self->p.is_intel ? MSR_POWER_UNIT :
						 MSR_AMD_POWER_UNIT, &unit));
	EXPECT_EQ(env_number("UNIT", 14), (unit >> 8) & 0x1f);
}

TEST_F(power, energy_is_a_multiple_of_instructions)
{
	const struct energy_register *e;
	__u64 want, got;

	for (e = self->registers; e < self->registers + self->n; e++) {
		want = energy_of(e, DIFFERENCE);
		got = register_growth(e->msr, LONG_LOOP, UINT32_MAX) -
		      register_growth(e->msr, SHORT_LOOP, UINT32_MAX);
		/* The value is rounded down to whole units. */
		EXPECT_GE(want + (e->unit < INSN_UNIT), got) {
			TH_LOG("energy of the %s", e->name);
		}
		EXPECT_LE(want - (e->unit < INSN_UNIT), got) {
			TH_LOG("energy of the %s", e->name);
		}
	}
}

/* The clocks agree with the counters of core cycles and of reference cycles. */
TEST_F(power, clocks_are_multiples_of_instructions)
{
	__u64 got;

	got = register_growth(MSR_APERF, LONG_LOOP, ~0ULL) -
	      register_growth(MSR_APERF, SHORT_LOOP, ~0ULL);
	EXPECT_GE(DIFFERENCE * 10 / 8 + 1, got);
	EXPECT_LE(DIFFERENCE * 10 / 8 - 1, got);
	got = register_growth(MSR_MPERF, LONG_LOOP, ~0ULL) -
	      register_growth(MSR_MPERF, SHORT_LOOP, ~0ULL);
	EXPECT_GE(DIFFERENCE * 9 / 8 + 1, got);
	EXPECT_LE(DIFFERENCE * 9 / 8 - 1, got);
}

TEST_F(power, clocks_continue_from_the_written_value)
{
	const __u32 msrs[] = { MSR_MPERF, MSR_APERF };
	const __u64 start = 1ULL << 63;
	__u64 value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(msrs); i++) {
		ASSERT_EQ(0, msr_write(0, msrs[i], start));
		ASSERT_EQ(0, msr_read(0, msrs[i], &value));
		EXPECT_LT(start, value);
		/*
		 * Expects a value that is only a little larger, since other programs may run in
		 * between. Without the write, the value would be far from the limit.
		 */
		EXPECT_GT(start + (1ULL << 40), value);
		ASSERT_EQ(0, msr_write(0, msrs[i], 0));
	}
}

/* Returns the growth, by a loop on CPU 0, of a register that CPU 1 reads. */
static __u64 growth_seen_from_cpu1(__u32 msr, unsigned long n)
{
	__u64 from, to;

	if (msr_read(1, msr, &from))
		return ~0ULL;
	loop(n);
	if (msr_read(1, msr, &to))
		return ~0ULL;
	return (__u32)(to - from);
}

/* A package includes all of its CPUs. AMD has an energy register per core. */
TEST_F(power, energy_is_per_package_or_core)
{
	const unsigned long n = 10000000;
	const struct energy_register *e;
	__u64 want, got, own;

	for (e = self->registers; e < self->registers + self->n; e++) {
		want = energy_of(e, LOOP_INSNS * n);
		own = retired_on(1);
		got = growth_seen_from_cpu1(e->msr, n);
		/* Both values are rounded down. */
		own = retired_on(1) - own + 2;
		if (e->msr == MSR_AMD_CORE_ENERGY) {
			EXPECT_GE(energy_of(e, own) + 1, got);
		} else {
			/* The energy of other CPUs is updated from time to time. */
			EXPECT_LT(want - want / 16, got);
		}
	}
}

TEST_HARNESS_MAIN
