// SPDX-License-Identifier: GPL-2.0-only
/*
 * A buffer becomes full during a call that starts or stops another fixed-function counter. One
 * register controls all fixed-function counters, and the call reads and writes this register. If a
 * PMI between the read and the write stops a counter, that counter must stay stopped.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define ROUNDS	3000

/* The trace uses counter 1 (cycles), the calls are for counter 0. */
#define EVENT	FIXED_EVENT(UNHALTED_CORE_CYCLES)
#define CONTROL	(0xfULL << 4)

/* With branch records few samples fill a page, in a varying number of calls. */
static __u32 rate_of(int round)
{
	return 2003 + round % 1000;
}

TEST(fixed_counter_stays_stopped_on_a_full_cpu)
{
	int fd = open_device(_metadata, O_RDWR), calls = 0, i;
	struct perfmon_config config;
	struct trace t;
	__u64 control;

	trace_on_first_cpu(_metadata, &t, fd, 1);
	ASSERT_EQ(0, pmc_setup_instructions(fd, PMC_FIXED(0), PMCF_USR));
	for (i = 0; i < ROUNDS; i++) {
		config = one_event(EVENT, rate_of(i),
				   FLAG_OS | FLAG_LAST_BRANCH);
		ASSERT_EQ(0, trace_stage(&t, &config));
		ASSERT_EQ(0, trace_start(&t));
		while (!(t.buffer[sched_getcpu()]->flags &
			 PERFMON_BUFFER_FLAG_FULL)) {
			ASSERT_EQ(0, pmc_start(fd, PMC_FIXED(0)));
			ASSERT_EQ(0, pmc_stop(fd, PMC_FIXED(0)));
			calls += 2;
		}
		ASSERT_EQ(0, msr_read(sched_getcpu(), MSR_IA32_FIXED_CTR_CTRL,
				      &control));
		ASSERT_EQ(0ULL, control & CONTROL) {
			TH_LOG("in round %d, after %d calls", i, calls);
		}
		ASSERT_EQ(0, trace_stop(&t));
	}
	TH_LOG("%d times full, in %d calls", i, calls);
	trace_free(&t);
	close(fd);
}

TEST_HARNESS_MAIN
