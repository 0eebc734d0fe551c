// SPDX-License-Identifier: GPL-2.0-only
/*
 * The freezer of cgroups stops tasks while they are counted. Neither the count nor the times of a
 * frozen task grow. Once the task is thawed, it is counted to the last instruction. Events are
 * opened, enabled and closed while a task is frozen, and a frozen task moves to another cgroup, or
 * is killed.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define ROOT	"/tmp/cgroup"
#define GROUP	ROOT "/frozen"

/* Rounds of the target's loop: on most hosts it runs for longer than all pauses between freezes. */
#define N	100000000UL
#define FREEZES	20
#define PERIOD	100003UL

/* Microseconds for which the target runs, or is frozen. */
#define PAUSE	3000

FIXTURE(event)
{
	struct target target;
	struct sampler sampler;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	ASSERT_LE(0, pin_to_first_cpu());
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, cgroups_mount(ROOT));
	rmdir(GROUP);
	ASSERT_EQ(0, mkdir(GROUP, 0755));
	ASSERT_EQ(0, target_start(&self->target, -1, false));
	ASSERT_EQ(0, cgroup_move(GROUP, self->target.pid));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	target_kill(&self->target);
	rmdir(GROUP);
	umount(ROOT);
	restore_maker(_metadata, variant);
}

/* Returns whether the kernel says that all tasks of the cgroup are frozen. */
static bool is_frozen(void)
{
	char line[64];
	bool frozen = false;
	FILE *f = fopen(GROUP "/cgroup.events", "re");

	while (f && fgets(line, sizeof(line), f))
		frozen |= !strcmp(line, "frozen 1\n");
	if (f)
		fclose(f);
	return frozen;
}

static void thaw(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, write_file(GROUP "/cgroup.freeze", "0"));
}

/*
 * Freezes the target. Returns true if the target is in its loop. If its job is done, thaws the
 * target and returns false. (If a target is frozen in a system call, the call is restarted, which
 * takes one more instruction in user mode.)
 */
static bool freeze_in_loop(struct __test_metadata *_metadata, const struct target *t)
{
	ASSERT_EQ(0, write_file(GROUP "/cgroup.freeze", "1"));
	while (!is_frozen())
		usleep(100);
	/* The cgroup is reported as frozen before the target leaves its CPU. */
	EXPECT_EQ(0, target_wait_until_off_cpu(t));
	if (!target_is_done(t))
		return true;
	thaw(_metadata);
	return false;
}

/* Thaws the target, and lets it run. */
static void thaw_and_run(struct __test_metadata *_metadata)
{
	thaw(_metadata);
	usleep(PAUSE);
}

/* Opens an enabled event of the target, or if that is NULL, of its cgroup. */
static int open_event(struct __test_metadata *_metadata, const struct event_maker *maker,
		      const struct target *t)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	fd = t ? maker->open(&attr, t->tid, -1, -1, PERF_FLAG_FD_CLOEXEC) :
		 event_open_of_cgroup(maker, attr, GROUP, -1);
	ASSERT_LE(0, fd);
	return fd;
}

struct reading {
	__u64 count, enabled, running;
};

static struct reading read_event(struct __test_metadata *_metadata, int fd)
{
	struct reading r;

	ASSERT_EQ((ssize_t)sizeof(r), read(fd, &r, sizeof(r)));
	return r;
}

/* Expects that neither count nor times of an event of the frozen target grow. */
static void expect_no_growth(struct __test_metadata *_metadata, int fd)
{
	struct reading before = read_event(_metadata, fd), after;

	usleep(PAUSE);
	after = read_event(_metadata, fd);
	EXPECT_EQ(before.count, after.count);
	EXPECT_EQ(before.enabled, after.enabled);
	EXPECT_EQ(before.running, after.running);
}

static void start_loop(struct __test_metadata *_metadata, struct target *t)
{
	ASSERT_EQ(0, target_start_job(t, (struct job) { .n = N, .pieces = 1 }));
	usleep(PAUSE);
}

/* Freezes the target in its loop. If the loop has ended before, starts it again. */
static void freeze(struct __test_metadata *_metadata, struct target *t)
{
	int tries;

	for (tries = 0; !freeze_in_loop(_metadata, t); tries++) {
		ASSERT_GT(100, tries);
		ASSERT_EQ(0, target_wait_job(t));
		start_loop(_metadata, t);
	}
}

/* Waits until the event has counted something, since the target's CPU may stand still at first. */
static void wait_for_count(struct __test_metadata *_metadata, int fd)
{
	unsigned int waited_us = 0;

	while (!event_count(fd))
		ASSERT_TRUE(wait_longer(&waited_us));
}

/*
 * Freezes the target several times in one loop, and expects that its event counts the loop exactly.
 * @least: the count of a loop with one round. Returns the number of freezes, which is 0 if the loop
 * ended before the first.
 */
static int count_frozen_loop(struct __test_metadata *_metadata, struct target *t, int fd,
			     __s64 least)
{
	__s64 before = event_count(fd), count;
	int i;

	start_loop(_metadata, t);
	for (i = 0; i < FREEZES && freeze_in_loop(_metadata, t); i++) {
		expect_no_growth(_metadata, fd);
		thaw_and_run(_metadata);
	}
	ASSERT_EQ(0, target_wait_job(t));
	count = event_count(fd) - before;
	EXPECT_LE(least + (__s64)(LOOP_INSNS * (N - 1)), count);
	/* The last freeze may have come after the loop. */
	EXPECT_GE(least + (__s64)(LOOP_INSNS * (N - 1)) + (i < FREEZES), count);
	return i;
}

TEST_F(event, frozen_task_is_counted_exactly)
{
	struct target *t = &self->target;
	int fd = open_event(_metadata, variant->maker, t), tries;
	__s64 least, before;

	ASSERT_EQ(0, target_run_job(t, (struct job) { .n = 1, .pieces = 1 }));
	least = event_count(fd);
	for (tries = 0; !count_frozen_loop(_metadata, t, fd, least); tries++)
		ASSERT_GT(100, tries);

	/* Expects the same count without a freeze. */
	before = event_count(fd);
	ASSERT_EQ(0, target_run_job(t, (struct job) { .n = N, .pieces = 1 }));
	EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), event_count(fd) - before);
	close(fd);
}

TEST_F(event, frozen_task_is_sampled_exactly)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct target *t = &self->target;
	struct sampler *s = &self->sampler;
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, t->tid, -1, 7));
	ASSERT_EQ(0, event_enable(s->fd));
	start_loop(_metadata, t);
	for (i = 0; i < FREEZES; i++) {
		freeze(_metadata, t);
		sampler_read(s, &sums, NULL, NULL);
		usleep(PAUSE);
		EXPECT_TRUE(event_ring_is_empty(&s->ring));
		thaw_and_run(_metadata);
	}
	ASSERT_EQ(0, target_wait_job(t));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ((unsigned long)event_count(s->fd) / PERIOD, sums.samples);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ(0UL, sums.others);
	EXPECT_TRUE(sums.ordered);
	EXPECT_FALSE(sums.malformed);
}

/*
 * An event that is opened while the task is frozen counts the same as the first event from then on.
 */
TEST_F(event, events_of_a_frozen_task_are_opened_and_closed)
{
	struct target *t = &self->target;
	int first = open_event(_metadata, variant->maker, t), fd = -1, i;
	__s64 before = 0;

	start_loop(_metadata, t);
	for (i = 0; i < FREEZES; i++) {
		freeze(_metadata, t);
		if (i) {
			EXPECT_LT(0, event_count(fd));
			EXPECT_EQ(event_count(first) - before, event_count(fd));
			/*
			 * An event that is disabled and enabled while the task is frozen misses
			 * nothing.
			 */
			ASSERT_EQ(0, event_disable(fd));
			ASSERT_EQ(0, event_enable(fd));
		}
		if (i % 2 == 0) {
			close(fd);
			before = event_count(first);
			fd = open_event(_metadata, variant->maker, t);
			expect_no_growth(_metadata, fd);
			EXPECT_EQ(0, event_count(fd));
		}
		thaw_and_run(_metadata);
		wait_for_count(_metadata, fd);
	}
	ASSERT_EQ(0, target_wait_job(t));
	EXPECT_EQ(event_count(first) - before, event_count(fd));
	close(fd);
	close(first);
}

/* The event of a task that is killed while it is frozen keeps its count, and poll(2) ends. */
TEST_F(event, frozen_task_is_killed)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct target *t = &self->target;
	struct sampler *s = &self->sampler;
	struct pollfd polled = { .events = POLLIN };
	__s64 count;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, t->tid, -1, 7));
	ASSERT_EQ(0, event_enable(s->fd));
	start_loop(_metadata, t);
	wait_for_count(_metadata, s->fd);
	freeze(_metadata, t);
	count = event_count(s->fd);
	EXPECT_LT(0, count);
	target_kill(t);
	EXPECT_EQ(count, event_count(s->fd));
	polled.fd = s->fd;
	ASSERT_EQ(1, poll(&polled, 1, 60000));
	EXPECT_TRUE(polled.revents & POLLHUP);
}

/* A cgroup counts a task until the task leaves it, even if the task is frozen when it leaves. */
TEST_F(event, frozen_task_leaves_its_cgroup)
{
	struct target *t = &self->target;
	int task, cgroup, i;
	__s64 count;

	/* perf counts cgroups on one CPU at a time. */
	if (variant->maker == &event_maker_perf)
		return;
	task = open_event(_metadata, variant->maker, t);
	cgroup = open_event(_metadata, variant->maker, NULL);
	start_loop(_metadata, t);
	for (i = 0; i < FREEZES; i++) {
		freeze(_metadata, t);
		expect_no_growth(_metadata, cgroup);
		EXPECT_EQ(event_count(task), event_count(cgroup));
		thaw_and_run(_metadata);
	}
	freeze(_metadata, t);
	count = event_count(task);
	EXPECT_EQ(count, event_count(cgroup));
	/* In the other cgroup the task is not frozen any more. */
	ASSERT_EQ(0, cgroup_move(ROOT, t->pid));
	ASSERT_EQ(0, target_wait_job(t));
	EXPECT_EQ(count, event_count(cgroup));
	EXPECT_LT(count, event_count(task));
	close(cgroup);
	close(task);
}

TEST_HARNESS_MAIN
