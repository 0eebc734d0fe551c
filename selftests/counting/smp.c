// SPDX-License-Identifier: GPL-2.0-only
/*
 * A counter counts on every CPU, and its value is the sum over all CPUs. So the count is right for
 * a program that moves, and for programs that run on several CPUs at the same time.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "workers.h"

/* The counter. fixed_smp.c includes this file with another counter. */
#ifndef COUNTER
#define COUNTER	0
#endif

#define N	1000000UL
#define ROUNDS	5

FIXTURE(smp)
{
	int fd;
	cpu_set_t cpus;
	int count;	/* number of CPUs */
};

FIXTURE_SETUP(smp)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->count = CPU_COUNT(&self->cpus);
	ASSERT_EQ(0, pmc_setup_instructions(self->fd, COUNTER, PMCF_USR));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(smp)
{
	close(self->fd);
}

/* Executes ROUNDS loops on each of @cpus, moving in between. Returns 0 or a negative errno. */
static int loop_moving(const cpu_set_t *cpus, unsigned long n)
{
	int round, cpu, err;

	for (round = 0; round < ROUNDS; round++) {
		for_each_cpu_in(cpu, cpus) {
			err = pin_to_cpu(cpu);
			if (err)
				return err;
			loop(n);
		}
	}
	return 0;
}

/* Counts loop_moving(). */
static __s64 count_moving(int fd, int num, const cpu_set_t *cpus,
			  unsigned long n)
{
	int err;

	err = pmc_reset(fd, num);
	if (!err)
		err = pmc_start(fd, num);
	if (!err)
		err = loop_moving(cpus, n);
	if (!err)
		err = pmc_stop(fd, num);
	return err ? err : pmc_value(fd, num);
}

TEST_F(smp, moving_thread_is_counted)
{
	__s64 loops = ROUNDS * self->count;
	__s64 first, second;

	first = count_moving(self->fd, COUNTER, &self->cpus, N);
	second = count_moving(self->fd, COUNTER, &self->cpus, 2 * N);
	EXPECT_LE(loops * (__s64)(LOOP_INSNS * N), first);
	EXPECT_EQ(loops * (__s64)(LOOP_INSNS * N), second - first);
	EXPECT_EQ(first, count_moving(self->fd, COUNTER, &self->cpus, N));
}

TEST_F(smp, counter_stops_from_another_cpu)
{
	int from = cpu_next(&self->cpus, -1);
	__s64 overhead = -1, value;
	int to;

	for_each_cpu_in(to, &self->cpus) {
		ASSERT_EQ(0, pmc_reset(self->fd, COUNTER));
		ASSERT_EQ(0, pin_to_cpu(from));
		ASSERT_EQ(0, pmc_start(self->fd, COUNTER));
		loop(N);
		pin_to_cpu(to);
		ASSERT_EQ(0, pmc_stop(self->fd, COUNTER));
		value = pmc_value(self->fd, COUNTER) -
			(__s64)(LOOP_INSNS * N);
		if (overhead < 0)
			overhead = value;
		EXPECT_EQ(overhead, value) {
			TH_LOG("from CPU %d to CPU %d", from, to);
		}
	}
}

TEST_F(smp, value_is_the_same_from_each_cpu)
{
	__s64 value = pmc_loop_count(self->fd, COUNTER, N);
	int cpu;

	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		EXPECT_EQ(value, pmc_value(self->fd, COUNTER));
	}
}

/* Counts one loop on each of @cpus, at the same time. */
static __s64 count_workers(int fd, int num, const cpu_set_t *cpus,
			   unsigned long n)
{
	struct workers workers;
	int err = workers_start(&workers, cpus, n);

	if (!err)
		err = pmc_reset(fd, num);
	if (!err)
		err = pmc_start(fd, num);
	if (!err)
		err = workers_run(&workers);
	if (!err)
		err = pmc_stop(fd, num);
	workers_end(&workers);
	return err ? err : pmc_value(fd, num);
}

TEST_F(smp, all_cpus_count_at_once)
{
	__s64 first, second;

	first = count_workers(self->fd, COUNTER, &self->cpus, N);
	second = count_workers(self->fd, COUNTER, &self->cpus, 11 * N);
	EXPECT_LE((__s64)(self->count * LOOP_INSNS * N), first);
	EXPECT_EQ((__s64)(self->count * LOOP_INSNS * 10 * N), second - first);
}

/* Counts the same loops with three counters: of user mode, of the kernel, and of both modes. */
static void expect_sum(struct __test_metadata *_metadata, FIXTURE_DATA(smp) *self,
		       int user, int kernel, int both)
{
	const int numbers[] = { both, kernel, user };
	const __u8 flags[] = { PMCF_USR | PMCF_OS, PMCF_OS, PMCF_USR };
	__s64 value[3], rest;
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pmc_setup_instructions(self->fd, numbers[i], flags[i]));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pmc_start(self->fd, numbers[i]));
	ASSERT_EQ(0, loop_moving(&self->cpus, N));
	for (i = 2; i >= 0; i--)
		ASSERT_EQ(0, pmc_stop(self->fd, numbers[i]));
	for (i = 0; i < 3; i++)
		value[i] = pmc_value(self->fd, numbers[i]);
	EXPECT_LE(ROUNDS * self->count * (__s64)(LOOP_INSNS * N), value[2]);
	EXPECT_LT(0, value[1]);

	/* The first counter starts before the others, and stops after them. */
	rest = value[0] - value[1] - value[2];
	EXPECT_LT(0, rest);
	EXPECT_GT(value[2], rest);
}

TEST_F(smp, kernel_mode_is_counted)
{
	expect_sum(_metadata, self, 1, COUNTER, 2);
	expect_sum(_metadata, self, 1, 2, COUNTER);
}

TEST_HARNESS_MAIN
