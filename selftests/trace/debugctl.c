// SPDX-License-Identifier: GPL-2.0-only
/*
 * A trace with branches restores IA32_DEBUGCTL, even if a PMI comes in the middle of START or STOP.
 * On PMUs before version 4, the handler of such a PMI sets a bit in this register.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "loop.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define ROUNDS	3000

/* A rate with few overflows per trace, the last at a different instruction in each round. */
static __u32 rate_of(int round)
{
	return 503 + round * 7 % 1000;
}

FIXTURE(debugctl)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_VARIANT(debugctl)
{
	__u32 flags;
	unsigned long loops;	/* number of loops in user mode */
};

FIXTURE_VARIANT_ADD(debugctl, kernel) { .flags = FLAG_OS, .loops = 1 };
FIXTURE_VARIANT_ADD(debugctl, user) { .flags = FLAG_USER, .loops = 1000 };

FIXTURE_SETUP(debugctl)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd, 4);
}

FIXTURE_TEARDOWN(debugctl)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(debugctl, debugctl_reads_as_before)
{
	struct perfmon_config config;
	__u64 before, after;
	int i;

	ASSERT_EQ(0, msr_read(self->cpu, MSR_IA32_DEBUGCTL, &before));
	for (i = 0; i < ROUNDS; i++) {
		config = one_event(INSTRUCTIONS, rate_of(i),
				   variant->flags | FLAG_LAST_BRANCH);
		ASSERT_EQ(0, trace_stage(&self->trace, &config));
		ASSERT_EQ(0, trace_start(&self->trace));
		loop(variant->loops);
		ASSERT_EQ(0, trace_stop(&self->trace));
		ASSERT_EQ(0, msr_read(self->cpu, MSR_IA32_DEBUGCTL, &after));
		ASSERT_EQ(before, after) {
			TH_LOG("in round %d", i);
		}
	}
}

TEST_HARNESS_MAIN
