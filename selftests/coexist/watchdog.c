// SPDX-License-Identifier: GPL-2.0-only
/*
 * The NMI watchdog holds a counter through Linux perf. For a kernel with the watchdog, booted
 * with nmi_watchdog=1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "kmsg.h"
#include "loop.h"
#include "module.h"
#include "watchdog.h"

FIXTURE(watchdog)
{
	int fd;
	int kmsg;
};

FIXTURE_SETUP(watchdog)
{
	SKIP_WITHOUT_PMU();
	if (watchdog_set('1') == -ENOTSUPP)
		SKIP(return, "this kernel has no NMI watchdog");
	ASSERT_EQ(0, watchdog_set('0'));
	self->kmsg = load_fresh_module(_metadata);
	ASSERT_EQ(0, watchdog_set('1'));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(watchdog)
{
	close(self->fd);
	close(self->kmsg);
	watchdog_set('0');
}

TEST_F(watchdog, setup_is_refused_and_the_log_says_why)
{
	struct kmsg_lines lines;

	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(1, lines.count);
	EXPECT_NE(NULL, strstr(lines.line[0], "nmi_watchdog=0")) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

TEST_F(watchdog, setup_works_without_the_watchdog)
{
	__s64 value;

	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, watchdog_set('0'));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	value = pmc_loop_count(self->fd, 0, 1000);
	EXPECT_LE(LOOP_INSNS * 1000, value);
	EXPECT_GE(LOOP_INSNS * 1000 + CALL_OVERHEAD, value);
}

/* With place-holders, the kernel shows the watchdog as enabled although it holds no counter. */
TEST_F(watchdog, watchdog_enabled_while_we_count_has_no_counter)
{
	if (!module_has_place_holder())
		return;
	ASSERT_EQ(0, watchdog_set('0'));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, watchdog_set('1'));
	EXPECT_EQ(pmc_loop_count(self->fd, 0, 1000) + LOOP_INSNS * 1000,
		  pmc_loop_count(self->fd, 0, 2000));
	close(self->fd);

	/* The watchdog has no counter, even when the module has freed its counters. */
	self->fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	close(self->fd);

	/* Switching the watchdog off and on again gives it a counter. */
	ASSERT_EQ(0, watchdog_set('0'));
	ASSERT_EQ(0, watchdog_set('1'));
	self->fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
}

TEST_HARNESS_MAIN
