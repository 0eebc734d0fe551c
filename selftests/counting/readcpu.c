// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMIOREADCPU: the count of a counter on each CPU.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"

#define N	1000000UL

FIXTURE(readcpu)
{
	int fd;
	cpu_set_t cpus;
	int ids;	/* one more than the highest CPU number */
};

FIXTURE_SETUP(readcpu)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->ids = cpu_ids();
	ASSERT_LT(0, self->ids);
	ASSERT_GE(PMC_CPU_MAX, self->ids);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(readcpu)
{
	close(self->fd);
}

static int read_from(int fd, unsigned int first, unsigned int count,
		     struct pmc_cpu_data *data)
{
	memset(data, 0xff, sizeof(*data));
	data->pmcc_num = 0;
	data->pmcc_first_cpu = first;
	data->pmcc_count = count;
	data->reserved = 0;
	return device_ioctl(fd, PMIOREADCPU, data);
}

/* Executes N more iterations on each CPU than on the previous CPU. */
static int count_on_each(int fd, const cpu_set_t *cpus)
{
	unsigned long n = 0;
	int err, cpu;

	for_each_cpu_in(cpu, cpus) {
		n += N;
		err = pin_to_cpu(cpu);
		if (!err)
			err = pmc_count_loop(fd, 0, n);
		if (err)
			return err;
	}
	return 0;
}

TEST_F(readcpu, counts_are_those_of_the_cpu_that_ran_the_loop)
{
	struct pmc_cpu_data data;
	__s64 value, loops = 0;
	int cpu;

	ASSERT_EQ(0, count_on_each(self->fd, &self->cpus));
	ASSERT_EQ(0, read_from(self->fd, 0, PMC_CPU_MAX, &data));
	for (cpu = 0; cpu < self->ids; cpu++) {
		value = data.pmcc_value[cpu];
		if (!CPU_ISSET(cpu, &self->cpus)) {
			EXPECT_EQ(0, value);
			continue;
		}
		loops += LOOP_INSNS * N;
		EXPECT_LE(loops, value) {
			TH_LOG("CPU %d", cpu);
		}
		EXPECT_GE(loops + CALL_OVERHEAD, value) {
			TH_LOG("CPU %d", cpu);
		}
	}
}

TEST_F(readcpu, sum_of_all_cpus_is_the_value)
{
	struct pmc_cpu_data data;
	__s64 sum = 0;
	int cpu;

	ASSERT_EQ(0, count_on_each(self->fd, &self->cpus));
	ASSERT_EQ(0, read_from(self->fd, 0, PMC_CPU_MAX, &data));
	EXPECT_EQ(0, data.pmcc_num);
	EXPECT_EQ(0U, data.pmcc_first_cpu);
	EXPECT_EQ((__u32)self->ids, data.pmcc_count);
	EXPECT_EQ(0U, data.reserved);
	for (cpu = 0; cpu < self->ids; cpu++)
		sum += data.pmcc_value[cpu];
	EXPECT_LT(0, sum);
	EXPECT_EQ(pmc_value(self->fd, 0), sum);
}

TEST_F(readcpu, subset_of_cpus_reads_as_all_cpus)
{
	struct pmc_cpu_data all, some;
	int first, count, cpu;

	ASSERT_EQ(0, count_on_each(self->fd, &self->cpus));
	ASSERT_EQ(0, read_from(self->fd, 0, PMC_CPU_MAX, &all));
	for (first = 0; first < self->ids; first++) {
		for (count = 1; count <= self->ids - first; count++) {
			ASSERT_EQ(0, read_from(self->fd, first, count, &some));
			EXPECT_EQ((__u32)first, some.pmcc_first_cpu);
			EXPECT_EQ((__u32)count, some.pmcc_count);
			for (cpu = 0; cpu < count; cpu++)
				EXPECT_EQ(all.pmcc_value[first + cpu],
					  some.pmcc_value[cpu]);
		}

		/* With a count beyond the last CPU, the call returns values of existing CPUs. */
		ASSERT_EQ(0, read_from(self->fd, first, PMC_CPU_MAX, &some));
		EXPECT_EQ((__u32)(self->ids - first), some.pmcc_count);
		EXPECT_EQ(all.pmcc_value[first], some.pmcc_value[0]);
	}
}

TEST_F(readcpu, values_rise_while_running)
{
	struct pmc_cpu_data before, after;
	int here, cpu;
	__s64 more;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	for_each_cpu_in(here, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(here));
		ASSERT_EQ(0, read_from(self->fd, 0, PMC_CPU_MAX, &before));
		loop(N);
		ASSERT_EQ(0, read_from(self->fd, 0, PMC_CPU_MAX, &after));
		for_each_cpu_in(cpu, &self->cpus) {
			more = after.pmcc_value[cpu] - before.pmcc_value[cpu];
			if (cpu != here) {
				EXPECT_EQ(0, more);
				continue;
			}
			EXPECT_LE((__s64)(LOOP_INSNS * N), more);
			EXPECT_GE((__s64)(LOOP_INSNS * N) + 3 * CALL_OVERHEAD,
				  more);
		}
	}
}

TEST_F(readcpu, reset_zeroes_each)
{
	int cpu;

	ASSERT_EQ(0, count_on_each(self->fd, &self->cpus));
	ASSERT_EQ(0, pmc_reset(self->fd, 0));
	for (cpu = 0; cpu < self->ids; cpu++)
		EXPECT_EQ(0, pmc_value_on(self->fd, 0, cpu));
	ASSERT_EQ(0, count_on_each(self->fd, &self->cpus));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	for (cpu = 0; cpu < self->ids; cpu++)
		EXPECT_EQ(0, pmc_value_on(self->fd, 0, cpu));
}

#define READS	1000

TEST_F(readcpu, only_the_cpus_that_are_read_are_interrupted)
{
	int cpu, other, n, i, count = CPU_COUNT(&self->cpus);
	long before[PMC_CPU_MAX], calls;
	struct pmc_cpu_data data;

	ASSERT_LE(0, pin_to_first_cpu());
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	for_each_cpu_in(cpu, &self->cpus) {
		for (n = 0; n < count; n++)
			before[n] = cpu_interrupts_of("CAL", n);
		for (i = 0; i < READS; i++)
			ASSERT_EQ(0, read_from(self->fd, cpu, 1, &data));
		n = 0;
		for_each_cpu_in(other, &self->cpus) {
			calls = cpu_interrupts_of("CAL", n) - before[n];
			ASSERT_LE(0, before[n++]);
			/*
			 * If a read interrupted the CPU, there would be at least one interrupt for
			 * each read. The kernel also calls functions on other CPUs for other
			 * reasons, but less often. The number of these calls grows with time, and
			 * on a busy host the reads take long.
			 */
			if (other != cpu)
				EXPECT_GT(READS, calls) {
					TH_LOG("CPU %d for CPU %d", other, cpu);
				}
		}
	}
}

TEST_F(readcpu, wrong_arguments_are_refused)
{
	const struct pmc_cpu_data wrong[] = {
		{ .pmcc_first_cpu = self->ids, .pmcc_count = 1 },
		{ .pmcc_first_cpu = INT_MAX, .pmcc_count = 1 },
		{ .pmcc_first_cpu = UINT_MAX, .pmcc_count = 1 },
		{ .pmcc_first_cpu = UINT_MAX, .pmcc_count = 2 },
		{ .pmcc_count = 0 },
		{ .pmcc_count = PMC_CPU_MAX + 1 },
		{ .pmcc_count = UINT_MAX },
		{ .pmcc_count = 1, .reserved = 1 },
		{ .pmcc_count = 1, .reserved = 1U << 31 },
	};
	struct pmc_cpu_data data;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		data = wrong[i];
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOREADCPU, &data)) {
			TH_LOG("wrong[%u]", i);
		}
		EXPECT_EQ(0, memcmp(&data, &wrong[i], sizeof(data)));
	}
}

/* Reserved bits are checked before the state, other values after it. */
TEST_F(readcpu, counter_is_checked_before_the_cpus)
{
	struct pmc_cpu_data data = { .pmcc_num = 1, .pmcc_count = 0 };

	EXPECT_EQ(-EBUSY, device_ioctl(self->fd, PMIOREADCPU, &data));
	data.reserved = 1;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PMIOREADCPU, &data));
}

TEST_HARNESS_MAIN
