// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests that after the end of a trace, whatever its cause, every register of the PMU that it has
 * written has its old value, on every CPU.
 *
 * The registers are read through /dev/cpu/N/msr and the local APIC, not through
 * the module.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "restore.h"
#include "snapshot.h"
#include "trace.h"

#define PAGES	64
#define N	100000UL

FIXTURE(restore)
{
	struct restore r;
};

FIXTURE_VARIANT(restore)
{
	enum restore_end end;
	__u32 rate;	/* a small rate makes PMIs likely at the end */
	unsigned int pages;
};

FIXTURE_VARIANT_ADD(restore, stop) { STOP, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, stop_at_a_high_rate) { STOP, 97, PAGES };
FIXTURE_VARIANT_ADD(restore, stop_when_full) { STOP, 97, 1 };
FIXTURE_VARIANT_ADD(restore, close) { CLOSE, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, close_at_a_high_rate) { CLOSE, 97, PAGES };
FIXTURE_VARIANT_ADD(restore, exit) { EXIT, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, sigkill) { KILL, 10007, PAGES };
FIXTURE_VARIANT_ADD(restore, sigkill_at_a_high_rate) { KILL, 97, PAGES };

/* A config with all counters, and branches if the CPU can record them. */
static struct perfmon_config config_of_all_counters(const struct perfmon_properties *p,
					__u32 rate)
{
	struct perfmon_config c = { .events = { 0 } };
	int i, n = trace_all_counters(&c, p);

	for (i = 0; i < n; i++) {
		c.rate[i] = rate + i;
		c.flags[i] = FLAG_USER | FLAG_PC;
	}
	if (p->flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH)
		c.flags[0] |= FLAG_LAST_BRANCH;
	return c;
}

/* Runs in the child: traces with every counter until the parent asks to end. */
static void trace_everything(const struct perfmon_properties *p, enum restore_end end,
			     __u32 rate, unsigned int pages,
			     const struct restore_pipes *pipes)
{
	struct perfmon_config config = config_of_all_counters(p, rate);
	int fd = device_open(O_RDWR), i;
	struct trace t;

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
	if (restore_report_step(pipes))
		_exit(1);
	loop(N);
	if (end == EXIT)
		_exit(0);
	if (end == CLOSE)
		close(fd);
	else if (trace_stop(&t))
		_exit(1);
	if (restore_report_step(pipes))
		_exit(1);
	_exit(0);
}

FIXTURE_SETUP(restore)
{
	struct restore_pipes pipes;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, restore_begin(&self->r));
	ASSERT_LE(0, restore_fork(&self->r, &pipes));
	if (!self->r.child)
		trace_everything(&self->r.p, variant->end, variant->rate,
				 variant->pages, &pipes);
}

FIXTURE_TEARDOWN(restore)
{
	restore_finish(&self->r);
}

TEST_F(restore, every_register_reads_as_before)
{
	const struct restore *r = &self->r;
	struct snapshot pmu;
	int cpu;

	/* While the trace runs, the module has changed the registers on every CPU. */
	ASSERT_EQ(0, restore_wait_until_used(r));
	for_each_cpu_in(cpu, &r->cpus) {
		ASSERT_EQ(0, snapshot_read(&r->p, cpu, &pmu));
		EXPECT_STRNE("", snapshot_difference(&r->before[cpu], &pmu));
	}

	ASSERT_EQ(0, restore_end_child(r, variant->end));
	EXPECT_STREQ("", restore_difference(r));
}

TEST_HARNESS_MAIN
