// SPDX-License-Identifier: GPL-2.0-only
/*
 * On processors with top-down metrics (Ice Lake and later), Linux perf enables the metrics with its
 * first event, and leaves them enabled. They would count together with a fixed counter of the
 * module, and raise interrupts that the module does not expect. So the module disables the metrics
 * while it has the counters, even if perf enables them again meanwhile. Afterwards it enables them
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"
#include "perf.h"

#define N	100000UL

/* IA32_PERF_GLOBAL_CTRL: enables the metrics. Intel SDM, volume 4, table 2-2 */
#define EN_PERF_METRICS	(1ULL << 48)

FIXTURE(metrics)
{
	cpu_set_t cpus;
	int fd;
};

/* Returns the number of CPUs that have the metrics enabled, or a negative errno. */
static int count_enabled(const cpu_set_t *cpus)
{
	int cpu, err, count = 0;
	__u64 control;

	for_each_cpu_in(cpu, cpus) {
		err = msr_read(cpu, MSR_IA32_PERF_GLOBAL_CTRL, &control);
		if (err)
			return err;
		count += (control & EN_PERF_METRICS) != 0;
	}
	return count;
}

/* Enables or disables the metrics on each CPU. Returns 0 or a negative errno. */
static int write_each(const cpu_set_t *cpus, __u64 bit)
{
	int cpu, err = 0;
	__u64 control;

	for_each_cpu_in(cpu, cpus) {
		err = err ?: msr_read(cpu, MSR_IA32_PERF_GLOBAL_CTRL, &control);
		err = err ?: msr_write(cpu, MSR_IA32_PERF_GLOBAL_CTRL,
				       (control & ~EN_PERF_METRICS) | bit);
	}
	return err;
}

/* Waits until the module's timer has disabled the metrics. Returns count_enabled(). */
static int wait_until_disabled(const cpu_set_t *cpus)
{
	unsigned int waited_us = 0;
	int count;

	do {
		count = count_enabled(cpus);
	} while (count > 0 && wait_longer(&waited_us));
	return count;
}

FIXTURE_SETUP(metrics)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->fd = -1;
}

FIXTURE_TEARDOWN(metrics)
{
	if (self->fd >= 0)
		close(self->fd);
	write_each(&self->cpus, 0);
}

TEST_F(metrics, perf_leaves_metrics_enabled_and_the_module_counts_without_them)
{
	__u64 control;
	int cpu;

	ASSERT_EQ(0, write_each(&self->cpus, 0));
	cpu = pin_to_first_cpu();
	ASSERT_LE(0, cpu);
	ASSERT_LT(0, perf_count_loop_once(N));
	ASSERT_EQ(0, msr_read(cpu, MSR_IA32_PERF_GLOBAL_CTRL, &control));
	ASSERT_EQ(EN_PERF_METRICS, control & EN_PERF_METRICS);

	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(0, count_enabled(&self->cpus));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_loop_count(self->fd, 0, N));
	EXPECT_EQ(0, count_enabled(&self->cpus));
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(1, count_enabled(&self->cpus));
}

TEST_F(metrics, each_cpu_gets_its_bit_back)
{
	ASSERT_EQ(0, write_each(&self->cpus, EN_PERF_METRICS));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(0, count_enabled(&self->cpus));
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(CPU_COUNT(&self->cpus), count_enabled(&self->cpus));
}

TEST_F(metrics, a_bit_that_is_set_while_counters_run_is_cleared)
{
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, write_each(&self->cpus, EN_PERF_METRICS));
	EXPECT_EQ(0, wait_until_disabled(&self->cpus));
	EXPECT_EQ(0, pmc_stop(self->fd, 0));
	close(self->fd);
	self->fd = -1;
	/* The metrics stay disabled if they were disabled before. */
	EXPECT_EQ(0, count_enabled(&self->cpus));
}

TEST_HARNESS_MAIN
