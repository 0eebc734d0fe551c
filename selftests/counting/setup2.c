// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMIOSETUP2 and PMIOGET2: event selects of 64 bits. Intel's CPUs use the lower 32 bits, and AMD's
 * CPUs have four more bits for larger event numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"

#define N	1000000UL

#define INSTRUCTIONS	0x000100c0ULL	/* in user mode */
#define ENABLED		((__u64)PMCF_EN << 16)

/* Bits 11:8 of an event number (AMD APM, volume 2, section 13.2.1) */
#define EVENT_HIGH	(0xfULL << 32)

FIXTURE(setup2)
{
	int fd;
	int counters;
	bool is_amd;
};

FIXTURE_SETUP(setup2)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	self->is_amd = pmu_registers()->select0 != MSR_IA32_PERFEVTSEL0;
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	self->counters = p.max_num_programmable_events;
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(setup2)
{
	close(self->fd);
}

TEST_F(setup2, setup2_counts_as_setup_does)
{
	__s64 value;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	value = pmc_loop_count(self->fd, 0, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS));
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	EXPECT_EQ(value, pmc_loop_count(self->fd, 0, N));
}

TEST_F(setup2, setup2_stops_and_zeroes_a_running_counter)
{
	__u64 select;

	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(N);
	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS));
	loop(N);
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	ASSERT_EQ(0, pmc_get2(self->fd, 0, &select));
	EXPECT_EQ(INSTRUCTIONS, select);
}

TEST_F(setup2, both_gets_return_what_setup2_set)
{
	static const __u64 selects[] = {
		0, INSTRUCTIONS, 0x0003ffff, 0xff8700c0, 0xff87ffff,
		INSTRUCTIONS | EVENT_HIGH, 0xeff87ffffULL, 1ULL << 32,
	};
	struct pmc pmc;
	unsigned int i;
	__u64 got;

	for (i = 0; i < ARRAY_SIZE(selects); i++) {
		__u64 select = selects[i];

		if ((select & EVENT_HIGH) && !self->is_amd)
			continue;
		ASSERT_EQ(0, pmc_setup2(self->fd, 1, select));
		ASSERT_EQ(0, pmc_get2(self->fd, 1, &got));
		EXPECT_EQ(select, got);
		ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
		EXPECT_EQ((__u32)select, pmc.pmc_val);

		ASSERT_EQ(0, pmc_start(self->fd, 1));
		ASSERT_EQ(0, pmc_get2(self->fd, 1, &got));
		EXPECT_EQ(select | ENABLED, got);
		ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
		EXPECT_EQ((__u32)(select | ENABLED), pmc.pmc_val);
	}
}

TEST_F(setup2, setup2_drops_the_drivers_flags)
{
	__u64 got;

	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS |
				(__u64)PMCF_SYS_FLAGS << 16));
	ASSERT_EQ(0, pmc_get2(self->fd, 0, &got));
	EXPECT_EQ(INSTRUCTIONS, got);
}

TEST_F(setup2, get2_returns_what_setup_set)
{
	struct pmc2 pmc = { .pmc2_num = 0, .pmc2_select = ~0ULL };

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, device_ioctl(self->fd, PMIOGET2, &pmc));
	EXPECT_EQ(0, pmc.pmc2_num);
	EXPECT_EQ(INSTRUCTIONS, pmc.pmc2_select);
	EXPECT_EQ(0U, pmc.pmc2_flags);
	EXPECT_EQ(0ULL, pmc.pmc2_extra);
	EXPECT_EQ(0ULL, pmc.reserved);
}

/* A refused call does not change the counter. */
TEST_F(setup2, setup2_refuses_bits_that_the_cpu_lacks)
{
	__u64 bits = pmu_select_bits();
	__u64 got;
	int bit;

	bits &= ~((__u64)(PMCF_PC | PMCF_ANY) << 16);
	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS));
	for (bit = 0; bit < 64; bit++) {
		__u64 select = INSTRUCTIONS | 1ULL << bit;

		EXPECT_EQ(bits & 1ULL << bit ? 0 : -EINVAL,
			  pmc_setup2(self->fd, 1, select)) {
			TH_LOG("bit %d", bit);
		}
		if (!(bits & 1ULL << bit))
			EXPECT_EQ(-EINVAL, pmc_setup2(self->fd, 0, select));
	}
	ASSERT_EQ(0, pmc_get2(self->fd, 0, &got));
	EXPECT_EQ(INSTRUCTIONS, got);
}

TEST_F(setup2, setup2_refuses_reserved_members)
{
	static const struct pmc2 wrong[] = {
		{ .pmc2_select = INSTRUCTIONS, .pmc2_flags = 1 },
		{ .pmc2_select = INSTRUCTIONS, .pmc2_flags = 1U << 31 },
		{ .pmc2_select = INSTRUCTIONS, .pmc2_extra = 1 },
		{ .pmc2_select = INSTRUCTIONS, .pmc2_extra = 1ULL << 63 },
		{ .pmc2_select = INSTRUCTIONS, .reserved = 1 },
		{ .pmc2_select = INSTRUCTIONS, .reserved = 1U << 31 },
	};
	/* These are types of no kind of core. */
	static const __u32 types[] = { 1, 1U << 31 };
	struct pmc2 pmc;
	unsigned int i;
	__u64 got;

	/* Reserved members are checked before the state of the counter. */
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		pmc = wrong[i];
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOSETUP2, &pmc));
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOGET2, &pmc));
	}
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		pmc = (struct pmc2){ .pmc2_select = INSTRUCTIONS, .pmc2_type = types[i] };
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOSETUP2, &pmc));
	}
	EXPECT_EQ(-EBUSY, pmc_get2(self->fd, 0, &got));

	ASSERT_EQ(0, pmc_setup2(self->fd, 0, INSTRUCTIONS));
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		pmc = wrong[i];
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOGET2, &pmc)) {
			TH_LOG("wrong[%u]", i);
		}
	}
}

/*
 * Uses the type of the only kind of core. With a type, the module checks that the counter can count
 * the event.
 */
TEST_F(setup2, setup2_with_a_type_refuses_events_that_the_counter_lacks)
{
	const __u64 user = (__u64)PMCF_USR << 16;
	struct pmc2 pmc = { .pmc2_select = INSTRUCTIONS, .pmc2_type = PERF_TYPE_RAW };
	__s64 value;

	ASSERT_EQ(0, device_ioctl(self->fd, PMIOSETUP2, &pmc));
	value = pmc_loop_count(self->fd, 0, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	pmc.pmc2_type = 0;
	ASSERT_EQ(0, device_ioctl(self->fd, PMIOGET2, &pmc));
	EXPECT_EQ((__u32)PERF_TYPE_RAW, pmc.pmc2_type);
	if (self->is_amd)
		return;
	/* Intel has no event 0: Linux uses these selects for fixed counters. */
	pmc.pmc2_select = 0x0300 | user;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOSETUP2, &pmc));
	pmc.pmc2_select = user;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOSETUP2, &pmc));
	EXPECT_EQ(value, pmc_value(self->fd, 0));
	/* Without a type, the module does not check whether the counter can count the event. */
	EXPECT_EQ(0, pmc_setup2(self->fd, 0, 0x0300 | user));
}

/*
 * From Zen on, AMD's event 0x003 needs two counters, and 0xfff merges two (AMD PPR, "Large
 * Increment per Cycle Events"). Intel's events have no upper bits.
 */
TEST_F(setup2, events_of_two_counters_are_refused)
{
	const __u64 large = 0xff03, merge = EVENT_HIGH | 0xff;

	EXPECT_EQ(self->is_amd ? -EOPNOTSUPP : 0, pmc_setup2(self->fd, 1, large));
	EXPECT_EQ(self->is_amd ? -EOPNOTSUPP : -EINVAL, pmc_setup2(self->fd, 1, merge));
}

/* The hardware's event select has this value, including the upper bits on AMD. */
TEST_F(setup2, register_holds_the_select)
{
	const struct pmu_registers *r = pmu_registers();
	__u64 select = INSTRUCTIONS | (self->is_amd ? EVENT_HIGH : 0);
	__u64 value;
	int last = self->counters - 1;

	ASSERT_EQ(0, pmc_setup2(self->fd, last, select));
	ASSERT_EQ(0, pmc_start(self->fd, last));
	ASSERT_EQ(0, msr_read(0, r->select0 + last * r->step, &value));
	EXPECT_EQ(select | ENABLED, value & ~PERFEVTSEL_INT);
}

TEST_HARNESS_MAIN
