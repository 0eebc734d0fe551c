// SPDX-License-Identifier: GPL-2.0-only
/*
 * While a counter is being started, its bit in the global control is still clear. A PMI of
 * another counter at that moment must not conclude that Linux perf has cleared it, which the log
 * would report.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "kmsg.h"
#include "msr.h"
#include "trace.h"

#define ROUNDS	5000
#define PAGES	1024
#define PMC0	(1ULL << 0)

TEST(overflow_during_counter_start_is_not_reported)
{
	const __u32 global_ctrl = pmu_registers()->global_ctrl;
	/* The period is in kernel mode, and is longer than the handler. */
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 3001, FLAG_OS);
	struct kmsg_lines lines;
	int fd, kmsg, cpu, i;
	struct trace t;
	__u64 control;

	SKIP_WITHOUT_PMU();
	SKIP_WITHOUT_GLOBAL_CTRL();
	fd = open_device(_metadata, O_RDWR);
	kmsg = kmsg_open_end();
	ASSERT_LE(0, kmsg);
	cpu = pin_to_first_cpu();
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, trace_alloc(&t, fd, PAGES));
	ASSERT_EQ(0, trace_stage(&t, &config));
	ASSERT_EQ(0, trace_start(&t));
	ASSERT_EQ(0, msr_read(cpu, global_ctrl, &control));
	for (i = 0; i < ROUNDS && !t.buffer[cpu]->flags; i++) {
		/* Clears the bit, as the module may find it when it takes a counter. */
		ASSERT_EQ(0, msr_write(cpu, global_ctrl, control & ~PMC0));
		ASSERT_EQ(0, pmc_start(fd, 0));
		ASSERT_EQ(0, pmc_stop(fd, 0));
	}
	ASSERT_EQ(0, trace_stop(&t));
	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("%s", lines.line[0]);
	}
	trace_free(&t);
	close(kmsg);
	close(fd);
}

TEST_HARNESS_MAIN
