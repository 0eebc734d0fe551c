// SPDX-License-Identifier: GPL-2.0-only
/*
 * A buffer that is read while it is written: its records are complete when they become readable,
 * and do not change after that.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "trace.h"

#define PAGES	4096
#define RATE	997

/* The minimum number of records that are read while the trace still writes records. */
#define RECORDS	20000

FIXTURE(live)
{
	struct trace trace;
	int fd;
	int cpu;	/* the traced CPU: not that of the reader, if there are two */
	pid_t worker;
};

FIXTURE_SETUP(live)
{
	struct perfmon_config config = {
		.events = { INSTRUCTIONS, MODEL_EVENT(0) },
		.rate = { RATE },
		.flags = { FLAG_USER | FLAG_PC, FLAG_USER | FLAG_TIMEBASE0 },
	};
	cpu_set_t cpus;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, trace_define(self->fd, 0, EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, cpus_online(&cpus));
	self->cpu = cpu_next(&cpus, cpu_next(&cpus, -1));
	ASSERT_EQ(0, pin_to_cpu(cpu_next(&cpus, -1)));
	if (self->cpu < 0)
		self->cpu = cpu_next(&cpus, -1);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	self->worker = fork();
	ASSERT_LE(0, self->worker);
	if (!self->worker) {
		if (pin_to_cpu(self->cpu))
			_exit(1);
		for (;;)
			loop(1000);
	}
}

FIXTURE_TEARDOWN(live)
{
	if (self->worker > 0) {
		kill(self->worker, SIGKILL);
		waitpid(self->worker, NULL, 0);
	}
	trace_free(&self->trace);
	close(self->fd);
}

/* Returns whether the buffer is full, so that no more records come. */
static bool is_full(const FIXTURE_DATA(live) *self)
{
	return __atomic_load_n(&self->trace.buffer[self->cpu]->flags, __ATOMIC_RELAXED) &
	       PERFMON_BUFFER_FLAG_FULL;
}

TEST_F(live, live_records_are_whole_and_stay)
{
	struct trace_cursor c, end;
	struct trace_record r;
	__u64 records = 0, updates = 0;
	int more = 0, first = 1;
	struct trace_sums sums;
	size_t size;
	char *copy;

	ASSERT_EQ(0, trace_start(&self->trace));
	c = trace_records(&self->trace, self->cpu);
	while ((records < RECORDS || updates < 2) && more >= 0) {
		end = c;
		trace_records_update(&self->trace, self->cpu, &c);
		if (c.end == end.end) {
			if (!is_full(self))
				continue;
			/*
			 * Starts anew: on a busy host the reader may stand still until the buffer
			 * is full.
			 */
			ASSERT_EQ(0, trace_stop(&self->trace));
			ASSERT_EQ(0, trace_start(&self->trace));
			c = trace_records(&self->trace, self->cpu);
			records = 0;
			updates = 0;
			continue;
		}
		ASSERT_LT(end.end, c.end);
		updates++;

		/* The records of a PMI begin with a TIME record. */
		first = 1;
		while ((more = trace_next(&c, &r)) > 0) {
			if (first)
				EXPECT_EQ(PERFMON_RECORD_TIME, r.type);
			first = 0;
			records++;
		}
	}
	EXPECT_EQ(0, more);

	/* In the end, the records that were read have not changed. */
	size = c.next - (const char *)self->trace.buffer[self->cpu];
	copy = malloc(size);
	ASSERT_NE(NULL, copy);
	memcpy(copy, self->trace.buffer[self->cpu], size);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0, memcmp(copy + sizeof(struct perfmon_buffer_header),
			    self->trace.buffer[self->cpu] + 1,
			    size - sizeof(struct perfmon_buffer_header)));
	free(copy);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(sums.event[0].total, sums.event[1].total);
	/*
	 * If the buffer is full, the sample that did not fit has no record, and is only in the
	 * count.
	 */
	EXPECT_EQ(sums.event[0].total / RATE - is_full(self), sums.event[0].ticks);
}

TEST_HARNESS_MAIN
