// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact counts, and the effect of each call on the count.
 *
 * A loop of n iterations retires LOOP_INSNS * n instructions in user mode. The system calls around
 * the loop add a constant. Most tests subtract the constant by comparing two counts, and all tests
 * check its size.
 */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"

#define N	1000000UL

FIXTURE(counter)
{
	int fd;
};

FIXTURE_SETUP(counter)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(counter)
{
	close(self->fd);
}

TEST_F(counter, setup_leaves_the_counter_stopped_and_zero)
{
	loop(N);
	EXPECT_EQ(0, pmc_value(self->fd, 0));
}

TEST_F(counter, counter_counts_each_instruction_of_the_loop)
{
	__s64 overhead = pmc_loop_count(self->fd, 0, N) -
			 (__s64)(LOOP_INSNS * N);
	int i;

	EXPECT_LE(0, overhead);
	EXPECT_GE(CALL_OVERHEAD, overhead);
	for (i = 1; i <= 16; i *= 2) {
		ASSERT_EQ((__s64)(LOOP_INSNS * N * i) + overhead,
			  pmc_loop_count(self->fd, 0, N * i));
	}
}

/*
 * Counts a loop of three instructions. An iteration of loop() has two, so with loop() a counter
 * without its lowest bit would seem right.
 */
static __s64 count_loop_of_three(int fd, unsigned long n)
{
	int err = pmc_reset(fd, 0);

	if (!err)
		err = pmc_start(fd, 0);
	__asm__ volatile("1:	nop\n"
			 "	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n) : : "cc");
	if (!err)
		err = pmc_stop(fd, 0);
	return err ? err : pmc_value(fd, 0);
}

TEST_F(counter, counts_of_a_loop_of_three_are_exact)
{
	__s64 first = count_loop_of_three(self->fd, 1);
	int n;

	EXPECT_LE(3, first);
	for (n = 2; n < 20; n++)
		EXPECT_EQ(first + 3 * (n - 1),
			  count_loop_of_three(self->fd, n));
}

/* FreeBSD's structure has padding in place of `reserved`, so its programs do not initialize it. */
TEST_F(counter, read_ignores_the_padding_and_zeroes_it)
{
	struct pmc_data data = { .pmcd_num = 0, .reserved = ~0U };
	__s64 value = pmc_loop_count(self->fd, 0, N);

	ASSERT_EQ(0, device_ioctl(self->fd, PMIOREAD, &data));
	EXPECT_EQ(0, data.pmcd_num);
	EXPECT_EQ(0U, data.reserved);
	EXPECT_EQ(value, data.pmcd_value);
}

TEST_F(counter, stop_keeps_the_value)
{
	__s64 value = pmc_loop_count(self->fd, 0, N);

	loop(N);
	EXPECT_EQ(value, pmc_value(self->fd, 0));
	EXPECT_EQ(value, pmc_value(self->fd, 0));
}

TEST_F(counter, stop_when_stopped_has_no_effect)
{
	__s64 value;

	EXPECT_EQ(0, pmc_stop(self->fd, 0));
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	value = pmc_loop_count(self->fd, 0, N);
	EXPECT_EQ(0, pmc_stop(self->fd, 0));
	EXPECT_EQ(value, pmc_value(self->fd, 0));
	EXPECT_EQ(value, pmc_loop_count(self->fd, 0, N));
}

TEST_F(counter, start_continues_from_the_stopped_value)
{
	__s64 value = pmc_loop_count(self->fd, 0, N);

	loop(N);
	ASSERT_EQ(0, pmc_count_loop(self->fd, 0, N));
	EXPECT_EQ(2 * value, pmc_value(self->fd, 0));
}

/* Starting a running counter has no effect here. (FreeBSD's driver resets the counter.) */
TEST_F(counter, start_when_running_has_no_effect)
{
	__s64 value;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(N);
	EXPECT_EQ(0, pmc_count_loop(self->fd, 0, N));
	value = pmc_value(self->fd, 0);
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + 2 * CALL_OVERHEAD, value);
}

TEST_F(counter, read_when_running_gives_the_live_value)
{
	__s64 value[3];
	int i;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	for (i = 0; i < 3; i++) {
		loop(N);
		ASSERT_EQ(0, pmc_read(self->fd, 0, &value[i]));
	}
	EXPECT_LE((__s64)(LOOP_INSNS * N), value[0]);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, value[0]);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value[1] - value[0]);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, value[1] - value[0]);
	EXPECT_EQ(value[1] - value[0], value[2] - value[1]);
}

TEST_F(counter, reset_when_stopped_zeroes)
{
	__s64 value = pmc_loop_count(self->fd, 0, N);

	EXPECT_EQ(0, pmc_reset(self->fd, 0));
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	loop(N);
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	EXPECT_EQ(value, pmc_loop_count(self->fd, 0, N));
}

TEST_F(counter, reset_when_running_zeroes_and_continues)
{
	struct pmc pmc;
	__s64 value;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(3 * N);
	ASSERT_EQ(0, pmc_reset(self->fd, 0));
	ASSERT_EQ(0, pmc_get(self->fd, 0, &pmc));
	EXPECT_EQ(PMCF_EN, pmc.pmc_flags & PMCF_EN);
	loop(N);
	ASSERT_EQ(0, pmc_stop(self->fd, 0));
	value = pmc_value(self->fd, 0);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + 2 * CALL_OVERHEAD, value);
}

TEST_F(counter, setup_when_running_stops_and_zeroes)
{
	struct pmc pmc;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(N);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	loop(N);
	EXPECT_EQ(0, pmc_value(self->fd, 0));
	ASSERT_EQ(0, pmc_get(self->fd, 0, &pmc));
	EXPECT_EQ(PMCF_USR, pmc.pmc_flags);
}

TEST_F(counter, counters_run_independently)
{
	__s64 first, second;

	ASSERT_EQ(0, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(N);
	ASSERT_EQ(0, pmc_count_loop(self->fd, 1, N));
	ASSERT_EQ(0, pmc_stop(self->fd, 0));
	first = pmc_value(self->fd, 0);
	second = pmc_value(self->fd, 1);
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), first);
	EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + 3 * CALL_OVERHEAD, first);
	EXPECT_LE((__s64)(LOOP_INSNS * N), second);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, second);
}

TEST_F(counter, every_general_counter_counts_the_same)
{
	__s64 value = pmc_loop_count(self->fd, 0, N);
	struct perfmon_properties p;
	int i;

	ASSERT_EQ(0, device_properties(self->fd, &p));
	ASSERT_LT(1, p.max_num_programmable_events);
	for (i = 1; i < p.max_num_programmable_events; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, i, EVENT_INSTRUCTIONS,
				       PMCF_USR));
		EXPECT_EQ(value, pmc_loop_count(self->fd, i, N)) {
			TH_LOG("counter %d", i);
		}
	}
}

/* Starts the counters in ascending order, and stops them in descending order. */
static int count_nested(int fd, int counters, unsigned long n)
{
	int i, err = 0;

	for (i = 0; i < counters && !err; i++) {
		err = pmc_reset(fd, i);
		if (!err)
			err = pmc_start(fd, i);
	}
	loop(n);
	while (i-- && !err)
		err = pmc_stop(fd, i);
	return err;
}

TEST_F(counter, all_general_counters_count_at_once)
{
	struct perfmon_properties p;
	__s64 value[NPMC];
	int counters, i;

	ASSERT_EQ(0, device_properties(self->fd, &p));
	counters = p.max_num_programmable_events;
	ASSERT_GE(NPMC, counters);
	for (i = 1; i < counters; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, i, EVENT_INSTRUCTIONS,
				       PMCF_USR));
	}

	ASSERT_EQ(0, count_nested(self->fd, counters, N));
	for (i = 0; i < counters; i++)
		ASSERT_EQ(0, pmc_read(self->fd, i, &value[i]));
	ASSERT_EQ(0, count_nested(self->fd, counters, 3 * N));
	for (i = 0; i < counters; i++) {
		EXPECT_EQ(value[i] + (__s64)(2 * LOOP_INSNS * N),
			  pmc_value(self->fd, i)) {
			TH_LOG("counter %d of %d", i, counters);
		}
	}

	/* Each counter also counts the calls that start and stop the counters after it. */
	for (i = 0; i < counters - 1; i++)
		EXPECT_LT(value[i + 1], value[i]);
}

FIXTURE(mode)
{
	int fd;
};

FIXTURE_VARIANT(mode)
{
	__u8 flags;
	__s64 min;
	__s64 max;
};

#define LOOP_TOTAL	((__s64)(20 * LOOP_INSNS * N))

FIXTURE_VARIANT_ADD(mode, neither) {
	.flags = 0, .min = 0, .max = 0,
};

/* The count includes the calls that start and stop a second counter. */
FIXTURE_VARIANT_ADD(mode, user) {
	.flags = PMCF_USR, .min = LOOP_TOTAL, .max = LOOP_TOTAL + 3 * CALL_OVERHEAD,
};

/* The number of instructions that the kernel executes during the loop depends on the host. */
FIXTURE_VARIANT_ADD(mode, kernel) {
	.flags = PMCF_OS, .min = 1, .max = LLONG_MAX,
};

FIXTURE_VARIANT_ADD(mode, both) {
	.flags = PMCF_USR | PMCF_OS, .min = LOOP_TOTAL + 1, .max = LLONG_MAX,
};

FIXTURE_SETUP(mode)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(mode)
{
	close(self->fd);
}

/*
 * A counter of both modes starts before the variant's counter and stops after it, so it counts at
 * least as much. A counter of user mode starts after the variant's counter and stops before it. So
 * the difference between these two counts is at least the number of instructions that the kernel
 * has executed.
 */
TEST_F(mode, counter_counts_only_its_modes)
{
	const int both = 1, user = 2;
	__s64 value, most;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS,
			       variant->flags));
	ASSERT_EQ(0, pmc_setup(self->fd, both, EVENT_INSTRUCTIONS, PMCF_USR | PMCF_OS));
	ASSERT_EQ(0, pmc_setup(self->fd, user, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, both));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, pmc_count_loop(self->fd, user, 20 * N));
	ASSERT_EQ(0, pmc_stop(self->fd, 0));
	ASSERT_EQ(0, pmc_stop(self->fd, both));
	value = pmc_value(self->fd, 0);
	EXPECT_LE(variant->min, value);
	EXPECT_GE(variant->max, value);
	most = pmc_value(self->fd, both);
	if (!(variant->flags & PMCF_USR))
		most -= pmc_value(self->fd, user);
	EXPECT_GE(most, value);
}

TEST_HARNESS_MAIN
