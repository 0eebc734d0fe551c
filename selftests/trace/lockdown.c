// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel_lockdown(7) at its level "confidentiality" forbids tracing, also by a trace that was
 * started before. Lockdown can't be undone, so this test needs a virtual machine of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "rights.h"
#include "trace.h"

TEST(tracing_is_forbidden)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, 1009,
						       FLAG_USER | FLAG_PC);
	struct perfmon_properties p;
	struct perfmon_config c;
	struct perfmon_alloc a;
	struct perfmon_info i;
	struct trace trace;
	int fd;

	SKIP_WITHOUT_PMU();
	SKIP_WITHOUT_LOCKDOWN();

	fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, trace_alloc(&trace, fd, 16));
	ASSERT_EQ(0, trace_stage(&trace, &config));
	ASSERT_EQ(0, trace_start(&trace));

	ASSERT_EQ(0, lockdown("confidentiality"));
	EXPECT_EQ(-EPERM, trace_stop(&trace));
	EXPECT_EQ(-EPERM, trace_start(&trace));
	EXPECT_EQ(-EPERM, trace_stage(&trace, &config));
	EXPECT_EQ(-EPERM, trace_handle(fd, 0));
	EXPECT_EQ(-EPERM, trace_define(fd, 0, EVENT_INSTRUCTIONS));
	EXPECT_EQ(-EPERM, device_ioctl(fd, IOCTL_PERFMON_FREE_TRACE, NULL));
	EXPECT_EQ(-EPERM, device_ioctl(fd, IOCTL_PERFMON_GET_ALLOC, &a));
	EXPECT_EQ(-EPERM, device_ioctl(fd, IOCTL_PERFMON_GET_CONFIG, &c));
	EXPECT_EQ(0, device_properties(fd, &p));
	EXPECT_EQ(0, device_ioctl(fd, PERFMON_GET_INFO, &i));

	/* Closing is always allowed, and mapped buffers can be read. */
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(PERFMON_BUFFER_VERSION, trace.buffer[0]->version);
	fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EPERM, trace_alloc_buffers(fd, cpu_ids(), 16));
	close(fd);
}

TEST_HARNESS_MAIN
