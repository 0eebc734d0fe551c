// SPDX-License-Identifier: GPL-2.0-only
/*
 * The extra registers of the virtual PMU: the bits that each model has, and the events, which count
 * instructions if the value is odd, branches if it is even, and nothing if it is 0.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <cpuid.h>
#include <errno.h>

#include "counted_loop.h"
#include "cpu.h"
#include "harness.h"
#include "idle.h"
#include "loop.h"
#include "pmu.h"

#define N	100000UL

/* Kinds of cores: CPUID, leaf 1AH, EAX[31:24] */
#define ONLY	0
#define CORE	0x40
#define ATOM	0x20

/* Linux, intel_pmu_init(): the tables of struct extra_reg */
static const struct extra {
	unsigned int model, kind;
	__u64 select;		/* an event, as in the event select */
	__u32 msr;
	__u64 mask;		/* the bits of the register */
} table[] = {
	{ 0x1a, ONLY, 0x1b7, 0x1a6, 0xffff },			/* Nehalem */
	{ 0x3c, ONLY, 0x1b7, 0x1a6, 0x3fffff8fff },		/* Haswell */
	{ 0x3c, ONLY, 0x1bb, 0x1a7, 0x3fffff8fff },
	{ 0x5e, ONLY, 0x1b7, 0x1a6, 0x3fffff8fff },		/* Skylake */
	{ 0x5e, ONLY, 0x1bb, 0x1a7, 0x3fffff8fff },
	{ 0x5e, ONLY, 0x1c6, 0x3f7, 0x7fff17 },
	{ 0x6a, ONLY, 0x1b7, 0x1a6, 0x3fffffbfff },		/* Ice Lake */
	{ 0x6a, ONLY, 0x1bb, 0x1a7, 0x3fffffbfff },
	{ 0x6a, ONLY, 0x1c6, 0x3f7, 0x7fff17 },
	{ 0x8f, ONLY, 0x12a, 0x1a6, 0x3fffffffff },		/* Sapphire Rapids */
	{ 0x8f, ONLY, 0x12b, 0x1a7, 0x3fffffffff },
	{ 0x8f, ONLY, 0x1c6, 0x3f7, 0x7fff1f },
	{ 0x97, CORE, 0x12a, 0x1a6, 0x3fffffffff },		/* Alder Lake */
	{ 0x97, CORE, 0x12b, 0x1a7, 0x3fffffffff },
	{ 0x97, CORE, 0x1c6, 0x3f7, 0x7fff1f },
	{ 0x97, ATOM, 0x1b7, 0x1a6, 0x8003f03fffffffff },
	{ 0x97, ATOM, 0x2b7, 0x1a7, 0x3f03fffffffff },
};

FIXTURE(extra)
{
	cpu_set_t cpus;
};

FIXTURE_SETUP(extra)
{
	int cpu;

	ASSERT_EQ(0, cpus_online(&self->cpus));
	for_each_cpu_in(cpu, &self->cpus)
		ASSERT_EQ(0, msr_write(cpu, MSR_IA32_PERF_GLOBAL_CTRL, 1));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(extra)
{
	int cpu;

	for_each_cpu_in(cpu, &self->cpus) {
		msr_write(cpu, MSR_IA32_PERFEVTSEL0, 0);
		msr_write(cpu, MSR_IA32_PMC0, 0);
		msr_write(cpu, MSR_IA32_PERF_GLOBAL_CTRL, 0);
	}
}

/* Returns whether this CPU, where the caller is pinned, has the register. */
static bool cpu_has_register(const struct extra *e)
{
	unsigned int a, b, c, d, model, kind = ONLY;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return false;
	model = pmu_model(a);
	if (__get_cpuid_count(0x1a, 0, &a, &b, &c, &d))
		kind = a >> 24;
	return e->model == model && e->kind == kind;
}

static void expect_count(struct __test_metadata *_metadata, int cpu, const struct extra *e,
			 __u64 value, unsigned long each)
{
	__u64 least;

	ASSERT_EQ(0, msr_write(cpu, e->msr, value));
	least = count_loop(cpu, e->select, 1);
	EXPECT_EQ(each * N, count_loop(cpu, e->select, N + 1) - least) {
		TH_LOG("event %#llx of CPU %d, MSR %#x: %#llx", e->select, cpu, e->msr, value);
	}
}

TEST_F(extra, registers_have_the_bits_of_the_model)
{
	const struct extra *e;
	int cpu, found = 0;
	__u64 value;

	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		for (e = table; e < table + ARRAY_SIZE(table); e++) {
			if (!cpu_has_register(e))
				continue;
			found++;
			ASSERT_EQ(0, msr_write(cpu, e->msr, e->mask)) {
				TH_LOG("MSR %#x of CPU %d", e->msr, cpu);
			}
			ASSERT_EQ(0, msr_read(cpu, e->msr, &value));
			EXPECT_EQ(e->mask, value);
			EXPECT_EQ(-EIO, msr_write(cpu, e->msr, ~e->mask & (e->mask + 1))) {
				TH_LOG("MSR %#x of CPU %d", e->msr, cpu);
			}
			EXPECT_EQ(0, msr_write(cpu, e->msr, 0));
		}
	}
	EXPECT_LT(0, found);
}

TEST_F(extra, events_count_by_the_value)
{
	const struct extra *e;
	int cpu;

	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		for (e = table; e < table + ARRAY_SIZE(table); e++) {
			if (!cpu_has_register(e))
				continue;
			expect_count(_metadata, cpu, e, 0, 0);
			expect_count(_metadata, cpu, e, 1, LOOP_INSNS);
			expect_count(_metadata, cpu, e, 2, 1);
			expect_count(_metadata, cpu, e, 3, LOOP_INSNS);
			expect_count(_metadata, cpu, e, 0, 0);
		}
	}
}

TEST_HARNESS_MAIN
