// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every register of the PMU that the module touches reads as before once the
 * descriptor is gone, on every CPU, however it went.
 *
 * The registers are read through /dev/cpu/N/msr and the local APIC, not
 * through the module.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kselftest_harness.h"
#include "loop.h"
#include "msr.h"
#include "snapshot.h"

#define N		1000000UL
#define MAX_CPUS	64

FIXTURE(restore)
{
	cpu_set_t cpus;
	struct perfmon_properties p;
	struct snapshot found[MAX_CPUS];
	struct snapshot before[MAX_CPUS];	/* the module came */
	int child;
	int to_child;
	int from_child;
};

enum end { CLOSE, EXIT, KILL };

FIXTURE_VARIANT(restore)
{
	enum end end;
};

FIXTURE_VARIANT_ADD(restore, close) { .end = CLOSE };
FIXTURE_VARIANT_ADD(restore, exit) { .end = EXIT };
FIXTURE_VARIANT_ADD(restore, sigkill) { .end = KILL };

/* Runs in the child: counts with every counter until it is told to end. */
static void count_with_everything(const struct perfmon_properties *p,
				  enum end end, int in, int out)
{
	int fd = device_open(O_RDWR);
	char byte;
	int i;

	if (fd < 0)
		_exit(1);
	for (i = 0; i < p->max_num_programmable_events; i++) {
		if (pmc_setup(fd, i, EVENT_INSTRUCTIONS, PMCF_USR | PMCF_OS) ||
		    pmc_start(fd, i))
			_exit(1);
	}
	loop(N);
	if (pmc_value(fd, 0) < (__s64)(LOOP_INSNS * N))
		_exit(1);
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		_exit(1);
	if (end == CLOSE) {
		close(fd);
		if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

FIXTURE_SETUP(restore)
{
	int in[2], out[2];
	int cpu, fd;

	if (!pmu_expected())
		SKIP(return, "this CPU has no PMU");
	fd = device_open(O_RDONLY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, device_ioctl(fd, IOCTL_PERFMON_GET_PROPERTIES, &self->p));
	close(fd);

	ASSERT_EQ(0, cpus_online(&self->cpus));
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_GT(MAX_CPUS, cpu);
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &self->found[cpu]));
		ASSERT_EQ(0, snapshot_disturb(&self->p, cpu,
					      &self->found[cpu]));
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &self->before[cpu]));
	}
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->cpus), &self->cpus));

	ASSERT_EQ(0, pipe(in));
	ASSERT_EQ(0, pipe(out));
	self->to_child = in[1];
	self->from_child = out[0];
	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child) {
		close(in[1]);
		close(out[0]);
		count_with_everything(&self->p, variant->end, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
}

/* Returns when the child has no descriptor any more: 0 or -1. */
static int end_child(FIXTURE_DATA(restore) *self, enum end end)
{
	char byte;

	if (end == KILL)
		kill(self->child, SIGKILL);
	else if (write(self->to_child, "", 1) != 1)
		return -1;
	if (end == CLOSE)
		return read(self->from_child, &byte, 1) == 1 ? 0 : -1;
	return waitpid(self->child, NULL, 0) == self->child ? 0 : -1;
}

FIXTURE_TEARDOWN(restore)
{
	int cpu;

	close(self->to_child);
	for_each_cpu_in(cpu, &self->cpus)
		snapshot_write(&self->p, cpu, &self->found[cpu]);
}

TEST_F(restore, every_register_reads_as_before)
{
	struct snapshot pmu;
	int cpu, i;
	char byte;

	/* While it counts, the registers are the module's, on every CPU. */
	ASSERT_EQ(1, read(self->from_child, &byte, 1));
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &pmu));
		for (i = 0; i < self->p.max_num_programmable_events; i++) {
			EXPECT_EQ(0x004300c0ULL,
				  pmu.select[i] & ~PERFEVTSEL_INT);
			EXPECT_NE(0ULL, pmu.counter[i]);
		}
	}

	ASSERT_EQ(0, end_child(self, variant->end));

	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &pmu));
		EXPECT_STREQ("", snapshot_difference(&self->before[cpu], &pmu));
	}
}

TEST_HARNESS_MAIN
