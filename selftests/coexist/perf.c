// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux perf and the module share the counters: the first user has all counters, and the other user
 * is refused, with a reason in the log, until the first user has released them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "kmsg.h"
#include "loop.h"
#include "module.h"
#include "perf.h"
#include "rights.h"

#define N	1000000UL

FIXTURE(coexist)
{
	int kmsg;
};

FIXTURE_SETUP(coexist)
{
	SKIP_WITHOUT_PMU();
	self->kmsg = load_fresh_module(_metadata);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(coexist)
{
	close(self->kmsg);
	ensure_module(_metadata);
}

/* Expects the count of the loop: LOOP_INSNS * N, and the instructions of the calls. */
#define EXPECT_COUNTED(value) do {					\
	long long counted = (value);					\
									\
	EXPECT_LE((long long)(LOOP_INSNS * N), counted);		\
	EXPECT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, counted);	\
} while (0)

TEST_F(coexist, perf_works_without_with_and_after_the_module)
{
	long long loaded, unloaded;

	loaded = perf_count_loop_once(N);
	EXPECT_COUNTED(loaded);

	ASSERT_EQ(0, module_unload());
	unloaded = perf_count_loop_once(N);
	EXPECT_EQ(loaded, unloaded);

	ASSERT_EQ(0, module_load());
	EXPECT_EQ(loaded, perf_count_loop_once(N));
}

/* An open descriptor alone holds no counters. */
TEST_F(coexist, perf_works_beside_an_idle_descriptor)
{
	int fd = open_device(_metadata, O_RDWR);

	EXPECT_COUNTED(perf_count_loop_once(N));
	close(fd);
}

TEST_F(coexist, setup_is_refused_while_perf_counts)
{
	struct kmsg_lines lines;
	struct pmc pmc;
	int perf, fd;

	perf = perf_hold_counters();
	ASSERT_LE(0, perf);
	fd = open_device(_metadata, O_RDWR);

	EXPECT_EQ(-EBUSY, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_setup(fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));

	/* Refused calls have no effect, and do not disturb perf. */
	EXPECT_EQ(-EBUSY, pmc_get(fd, 0, &pmc));
	ASSERT_EQ(0, ioctl(perf, PERF_EVENT_IOC_RESET, 0));
	EXPECT_COUNTED(perf_count_loop(perf, N));

	/* The log names the owner of the counters once. */
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(1, lines.count);
	EXPECT_TRUE(kmsg_names_perf(lines.line[0])) {
		TH_LOG("the log says: %s", lines.line[0]);
	}

	/* When perf's event is closed, the refused call succeeds. */
	close(perf);
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(fd, 0, N));
	EXPECT_COUNTED(pmc_value(fd, 0));
	close(fd);
}

/* With place-holders, perf's events can be opened, but read(2) shows that they wait. */
TEST_F(coexist, perf_is_refused_while_a_counter_is_set_up)
{
	int fd = device_open(O_RDWR);
	int clock;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	ASSERT_EQ(0, pmc_start(fd, 0));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	loop(N);
	ASSERT_EQ(0, pmc_stop(fd, 0));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(fd, 0));

	/* Events that need no hardware counter still work. */
	clock = perf_open_task_clock();
	EXPECT_LE(0, clock);
	close(clock);

	/* close(2) frees the counters. */
	close(fd);
	EXPECT_COUNTED(perf_count_loop_once(N));
}

/* Returns the owner of counter 0 that PERFMON_GET_OWNER reports to a caller without rights. */
static int owner_without_rights(int fd)
{
	struct perfmon_counter_owner owner = { .num = 0 };
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(drop_rights(false) || device_ioctl(fd, PERFMON_GET_OWNER, &owner) ? 99 : owner.kind);
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

/*
 * To a caller without rights, PERFMON_GET_OWNER reports the result of the last attempt to get the
 * counters.
 */
TEST_F(coexist, perf_is_the_owner_after_a_load_beside_it)
{
	int perf, fd;

	ASSERT_EQ(0, module_unload());
	perf = perf_hold_counters();
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, module_load());
	fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(PERFMON_OWNER_PERF, owner_without_rights(fd));
	close(perf);
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	close(fd);
	fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(PERFMON_OWNER_NONE, owner_without_rights(fd));
	close(fd);
}

TEST_F(coexist, perf_and_counter_agree)
{
	long long perf[2], ours[2];
	int i, fd;

	for (i = 0; i < 2; i++) {
		perf[i] = perf_count_loop_once((i + 1) * N);
		EXPECT_LE(0, perf[i]);
	}
	fd = open_device(_metadata, O_RDWR);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
		ASSERT_EQ(0, pmc_count_loop(fd, 0, (i + 1) * N));
		ours[i] = pmc_value(fd, 0);
	}
	close(fd);

	/* The instructions of the calls differ, but the loop's count is the same. */
	EXPECT_EQ((long long)(LOOP_INSNS * N), perf[1] - perf[0]);
	EXPECT_EQ((long long)(LOOP_INSNS * N), ours[1] - ours[0]);
}

TEST_HARNESS_MAIN
