// SPDX-License-Identifier: GPL-2.0-only
/*
 * A buffer contains its records and zeros, and nothing that the kernel or another program had in
 * that memory before. (All tests that read records check their reserved fields.)
 */
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	256
#define RATE	1009
#define N	1000000UL

FIXTURE(zero)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_SETUP(zero)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);

	/* Fills and frees memory that the next trace is likely to get. */
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, 10 * N));
	ASSERT_EQ(0, trace_free(&self->trace));

	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
}

FIXTURE_TEARDOWN(zero)
{
	trace_free(&self->trace);
	close(self->fd);
}

/* Returns the number of bytes after the records that are not 0, on all CPUs. */
static size_t count_nonzero_bytes(const struct trace *t, const cpu_set_t *cpus)
{
	const char *start;
	size_t i, n = 0;
	int cpu;

	for_each_cpu_in(cpu, cpus) {
		start = (const char *)t->buffer[cpu];
		for (i = t->buffer[cpu]->capture_end; i < t->size; i++)
			n += start[i] != 0;
	}
	return n;
}

TEST_F(zero, new_buffers_are_zero)
{
	cpu_set_t cpus;
	int cpu;

	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(cpu, &cpus)
		EXPECT_EQ(sizeof(struct perfmon_buffer_header),
			  self->trace.buffer[cpu]->capture_end);
	EXPECT_EQ(0UL, count_nonzero_bytes(&self->trace, &cpus));
}

TEST_F(zero, memory_after_the_records_is_zero)
{
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	EXPECT_LT(sizeof(struct perfmon_buffer_header),
		  self->trace.buffer[self->cpu]->capture_end);
	EXPECT_EQ(0UL, count_nonzero_bytes(&self->trace, &cpus));
}

TEST_HARNESS_MAIN
