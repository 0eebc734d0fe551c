// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's policy for perf events, which each call of a trace checks again: a descriptor does not
 * have the rights of the process that opened it.
 *
 * A variant is the caller's rights and perf_event_paranoid.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "rights.h"
#include "trace.h"

#define PAGES	4

static const struct perfmon_config user = {
	.events = { INSTRUCTIONS },
	.rate = { 1000003 },
	.flags = { FLAG_USER },
};

static const struct perfmon_config kernel = {
	.events = { INSTRUCTIONS },
	.rate = { 1000003 },
	.flags = { FLAG_OS },
};

FIXTURE(policy)
{
	struct trace trace;
	int fd;
	int paranoid;	/* perf_event_paranoid before the test */
	int err;	/* the expected negative errno */
};

#include "paranoid_variants.h"

FIXTURE_SETUP(policy)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->err = policy_errno(variant->err, variant->capable);
	self->paranoid = paranoid_read();
	ASSERT_EQ(0, paranoid_write(variant->paranoid));
}

FIXTURE_TEARDOWN(policy)
{
	restore_rights(_metadata, self->paranoid);
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(policy, calls_check_the_policy_in_each_state)
{
	int err = self->err, handle;
	struct perfmon_config c;
	struct perfmon_alloc a;

	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(err, trace_define(self->fd, 0, EVENT_INSTRUCTIONS));
	EXPECT_EQ(err, trace_alloc_buffers(self->fd, cpu_ids(), PAGES));

	/* Enters each state with root's rights, then makes the calls without them. */
	ASSERT_EQ(0, seteuid(0));
	device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(err, device_ioctl(self->fd, IOCTL_PERFMON_GET_ALLOC, &a));
	handle = trace_handle(self->fd, 0);
	EXPECT_EQ(err, handle < 0 ? handle : 0);
	if (handle >= 0)
		close(handle);
	EXPECT_EQ(err, trace_stage(&self->trace, &user));
	EXPECT_EQ(err, trace_stage(&self->trace, &kernel));

	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, trace_stage(&self->trace, &user));
	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(err, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &c));
	EXPECT_EQ(err, trace_start(&self->trace));
	if (!err)
		EXPECT_EQ(0, trace_stop(&self->trace));

	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(err, trace_stop(&self->trace));
	ASSERT_EQ(0, seteuid(0));

	/* If STOP was refused, the trace still runs. */
	EXPECT_EQ(err ? -EBADFD : 0,
		  device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &c));
	ASSERT_EQ(0, trace_stop(&self->trace));
	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(err, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL));

	/* If FREE_TRACE was refused, the trace still exists. */
	ASSERT_EQ(0, seteuid(0));
	EXPECT_EQ(err ? 0 : -EBADFD,
		  device_ioctl(self->fd, IOCTL_PERFMON_GET_ALLOC, &a));
}

/*
 * START checks the policy again, although the config for kernel mode was staged with sufficient
 * rights.
 */
TEST_F(policy, start_checks_the_policy_again)
{
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &kernel));
	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(self->err, trace_start(&self->trace));
	ASSERT_EQ(0, seteuid(0));
	if (self->err)
		EXPECT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, trace_stop(&self->trace));
}

TEST_F(policy, properties_and_info_need_no_rights)
{
	struct perfmon_properties p;
	struct perfmon_info info;

	ASSERT_EQ(0, drop_rights(variant->capable));
	EXPECT_EQ(0, device_properties(self->fd, &p));
	EXPECT_EQ(0, device_ioctl(self->fd, PERFMON_GET_INFO, &info));
}

/* Reserved bits are checked before the policy, the policy before state and values. */
TEST_F(policy, policy_is_checked_between_reserved_bits_and_state)
{
	const struct perfmon_config bad = { .events = { 0 } };
	struct perfmon_event_definition d = {
		.id = MODEL_EVENT(0),
		.extra = 1,
	};
	int err = self->err;

	ASSERT_EQ(0, drop_rights(variant->capable));
	self->trace.fd = self->fd;
	EXPECT_EQ(-EFAULT, device_ioctl(self->fd, IOCTL_PERFMON_STAGE_CONFIG,
					NULL));
	EXPECT_EQ(-EFAULT, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, NULL));
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	EXPECT_EQ(err ? err : -EBADFD, trace_stage(&self->trace, &bad));
	EXPECT_EQ(err ? err : -EBADFD, trace_start(&self->trace));
	EXPECT_EQ(err ? err : -EBADFD, trace_stop(&self->trace));
	EXPECT_EQ(err ? err : -EINVAL, trace_alloc_buffers(self->fd, 0, 0));
}

TEST_HARNESS_MAIN
