// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests that after the close of the descriptor, whatever its cause, every register of the PMU that
 * the module has written has its old value, on every CPU.
 *
 * The registers are read through /dev/cpu/N/msr and the local APIC, not
 * through the module.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "msr.h"
#include "restore.h"
#include "snapshot.h"

#define N	1000000UL

FIXTURE(restore)
{
	struct restore r;
};

FIXTURE_VARIANT(restore)
{
	enum restore_end end;
};

FIXTURE_VARIANT_ADD(restore, close) { .end = CLOSE };
FIXTURE_VARIANT_ADD(restore, exit) { .end = EXIT };
FIXTURE_VARIANT_ADD(restore, sigkill) { .end = KILL };

/* Runs in the child: counts with every counter until the parent asks to end. */
static void count_with_everything(const struct perfmon_properties *p,
				  enum restore_end end,
				  const struct restore_pipes *pipes)
{
	int fd = device_open(O_RDWR);
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
	if (restore_report_step(pipes))
		_exit(1);
	if (end == CLOSE) {
		close(fd);
		if (restore_report_step(pipes))
			_exit(1);
	}
	_exit(0);
}

FIXTURE_SETUP(restore)
{
	struct restore_pipes pipes;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, restore_begin(&self->r));
	ASSERT_LE(0, restore_fork(&self->r, &pipes));
	if (!self->r.child)
		count_with_everything(&self->r.p, variant->end, &pipes);
}

FIXTURE_TEARDOWN(restore)
{
	restore_finish(&self->r);
}

TEST_F(restore, every_register_reads_as_before)
{
	const struct restore *r = &self->r;
	struct snapshot pmu;
	int cpu, i;

	/* While the child counts, the module has changed the registers on every CPU. */
	ASSERT_EQ(0, restore_wait_until_used(r));
	for_each_cpu_in(cpu, &r->cpus) {
		ASSERT_EQ(0, snapshot_read(&r->p, cpu, &pmu));
		for (i = 0; i < r->p.max_num_programmable_events; i++) {
			EXPECT_EQ(0x004300c0ULL,
				  pmu.select[i] & ~PERFEVTSEL_INT);
			EXPECT_NE(0ULL, pmu.counter[i]);
		}
	}

	ASSERT_EQ(0, restore_end_child(r, variant->end));
	EXPECT_STREQ("", restore_difference(r));
}

TEST_HARNESS_MAIN
