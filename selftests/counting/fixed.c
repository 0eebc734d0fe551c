// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fixed-function counters, PMC_FIXED(n). Each counts one event, so only its modes can be chosen.
 * In all other respects they behave like general counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "module.h"
#include "msr.h"
#include "perf.h"

#define N	1000000UL

FIXTURE(fixed)
{
	int fd;
	struct perfmon_properties p;
};

FIXTURE_SETUP(fixed)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &self->p));
	if (!self->p.max_num_fixed_events)
		SKIP(return, "this CPU has no fixed counters");
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(fixed)
{
	close(self->fd);
}

TEST_F(fixed, fixed_counter_counts_what_a_general_one_counts)
{
	__s64 general, fixed;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	general = pmc_loop_count(self->fd, 0, N);
	fixed = pmc_loop_count(self->fd, PMC_FIXED(0), N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), fixed);
	EXPECT_EQ(general, fixed);
}

TEST_F(fixed, fixed_and_general_counter_count_at_once)
{
	__s64 general[2], fixed[2];
	int i;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pmc_reset(self->fd, PMC_FIXED(0)));
		ASSERT_EQ(0, pmc_start(self->fd, PMC_FIXED(0)));
		general[i] = pmc_loop_count(self->fd, 0, (i + 1) * N);
		ASSERT_EQ(0, pmc_stop(self->fd, PMC_FIXED(0)));
		fixed[i] = pmc_value(self->fd, PMC_FIXED(0));
		EXPECT_LT(general[i], fixed[i]);
	}
	EXPECT_EQ((__s64)(LOOP_INSNS * N), general[1] - general[0]);
	EXPECT_EQ((__s64)(LOOP_INSNS * N), fixed[1] - fixed[0]);
}

TEST_F(fixed, all_counters_of_the_cpu_count_at_once)
{
	int i, fixed = self->p.max_num_fixed_events;
	int general = self->p.max_num_programmable_events;

	for (i = 0; i < general; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, i, EVENT_INSTRUCTIONS,
				       PMCF_USR));
		ASSERT_EQ(0, pmc_start(self->fd, i));
	}
	for (i = 0; i < fixed; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(i), 0, PMCF_USR));
		ASSERT_EQ(0, pmc_start(self->fd, PMC_FIXED(i)));
	}
	loop(N);
	for (i = 0; i < general; i++)
		EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->fd, i));

	/* Fixed counters 1 and 2 count cycles, whose number is not known. */
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->fd, PMC_FIXED(0)));
	for (i = 1; i < fixed; i++)
		EXPECT_LT(0, pmc_value(self->fd, PMC_FIXED(i)));
}

TEST_F(fixed, fixed_counter_counts_only_its_modes)
{
	const int both = 0, user = 1;
	__s64 kernel;

	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, 0));
	EXPECT_EQ(0, pmc_loop_count(self->fd, PMC_FIXED(0), N));

	/*
	 * One general counter counts longer than the fixed counter, and one shorter: see
	 * counting_exact.
	 */
	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_OS));
	ASSERT_EQ(0, pmc_setup(self->fd, both, EVENT_INSTRUCTIONS, PMCF_USR | PMCF_OS));
	ASSERT_EQ(0, pmc_setup(self->fd, user, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, both));
	ASSERT_EQ(0, pmc_start(self->fd, PMC_FIXED(0)));
	ASSERT_EQ(0, pmc_count_loop(self->fd, user, 20 * N));
	ASSERT_EQ(0, pmc_stop(self->fd, PMC_FIXED(0)));
	ASSERT_EQ(0, pmc_stop(self->fd, both));
	kernel = pmc_value(self->fd, PMC_FIXED(0));
	EXPECT_LT(0, kernel);
	EXPECT_GE(pmc_value(self->fd, both) - pmc_value(self->fd, user), kernel);
}

TEST_F(fixed, get_returns_what_setup_set)
{
	static const __u8 flags[] = { 0, PMCF_USR, PMCF_OS, PMCF_USR | PMCF_OS };
	struct pmc pmc;
	unsigned int i;
	int n;

	for (n = 0; n < self->p.max_num_fixed_events; n++) {
		for (i = 0; i < ARRAY_SIZE(flags); i++) {
			ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(n), 0,
					       flags[i] | PMCF_SYS_FLAGS));
			ASSERT_EQ(0, pmc_get(self->fd, PMC_FIXED(n), &pmc));
			EXPECT_EQ(PMC_FIXED(n), pmc.pmc_num);
			EXPECT_EQ((__u32)flags[i] << 16, pmc.pmc_val);
		}
	}
}

TEST_F(fixed, fixed_counter_takes_no_event)
{
	static const __u32 refused[] = {
		0x000100c0, 0x00010100, 0x01010000,
		(PMCF_USR | PMCF_E) << 16, (PMCF_USR | PMCF_INV) << 16,
		(PMCF_USR | PMCF_ANY) << 16, (PMCF_USR | PMCF_PC) << 16,
	};
	struct pmc pmc;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		pmc = (struct pmc) {
			.pmc_num = PMC_FIXED(0), .pmc_val = refused[i],
		};
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOSETUP, &pmc)) {
			TH_LOG("pmc_val 0x%08x", refused[i]);
		}
	}
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		EXPECT_EQ(-EINVAL, pmc_setup2(self->fd, PMC_FIXED(0),
					      refused[i])) {
			TH_LOG("pmc2_select 0x%08x", refused[i]);
		}
	}
	EXPECT_EQ(-EBUSY, pmc_get(self->fd, PMC_FIXED(0), &pmc));
}

TEST_F(fixed, wide_calls_set_up_fixed_counters)
{
	__s64 value, sum = 0;
	__u64 select;
	int cpu;

	ASSERT_EQ(0, pmc_setup2(self->fd, PMC_FIXED(0), PMCF_USR << 16));
	ASSERT_EQ(0, pmc_get2(self->fd, PMC_FIXED(0), &select));
	EXPECT_EQ((__u64)PMCF_USR << 16, select);
	value = pmc_loop_count(self->fd, PMC_FIXED(0), N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	for (cpu = 0; cpu < cpu_ids(); cpu++)
		sum += pmc_value_on(self->fd, PMC_FIXED(0), cpu);
	EXPECT_EQ(value, sum);
}

TEST_F(fixed, number_out_of_range_is_refused)
{
	int bad = PMC_FIXED(self->p.max_num_fixed_events);
	struct pmc pmc;
	__s64 value;

	EXPECT_EQ(-EINVAL, pmc_setup(self->fd, bad, 0, PMCF_USR));
	EXPECT_EQ(-EINVAL, pmc_start(self->fd, bad));
	EXPECT_EQ(-EINVAL, pmc_stop(self->fd, bad));
	EXPECT_EQ(-EINVAL, pmc_reset(self->fd, bad));
	EXPECT_EQ(-EINVAL, pmc_get(self->fd, bad, &pmc));
	EXPECT_EQ(-EINVAL, pmc_read(self->fd, bad, &value));
}

TEST_F(fixed, counter_that_was_not_set_up_is_refused)
{
	struct pmc pmc;
	__s64 value;

	/* Sets up general counter 0, and not fixed counter 0. */
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_start(self->fd, PMC_FIXED(0)));
	EXPECT_EQ(-EBUSY, pmc_stop(self->fd, PMC_FIXED(0)));
	EXPECT_EQ(-EBUSY, pmc_reset(self->fd, PMC_FIXED(0)));
	EXPECT_EQ(-EBUSY, pmc_get(self->fd, PMC_FIXED(0), &pmc));
	EXPECT_EQ(-EBUSY, pmc_read(self->fd, PMC_FIXED(0), &value));
}

/*
 * perf prefers a fixed counter for this event, so a fixed counter of the module must keep perf off
 * by itself.
 */
TEST_F(fixed, fixed_counter_and_perf_exclude_each_other)
{
	int perf;

	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	close(self->fd);
	self->fd = open_device(_metadata, O_RDWR);

	perf = perf_hold_counters();
	ASSERT_LE(0, perf);
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	close(perf);
	EXPECT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
}

/*
 * IA32_FIXED_CTR_CTRL has four bits for each counter. The module changes only the bits of its own
 * counters, and restores them.
 */
TEST_F(fixed, setup_leaves_bits_of_other_counters)
{
	const __u64 neighbour = 0x2ULL << 4;	/* counter 1 in user mode */
	__u64 value;
	cpu_set_t cpus;
	int cpu;

	if (self->p.max_num_fixed_events < 2)
		SKIP(return, "this CPU has one fixed counter");
	/* With place-holders, a counter that runs belongs to perf, so the test ends. */
	if (module_has_place_holder())
		return;
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(cpu, &cpus)
		ASSERT_EQ(0, msr_write(cpu, MSR_IA32_FIXED_CTR_CTRL, neighbour));

	ASSERT_EQ(0, pmc_setup(self->fd, PMC_FIXED(0), 0, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, PMC_FIXED(0)));
	for_each_cpu_in(cpu, &cpus) {
		EXPECT_EQ(0, msr_read(cpu, MSR_IA32_FIXED_CTR_CTRL, &value));
		EXPECT_EQ(0x2ULL, value & 0x3);
		EXPECT_EQ(neighbour, value & ~0xfULL);
	}
	close(self->fd);
	self->fd = -1;
	for_each_cpu_in(cpu, &cpus) {
		EXPECT_EQ(0, msr_read(cpu, MSR_IA32_FIXED_CTR_CTRL, &value));
		EXPECT_EQ(neighbour, value);
		msr_write(cpu, MSR_IA32_FIXED_CTR_CTRL, 0);
	}
}

TEST_HARNESS_MAIN
