// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples of each instruction, which the project's virtual PMU merges (pmu-pebs=14): the
 * period of a sample is the number of executions of its instruction.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"

#define N	100000UL

FIXTURE(event)
{
	struct sampler samplers[2];
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"
#include "sample_fixture.h"
#include "precise_fixture.h"

/* Executions of the loop's first and second instruction, of all instructions, and in the kernel */
struct executions {
	unsigned long first, second, all, kernel;
	__u32 tid;
	unsigned long wrong;	/* samples of another task */
};

static void add_executions(const struct sample *s, void *data)
{
	struct executions *e = data;

	e->all += s->period;
	e->wrong += s->tid != e->tid;
	if (s->ip >> 63)
		e->kernel += s->period;
	else if (s->ip == (uintptr_t)labelled_loop_begin)
		e->first += s->period;
	else if (in_labelled_loop(s->ip))
		e->second += s->period;
}

static bool has_samples_of_each_insn(const struct event_maker *maker)
{
	struct perf_event_attr attr = precise_every(1);
	int fd = maker->open(&attr, 0, -1, -1, 0);

	close(fd);
	return fd >= 0;
}

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->samplers[0].fd = -1;
	self->samplers[1].fd = -1;
	prepare_maker(_metadata, variant);
	if (!has_samples_of_each_insn(variant->maker))
		SKIP(return, "this CPU does not merge the samples of each instruction (pmu-pebs=14)");
	ASSERT_EQ(0, pin_to_cpu(cpu_first()));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->samplers[0]);
	sampler_close(&self->samplers[1]);
	restore_maker(_metadata, variant);
}

/* Reads the samples of a thread that has executed labelled_loop(@n), and checks their numbers. */
static void check_executions(struct __test_metadata *_metadata, struct sampler *s, pid_t tid,
			     unsigned long n)
{
	struct executions e = { .tid = tid };
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	sampler_read(s, &sums, add_executions, &e);
	EXPECT_EQ(n, e.first);
	EXPECT_EQ(n, e.second);
	EXPECT_EQ((unsigned long)event_count(s->fd), e.all);
	EXPECT_EQ(0UL, e.wrong);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
}

TEST_F(event, each_instruction_has_its_number)
{
	struct sampler *s = &self->samplers[0];

	open_sampler(_metadata, variant, s, precise_every(1), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	check_executions(_metadata, s, gettid(), N);
}

/*
 * Windows without a loop, in which only the instructions of enabling and disabling are executed,
 * alternate with windows with a loop
 */
TEST_F(event, windows_have_all_their_instructions)
{
	struct sampler *s = &self->samplers[0];
	int i;

	open_sampler(_metadata, variant, s, precise_every(1), 0);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		if (i % 2)
			labelled_loop(N / 10);
		ASSERT_EQ(0, event_disable(s->fd));
	}
	check_executions(_metadata, s, gettid(), N);
}

/* A parent and a child share the CPU, and the CPU switches between them often. */
TEST_F(event, tasks_have_their_own_numbers)
{
	struct sampler *s = &self->samplers[0];
	pid_t pid;
	int i, status;

	open_sampler(_metadata, variant, s, precise_every(1), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	pid = fork();
	if (!pid) {
		for (i = 0; i < 1000; i++) {
			labelled_loop(100);
			sched_yield();
		}
		_exit(0);
	}
	for (i = 0; i < 1000; i++) {
		labelled_loop(100);
		sched_yield();
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, event_disable(s->fd));
	check_executions(_metadata, s, gettid(), N);
}

TEST_F(event, the_kernel_is_sampled_too)
{
	struct perf_event_attr attr = precise_every(1);
	struct sampler *s = &self->samplers[0];
	struct executions e = { .tid = gettid() };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int i;

	attr.exclude_kernel = 0;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	for (i = 0; i < 1000; i++)
		getppid();
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, add_executions, &e);
	EXPECT_EQ(N, e.first);
	EXPECT_EQ(N, e.second);
	EXPECT_LT(1000UL * 50, e.kernel);
	EXPECT_EQ((unsigned long)event_count(s->fd), e.all);
	EXPECT_EQ(0UL, sums.lost);
}

/* If a ring is too small, LOST records have the number of samples that the ring lacks. */
TEST_F(event, samples_without_room_are_reported_as_lost)
{
	struct perf_event_attr attr = precise_every(1);
	struct sampler *s = &self->samplers[0];
	struct executions e = { .tid = gettid() };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	char text[64];
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 100; i++)
		snprintf(text, sizeof(text), "%d %g %s", i, i * 1.5, "text");
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, add_executions, &e);
	/* The next sample follows a LOST record. */
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(1);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, add_executions, &e);
	EXPECT_LT(0UL, sums.lost);
	EXPECT_EQ((unsigned long)event_count(s->fd), e.all + sums.lost);
}

/*
 * A merged sample stands for several samples, and the reader of this ring would have to be woken
 * for each of them. SET_OUTPUT and FD_OUTPUT refuse the ring.
 */
TEST_F(event, ring_that_wakes_after_samples_is_refused)
{
	struct perf_event_attr attr = precise_every(1);
	struct perf_event_attr waking_attr = event_every(1009);
	struct sampler *s = &self->samplers[0], *waking = &self->samplers[1];

	waking_attr.wakeup_events = 1;
	open_sampler(_metadata, variant, waking, waking_attr, 0);
	s->fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, s->fd);
	EXPECT_EQ(-1, ioctl(s->fd, PERF_EVENT_IOC_SET_OUTPUT, waking->fd));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, waking->fd,
						    PERF_FLAG_FD_OUTPUT));
}

TEST_F(event, other_events_have_no_sample_each)
{
	struct perf_event_attr attr = precise_every(1);

	attr.sample_type &= ~PERF_SAMPLE_PERIOD;
	EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
	attr = precise_every(1);
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
}

TEST_HARNESS_MAIN
