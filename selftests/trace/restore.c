// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every register of the PMU that a trace touches reads as before once the trace
 * does not run any more, on every CPU, however it ended.
 *
 * The registers are read through /dev/cpu/N/msr and the local APIC, not through
 * the module.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kselftest_harness.h"
#include "snapshot.h"
#include "trace.h"

#define PAGES	64
#define N	100000UL

FIXTURE(restore)
{
	cpu_set_t cpus;
	struct perfmon_properties p;
	struct snapshot found[TRACE_MAX_CPUS];
	struct snapshot before[TRACE_MAX_CPUS];	/* the trace began */
	int child;
	int to_child;
	int from_child;
};

enum end { STOP, CLOSE, EXIT, KILL };

FIXTURE_VARIANT(restore)
{
	enum end end;
	__u32 rate;	/* a small one: interrupts are under way */
	unsigned int pages;
};

FIXTURE_VARIANT_ADD(restore, stop) { STOP, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, stop_in_a_storm) { STOP, 97, PAGES };
FIXTURE_VARIANT_ADD(restore, stop_when_full) { STOP, 97, 1 };
FIXTURE_VARIANT_ADD(restore, close) { CLOSE, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, close_in_a_storm) { CLOSE, 97, PAGES };
FIXTURE_VARIANT_ADD(restore, exit) { EXIT, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, sigkill) { KILL, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, sigkill_in_a_storm) { KILL, 97, PAGES };

/* All counters there are, and branches if they can be had. */
static struct perfmon_config everything(const struct perfmon_properties *p,
					__u32 rate)
{
	struct perfmon_config c = { .events = { 0 } };
	int i, n = 0;

	for (i = 0; i < p->max_num_programmable_events; i++, n++)
		c.events[n] = MODEL_EVENT(i);
	for (i = 0; i < p->max_num_fixed_events; i++, n++)
		c.events[n] = PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, i + 1);
	for (i = 0; i < n; i++) {
		c.rate[i] = rate + i;
		c.flags[i] = FLAG_USER | FLAG_PC;
	}
	if (p->flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH)
		c.flags[0] |= FLAG_LAST_BRANCH;
	return c;
}

/* Runs in the child: traces with everything until it is told to end. */
static void trace_everything(const struct perfmon_properties *p, enum end end,
			     __u32 rate, unsigned int pages, int in, int out)
{
	struct perfmon_config config = everything(p, rate);
	int fd = device_open(O_RDWR), i;
	struct trace t;
	char byte;

	if (fd < 0)
		_exit(1);
	for (i = 0; i < p->max_num_programmable_events; i++) {
		if (trace_define(fd, i, EVENT_INSTRUCTIONS))
			_exit(1);
	}
	if (trace_alloc(&t, fd, pages) || trace_stage(&t, &config) ||
	    trace_start(&t))
		_exit(1);
	loop(N);
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		_exit(1);
	loop(N);
	if (end == EXIT)
		_exit(0);
	if (end == CLOSE)
		close(fd);
	else if (trace_stop(&t))
		_exit(1);
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		_exit(1);
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
		ASSERT_GT(TRACE_MAX_CPUS, cpu);
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
		trace_everything(&self->p, variant->end, variant->rate,
				 variant->pages, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
}

/* Returns when the child does not trace any more: 0 or -1. */
static int end_child(FIXTURE_DATA(restore) *self, enum end end)
{
	char byte;

	if (end == KILL)
		kill(self->child, SIGKILL);
	else if (write(self->to_child, "", 1) != 1)
		return -1;
	if (end == CLOSE || end == STOP)
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
	char byte;
	int cpu;

	/* While it runs, the registers are the module's, on every CPU. */
	ASSERT_EQ(1, read(self->from_child, &byte, 1));
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &pmu));
		EXPECT_STRNE("", snapshot_difference(&self->before[cpu], &pmu));
	}

	ASSERT_EQ(0, end_child(self, variant->end));
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, snapshot_read(&self->p, cpu, &pmu));
		EXPECT_STREQ("", snapshot_difference(&self->before[cpu], &pmu));
	}
}

TEST_HARNESS_MAIN
