// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs that go offline and come online while a trace runs: the records of an offline CPU are
 * complete, other CPUs continue, and a CPU that comes online later is not traced.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "trace.h"

#define PAGES	256
#define RATE	1009U
#define N	100000UL

#define HEADER	sizeof(struct perfmon_buffer_header)

static const struct perfmon_config config = {
	.events = { INSTRUCTIONS },
	.rate = { RATE },
	.flags = { FLAG_USER | FLAG_PC },
};

FIXTURE(hotplug)
{
	struct trace trace;
	int fd;
	int cpu;		/* the CPU that goes offline */
	int home;		/* a CPU that stays online */
	int online;		/* the file "online" of @cpu */
};

FIXTURE_SETUP(hotplug)
{
	SKIP_WITHOUT_PMU();
	self->online = -1;
	self->fd = open_device(_metadata, O_RDWR);
	FIND_CPU_TO_SWITCH(self);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(hotplug)
{
	/* If the CPU is online, as it should be, this call fails with EINVAL. */
	cpu_set_online(self->online, "1");
	close(self->online);
	trace_free(&self->trace);
	close(self->fd);
}

/* Executes the loop on the CPU, and returns home. */
static int loop_on_cpu(FIXTURE_DATA(hotplug) *self, unsigned long n)
{
	int err = pin_to_cpu(self->cpu);

	if (err)
		return err;
	loop(n);
	return pin_to_cpu(self->home);
}

TEST_F(hotplug, offline_cpu_leaves_its_records)
{
	const struct perfmon_buffer_header *buffer_of_cpu, *buffer_of_home;
	struct trace_sums sums;
	__u64 end, total;

	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	buffer_of_cpu = self->trace.buffer[self->cpu];
	buffer_of_home = self->trace.buffer[self->home];
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	EXPECT_EQ(0U, buffer_of_cpu->flags);
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));

	/* The buffer has the records that STOP writes for other CPUs. */
	EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE, buffer_of_cpu->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	total = sums.event[0].total;
	EXPECT_LE(LOOP_INSNS * N, total);
	EXPECT_GE(LOOP_INSNS * N + CALL_OVERHEAD, total);
	EXPECT_EQ(total / RATE, sums.event[0].ticks);
	EXPECT_EQ(total % RATE, sums.event[0].counted);
	end = buffer_of_cpu->capture_end;

	/* The CPU is not traced when it is back online. The other CPUs are. */
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	loop(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE, buffer_of_cpu->flags);
	EXPECT_EQ(end, buffer_of_cpu->capture_end);
	EXPECT_EQ(0U, buffer_of_home->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->home, &sums));
	EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
	EXPECT_EQ(sums.event[0].total / RATE, sums.event[0].ticks);

	/* The next run traces the CPU again. */
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0U, buffer_of_cpu->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(total, sums.event[0].total);
}

TEST_F(hotplug, cpu_that_comes_online_later_is_not_traced)
{
	const struct perfmon_buffer_header *buffer_of_cpu;
	struct trace_sums sums;

	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	buffer_of_cpu = self->trace.buffer[self->cpu];
	EXPECT_EQ(PERFMON_BUFFER_FLAG_NOT_TRACED, buffer_of_cpu->flags);
	EXPECT_EQ(HEADER, buffer_of_cpu->capture_end);

	/*
	 * The CPU was offline when the buffers were allocated, so it is traced neither in this run
	 * nor in the next.
	 */
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	loop(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_NOT_TRACED, buffer_of_cpu->flags);
	EXPECT_EQ(HEADER, buffer_of_cpu->capture_end);
	ASSERT_STREQ("", trace_sum(&self->trace, self->home, &sums));
	EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
	EXPECT_GE(LOOP_INSNS * N + 10 * CALL_OVERHEAD, sums.event[0].total);

	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_NOT_TRACED, buffer_of_cpu->flags);
	EXPECT_EQ(HEADER, buffer_of_cpu->capture_end);

	/* A new trace has a buffer for the CPU. */
	ASSERT_EQ(0, trace_free(&self->trace));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	buffer_of_cpu = self->trace.buffer[self->cpu];
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, loop_on_cpu(self, N));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0U, buffer_of_cpu->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
}

/* Offline between ALLOC and START: the CPU has no records, and its flag says why. */
TEST_F(hotplug, cpu_offline_at_start_has_no_records)
{
	const struct perfmon_buffer_header *buffer_of_cpu;

	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	buffer_of_cpu = self->trace.buffer[self->cpu];
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE, buffer_of_cpu->flags);
	EXPECT_EQ(HEADER, buffer_of_cpu->capture_end);
}

/* The CPU is switched many times, with samples at a high rate on the other CPU. */
TEST_F(hotplug, repeated_switching_loses_no_sample)
{
	struct perfmon_config often = config;
	struct trace_sums sums;
	int i;

	often.rate[0] = 97;
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &often));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, trace_start(&self->trace));
		ASSERT_EQ(0, loop_on_cpu(self, 1000 * i + 1));
		loop(1000);
		ASSERT_EQ(0, cpu_set_online(self->online, "0"));
		loop(1000);
		if (i % 2)
			ASSERT_EQ(0, trace_stop(&self->trace));
		ASSERT_EQ(0, cpu_set_online(self->online, "1"));
		ASSERT_EQ(0, trace_stop(&self->trace));
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_LE(LOOP_INSNS * (1000ULL * i + 1), sums.event[0].total);
		EXPECT_EQ(sums.event[0].total / 97, sums.event[0].ticks);
		EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE,
			  self->trace.buffer[self->cpu]->flags);
		ASSERT_STREQ("", trace_sum(&self->trace, self->home, &sums));
		EXPECT_LE(LOOP_INSNS * 2000ULL, sums.event[0].total);
		EXPECT_EQ(sums.event[0].total / 97, sums.event[0].ticks);
		EXPECT_EQ(0U, self->trace.buffer[self->home]->flags);
	}
}

TEST_HARNESS_MAIN
