// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's perf zeroes the counters that it has used at the next switch to a program that may use
 * RDPMC, even if the module uses the counters by then. The module's counts must still be right.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "trace.h"

#define N	1000000UL
#define RATE	10007
#define PAGES	64

/* The number of events, enough to make all or most general counters dirty. */
#define EVENTS	4

/* The maximum number of instructions of the two programs outside of the loops. */
#define OVERHEAD	20000

#define RDPMC	"/sys/bus/event_source/devices/cpu/rdpmc"

FIXTURE(dirty)
{
	int cpu;
	int fd;		/* descriptor of the device */
	int wake;	/* pipe that wakes the other program */
	int awake;	/* pipe with the answer of the other program */
	pid_t pid;	/* the other program */
};

FIXTURE_VARIANT(dirty)
{
	char before;	/* the setting of RDPMC when counting starts */
	char meanwhile;	/* the setting that it is then changed to */
	bool zeroed;	/* perf then zeroes counters, and the module reports it */
};

FIXTURE_VARIANT_ADD(dirty, rdpmc_0) { '0', '0', false };
FIXTURE_VARIANT_ADD(dirty, rdpmc_1) { '1', '1', false };
FIXTURE_VARIANT_ADD(dirty, rdpmc_2) { '2', '2', false };
FIXTURE_VARIANT_ADD(dirty, rdpmc_1_then_2) { '1', '2', false };
FIXTURE_VARIANT_ADD(dirty, rdpmc_2_then_1) { '2', '1', false };
/*
 * With the setting 0, perf never zeroes counters. When the setting changes to 2, perf zeroes them
 * at once.
 */
FIXTURE_VARIANT_ADD(dirty, rdpmc_0_then_2) { '0', '2', true };

static int rdpmc_set(char value)
{
	int fd = open(RDPMC, O_WRONLY | O_CLOEXEC);
	int err = fd < 0 || write(fd, &value, 1) != 1 ? -errno : 0;

	close(fd);
	return err;
}

/*
 * Makes perf count branches, so that the counters are dirty afterwards. If @page is not NULL, maps
 * one of perf's events there; this event exists until the page is unmapped.
 */
static int dirty_counters_by_perf(void **page)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.exclude_kernel = 1,
	};
	int fds[EVENTS], i, err = 0;

	for (i = 0; i < EVENTS; i++) {
		fds[i] = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
				 PERF_FLAG_FD_CLOEXEC);
		if (fds[i] < 0)
			return -errno;
	}
	if (page) {
		*page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
			     fds[0], 0);
		if (*page == MAP_FAILED)
			err = -errno;
	}
	loop(1000);
	for (i = 0; i < EVENTS; i++)
		close(fds[i]);
	return err;
}

/* Sleeps until the test wakes it, and answers, in a loop. */
static void other_program(int fd, int answer)
{
	char c;

	while (read(fd, &c, 1) == 1 && write(answer, &c, 1) == 1)
		;
	_exit(0);
}

FIXTURE_SETUP(dirty)
{
	int pipes[2], answers[2];
	void *page;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, rdpmc_set(variant->before));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, pipe(answers));

	/* The child may use RDPMC, since its parent has mapped an event of perf. */
	ASSERT_EQ(0, dirty_counters_by_perf(&page));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		close(pipes[1]);
		close(answers[0]);
		other_program(pipes[0], answers[1]);
	}
	close(pipes[0]);
	close(answers[1]);
	self->wake = pipes[1];
	self->awake = answers[0];
	ASSERT_EQ(0, wait_until_asleep(self->pid));
	munmap(page, sysconf(_SC_PAGESIZE));
	ASSERT_EQ(0, dirty_counters_by_perf(NULL));
	self->fd = open_device(_metadata, O_RDWR);
}

FIXTURE_TEARDOWN(dirty)
{
	close(self->fd);
	close(self->wake);
	close(self->awake);
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	rdpmc_set('1');
}

/* Counts two loops, between which the other program runs. */
static int run_both(const FIXTURE_DATA(dirty) *self, char rdpmc)
{
	char c = 0;
	int err;

	loop(N);
	err = rdpmc_set(rdpmc);
	if (err)
		return err;
	if (write(self->wake, &c, 1) != 1 || read(self->awake, &c, 1) != 1)
		return -errno;
	loop(N);
	return 0;
}

TEST_F(dirty, counts_are_right)
{
	int i, err;

	for (i = 0; i < EVENTS; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, i, EVENT_INSTRUCTIONS,
				       PMCF_USR));
		ASSERT_EQ(0, pmc_start(self->fd, i));
	}
	ASSERT_EQ(0, run_both(self, variant->meanwhile));
	for (i = 0; i < EVENTS; i++) {
		err = pmc_stop(self->fd, i);
		if (variant->zeroed && err == -EIO)
			continue;
		EXPECT_EQ(0, err);
		EXPECT_LE((__s64)(2 * LOOP_INSNS * N), pmc_value(self->fd, i));
		EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + OVERHEAD,
			  pmc_value(self->fd, i));
	}
}

TEST_F(dirty, sums_of_a_trace_are_right)
{
	struct perfmon_config config = { .events = { 0 } };
	struct trace_sums sums;
	struct trace t;
	int i, err;

	/* Some events are sampled, others only counted. */
	for (i = 0; i < EVENTS; i++) {
		config.events[i] = MODEL_EVENT(i);
		config.flags[i] = FLAG_USER;
		config.rate[i] = i % 2 ? 0 : RATE;
		ASSERT_EQ(0, trace_define(self->fd, i, EVENT_INSTRUCTIONS));
	}
	ASSERT_EQ(0, trace_alloc(&t, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&t, &config));
	ASSERT_EQ(0, trace_start(&t));
	ASSERT_EQ(0, run_both(self, variant->meanwhile));
	err = trace_stop(&t);
	if (variant->zeroed && (err == -EIO || t.buffer[self->cpu]->flags)) {
		trace_free(&t);
		return;
	}
	EXPECT_EQ(0, err);
	ASSERT_STREQ("", trace_sum(&t, self->cpu, &sums));
	EXPECT_EQ(0U, t.buffer[self->cpu]->flags);
	for (i = 0; i < EVENTS; i++) {
		EXPECT_LE(2 * LOOP_INSNS * N, sums.event[i].total);
		EXPECT_GE(2 * LOOP_INSNS * N + OVERHEAD, sums.event[i].total);
	}
	trace_free(&t);
}

TEST_HARNESS_MAIN
