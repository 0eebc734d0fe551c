// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first CPU of a core comes online after IOCTL_PERFMON_ALLOC_TRACE, and so has no buffer. The
 * core's next CPU must then record the core's values. For a machine of cores with two threads each.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	16

/* The CPUs of the second core. */
#define LATE_CPU	2
#define LATE_SIBLING	3

FIXTURE(values_late)
{
	struct trace trace;
	int fd;
	int online;	/* the file "online" of CPU LATE_CPU */
};

FIXTURE_SETUP(values_late)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->online = cpu_open_online(LATE_CPU);
	ASSERT_LE(0, self->online);
	ASSERT_LE(0, pin_to_first_cpu());
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(values_late)
{
	trace_free(&self->trace);
	cpu_set_online(self->online, "1");
	close(self->online);
	close(self->fd);
}

/* Returns the number of temperatures that CPU @cpu has recorded. */
static __u64 count_temperatures(struct __test_metadata *_metadata, const struct trace *t, int cpu)
{
	struct trace_sums sums;

	EXPECT_STREQ("", trace_sum(t, cpu, &sums));
	return sums.event[0].values;
}

TEST_F(values_late, next_cpu_of_the_core_records_its_values)
{
	const struct perfmon_config config = one_event(MISC_EVENT(TEMPERATURE_CORE), 0, 0);
	struct trace *t = &self->trace;

	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, trace_alloc(t, self->fd, PAGES));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	ASSERT_EQ(0, trace_stage(t, &config));
	ASSERT_EQ(0, trace_loop(t, 1000));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_NOT_TRACED, t->buffer[LATE_CPU]->flags);
	EXPECT_EQ(1ULL, count_temperatures(_metadata, t, LATE_SIBLING));
	/* The first core records its temperature once, too. */
	EXPECT_EQ(1ULL, count_temperatures(_metadata, t, 0));
	EXPECT_EQ(0ULL, count_temperatures(_metadata, t, 1));
	ASSERT_EQ(0, trace_free(t));

	/* In a trace with buffers for all CPUs, the first CPU of the core records its values. */
	ASSERT_EQ(0, trace_alloc(t, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(t, &config));
	ASSERT_EQ(0, trace_loop(t, 1000));
	EXPECT_EQ(1ULL, count_temperatures(_metadata, t, LATE_CPU));
	EXPECT_EQ(0ULL, count_temperatures(_metadata, t, LATE_SIBLING));
}

TEST_HARNESS_MAIN
