// SPDX-License-Identifier: GPL-2.0-only
/*
 * IA32_DEBUGCTL is after a trace with branches what it was before, wherever in
 * START and STOP an overflow interrupt has come. Before version 4 such an
 * interrupt has to set a bit there.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kselftest_harness.h"
#include "msr.h"
#include "trace.h"

#define TIMES	5000

/* Each call is a small number of overflows, the last of them at another place. */
static __u32 rate_of(int round)
{
	return 503 + round * 7 % 1000;
}

TEST(debugctl_is_put_back)
{
	int fd = device_open(O_RDWR), cpu, i;
	struct perfmon_config config;
	__u64 before, after;
	cpu_set_t cpus;
	struct trace t;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, cpus_online(&cpus));
	cpu = cpu_next(&cpus, -1);
	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, msr_read(cpu, MSR_IA32_DEBUGCTL, &before));
	ASSERT_EQ(0, trace_alloc(&t, fd, 4));
	for (i = 0; i < TIMES; i++) {
		config = one_event(INSTRUCTIONS, rate_of(i),
				   FLAG_OS | FLAG_LAST_BRANCH);
		ASSERT_EQ(0, trace_stage(&t, &config));
		ASSERT_EQ(0, trace_start(&t));
		ASSERT_EQ(0, trace_stop(&t));
		ASSERT_EQ(0, msr_read(cpu, MSR_IA32_DEBUGCTL, &after));
		ASSERT_EQ(before, after) {
			TH_LOG("in round %d", i);
		}
	}
	trace_free(&t);
	close(fd);
}

TEST_HARNESS_MAIN
