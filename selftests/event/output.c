// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events and the rings that they write to: several events with one ring, the order in which
 * they are closed, and the mappings that are possible.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "memory.h"
#include "rights.h"
#include "samples.h"
#include "target.h"

#define N	100000UL
#define EVENTS	3
#define LARGEST_ORDER	11
#define USER	4712	/* a user without processes */

/* Periods of the events. */
static const __u64 periods[EVENTS] = { 997, 1999, 4001 };

FIXTURE(event)
{
	struct target target;
	struct event_ring ring;
	int fd[EVENTS];
	__u64 ids[EVENTS];	/* results of PERF_EVENT_IOC_ID */
	int cpu;	/* the first CPU */
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	int i;

	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	for (i = 0; i < EVENTS; i++)
		self->fd[i] = -1;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	int i;

	target_kill(&self->target);
	event_ring_unmap(&self->ring);
	for (i = 0; i < EVENTS; i++)
		close(self->fd[i]);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr attr_of(int i)
{
	struct perf_event_attr attr = event_every(periods[i]);

	/*
	 * The other events do not count instructions, for which the CPU may have only one counter.
	 */
	if (i)
		attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID;
	return attr;
}

static int set_output(int fd, int other)
{
	return event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, other);
}

/* Opens all events, and makes them write to the ring of the first. */
static void open_all(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		     const struct event_maker *maker, pid_t tid)
{
	int i;

	for (i = 0; i < EVENTS; i++) {
		struct perf_event_attr attr = attr_of(i);

		self->fd[i] = maker->open(&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, self->fd[i]);
		self->ids[i] = event_id(self->fd[i]);
	}
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[0], 6, false));
	for (i = 1; i < EVENTS; i++)
		ASSERT_EQ(0, set_output(self->fd[i], self->fd[0]));
}

/* The records of each event that were read from the ring. */
struct ring_counts {
	unsigned long samples[EVENTS], unknown;
};

static struct ring_counts read_ring(struct event_ring *ring, const __u64 *ids)
{
	static struct event_record record;
	struct ring_counts ring_counts = { .unknown = 0 };
	const struct sample_parts parts = { .type = attr_of(0).sample_type };
	struct sample s;
	int i;

	while (event_ring_next(ring, &record)) {
		bool parsed = record.header.type == PERF_RECORD_SAMPLE &&
			      sample_parse(&record, &parts, &s);

		for (i = 0; i < EVENTS && parsed; i++)
			if (s.identifier == ids[i] && s.id == ids[i] &&
			    s.stream_id == ids[i] && s.period == periods[i])
				break;
		if (parsed && i < EVENTS)
			ring_counts.samples[i]++;
		else
			ring_counts.unknown++;
	}
	return ring_counts;
}

static void run_all(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	int i;

	for (i = 0; i < EVENTS; i++)
		ASSERT_EQ(0, event_enable(self->fd[i]));
	labelled_loop(N);
	for (i = 0; i < EVENTS; i++)
		ASSERT_EQ(0, event_disable(self->fd[i]));
}

TEST_F(event, ring_of_several_events_has_the_samples_of_each)
{
	struct ring_counts ring_counts;
	int i;

	open_all(_metadata, self, variant->maker, 0);
	run_all(_metadata, self);
	ring_counts = read_ring(&self->ring, self->ids);
	EXPECT_EQ(0UL, ring_counts.unknown);
	for (i = 0; i < EVENTS; i++)
		EXPECT_EQ(event_count(self->fd[i]) / periods[i], ring_counts.samples[i]);
}

TEST_F(event, event_that_leaves_a_ring_stops_writing_to_it)
{
	struct ring_counts ring_counts;

	open_all(_metadata, self, variant->maker, 0);
	EXPECT_EQ(0, set_output(self->fd[1], -1));
	run_all(_metadata, self);
	ring_counts = read_ring(&self->ring, self->ids);
	EXPECT_EQ(0UL, ring_counts.unknown);
	EXPECT_EQ(event_count(self->fd[0]) / periods[0], ring_counts.samples[0]);
	EXPECT_EQ(0UL, ring_counts.samples[1]);
	EXPECT_EQ(event_count(self->fd[2]) / periods[2], ring_counts.samples[2]);
}

/* All orders in which three events can be closed. */
static const int orders[][EVENTS] = {
	{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
};

/*
 * The ring exists as long as its mapping, whichever event is closed. The events that are left still
 * write to it.
 */
TEST_F(event, events_of_a_ring_are_closed_in_any_order)
{
	struct ring_counts ring_counts;
	unsigned int i;
	int k, which;

	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		ASSERT_EQ(0, target_start(&self->target, -1, false));
		open_all(_metadata, self, variant->maker, self->target.tid);
		for (k = 0; k < EVENTS; k++)
			ASSERT_EQ(0, event_enable(self->fd[k]));
		for (k = 0; k < EVENTS; k++) {
			ASSERT_EQ(0, target_start_job(&self->target, (struct job) { N, 1, STEP_NONE }));
			which = orders[i][k];
			close(self->fd[which]);
			self->fd[which] = -1;
			ASSERT_EQ(0, target_wait_job(&self->target));
			read_ring(&self->ring, self->ids);
			ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
			ring_counts = read_ring(&self->ring, self->ids);
			EXPECT_EQ(0UL, ring_counts.unknown);
			/* A mapping keeps the event that owns the ring. */
			if (which)
				EXPECT_EQ(0UL, ring_counts.samples[which]);
			for (which = 0; which < EVENTS; which++)
				if (self->fd[which] >= 0)
					EXPECT_LT(0UL, ring_counts.samples[which]);
		}
		event_ring_unmap(&self->ring);
		target_kill(&self->target);
	}
}

/* The mapping is removed before the events are closed. */
TEST_F(event, events_outlive_the_mapping_of_their_ring)
{
	int i;

	open_all(_metadata, self, variant->maker, 0);
	event_ring_unmap(&self->ring);
	run_all(_metadata, self);
	for (i = 0; i < EVENTS; i++)
		EXPECT_LE(periods[i], (__u64)event_count(self->fd[i]));
	/* Each event gets a ring of its own. */
	for (i = 0; i < EVENTS; i++) {
		EXPECT_EQ(0, set_output(self->fd[i], -1));
		ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[i], i, false));
		run_all(_metadata, self);
		EXPECT_LT(0ULL, self->ring.page->data_head);
		event_ring_unmap(&self->ring);
	}
}

/* After a ring has ended, the events that wrote to it behave as if they had never had it. */
TEST_F(event, ended_ring_counts_as_no_ring)
{
	struct ring_counts ring_counts;

	open_all(_metadata, self, variant->maker, 0);
	event_ring_unmap(&self->ring);
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd[1], PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	EXPECT_EQ(-EINVAL, set_output(self->fd[2], self->fd[1]));
	/* Maps a ring of the event's own, which has another size. */
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[1], 5, false));
	EXPECT_EQ(0, set_output(self->fd[2], self->fd[1]));
	run_all(_metadata, self);
	ring_counts = read_ring(&self->ring, self->ids);
	EXPECT_EQ(0UL, ring_counts.unknown);
	EXPECT_EQ(0UL, ring_counts.samples[0]);
	EXPECT_LT(0UL, ring_counts.samples[1]);
	EXPECT_LT(0UL, ring_counts.samples[2]);
}

/* Events of a ring that has ended do not write to the next ring of the same event. */
TEST_F(event, new_ring_gets_no_records_of_the_old_rings_events)
{
	int i;

	open_all(_metadata, self, variant->maker, 0);
	event_ring_unmap(&self->ring);
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[0], 6, false));
	self->ring.page->data_head = 4096;
	for (i = 1; i < EVENTS; i++)
		ASSERT_EQ(0, event_enable(self->fd[i]));
	labelled_loop(N);
	for (i = 1; i < EVENTS; i++)
		ASSERT_EQ(0, event_disable(self->fd[i]));
	EXPECT_EQ(4096ULL, self->ring.page->data_head);
}

static int open_as(const struct event_maker *maker, struct perf_event_attr attr, pid_t pid, int cpu)
{
	return maker->open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Expects @result from SET_OUTPUT of a new event with these arguments to the first event's ring. */
static void expect_output(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  const struct event_maker *maker, int result, struct perf_event_attr attr,
			  pid_t pid, int cpu)
{
	int fd = open_as(maker, attr, pid, cpu);

	ASSERT_LE(0, fd);
	EXPECT_EQ(result, set_output(fd, self->fd[0]));
	close(fd);
}

TEST_F(event, ring_is_refused_to_events_that_can_not_share_it)
{
	struct perf_event_attr attr = attr_of(0), other = attr_of(1);
	const struct event_maker *maker = variant->maker;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->fd[0] = open_as(maker, attr, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	/* The first event has no ring yet. */
	expect_output(_metadata, self, maker, -EINVAL, other, 0, -1);
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[0], 1, false));
	expect_output(_metadata, self, maker, 0, other, 0, -1);
	expect_output(_metadata, self, maker, -EINVAL, other, self->target.tid, -1);
	expect_output(_metadata, self, maker, -EINVAL, other, 0, self->cpu);
	expect_output(_metadata, self, maker, -EINVAL, other, -1, self->cpu);
	other.use_clockid = 1;
	other.clockid = CLOCK_MONOTONIC;
	expect_output(_metadata, self, maker, -EINVAL, other, 0, -1);
	other = attr_of(1);
	other.write_backward = 1;
	expect_output(_metadata, self, maker, -EINVAL, other, 0, -1);
	EXPECT_EQ(-EINVAL, set_output(self->fd[0], self->fd[0]));
	EXPECT_EQ(-EBADF, set_output(self->fd[0], 12345));
	EXPECT_EQ(-EBADF, set_output(self->fd[0], -2));
	EXPECT_EQ(-EBADF, set_output(self->fd[0], STDOUT_FILENO));
}

/* All events of a CPU may share a ring. */
TEST_F(event, events_of_a_cpu_share_its_ring)
{
	const struct event_maker *maker = variant->maker;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->fd[0] = open_as(maker, attr_of(0), -1, self->cpu);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[0], 1, false));
	expect_output(_metadata, self, maker, 0, attr_of(1), self->target.tid, self->cpu);
	expect_output(_metadata, self, maker, 0, attr_of(1), -1, self->cpu);
	expect_output(_metadata, self, maker, -EINVAL, attr_of(1), self->target.tid, -1);
}

TEST_F(event, mapped_event_keeps_its_own_ring)
{
	struct perf_event_attr attr;
	struct event_ring second;
	int i;

	for (i = 0; i < 2; i++) {
		attr = attr_of(i);
		self->fd[i] = open_as(variant->maker, attr, 0, -1);
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd[0], 1, false));
	ASSERT_EQ(0, event_ring_map(&second, self->fd[1], 1, false));
	EXPECT_EQ(-EINVAL, set_output(self->fd[0], self->fd[1]));
	EXPECT_EQ(-EINVAL, set_output(self->fd[0], -1));
	event_ring_unmap(&second);
	/* An event that writes to the ring of another event has no ring to map. */
	EXPECT_EQ(0, set_output(self->fd[1], self->fd[0]));
	EXPECT_EQ(-EBUSY, event_ring_map(&second, self->fd[1], 1, false));
	EXPECT_EQ(-EINVAL, event_ring_map(&second, self->fd[1], 2, false));
	EXPECT_EQ(0, set_output(self->fd[1], -1));
	EXPECT_EQ(0, event_ring_map(&second, self->fd[1], 2, false));
	event_ring_unmap(&second);
}

static int map_pages(int fd, size_t pages, int prot, int flags, off_t offset)
{
	void *p = mmap(NULL, pages * getpagesize(), prot, flags, fd, offset * getpagesize());

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, pages * getpagesize());
	return 0;
}

TEST_F(event, rings_have_a_power_of_two_of_pages)
{
	const int rw = PROT_READ | PROT_WRITE;
	size_t pages;
	int fd, i;

	self->fd[0] = open_as(variant->maker, attr_of(0), 0, -1);
	fd = self->fd[0];
	ASSERT_LE(0, fd);
	for (pages = 1; pages < 40; pages++) {
		size_t data = pages - 1;

		EXPECT_EQ(data & (data - 1) ? -EINVAL : 0,
			  map_pages(fd, pages, rw, MAP_SHARED, 0));
	}
	EXPECT_EQ(-EINVAL, map_pages(fd, 3, rw, MAP_PRIVATE, 0));
	EXPECT_EQ(-EINVAL, map_pages(fd, 2, rw, MAP_SHARED, 1));
	/* A second mapping maps the same ring. */
	ASSERT_EQ(0, event_ring_map(&self->ring, fd, 2, false));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(i == 2 ? 0 : -EINVAL,
			  map_pages(fd, (1 << i) + 1, rw, MAP_SHARED, 0));
	}
	EXPECT_EQ(-EINVAL, map_pages(fd, 1, rw, MAP_SHARED, 0));
	ASSERT_EQ(0, event_enable(fd));
	labelled_loop(N);
	EXPECT_LT(0ULL, self->ring.page->data_head);
}

/*
 * Returns the largest order, up to LARGEST_ORDER, of a ring that USER may map with RLIMIT_MEMLOCK
 * 0.
 */
static int largest_order(const struct event_maker *maker, unsigned long long capabilities)
{
	const struct rlimit none = { 0, 0 };
	struct event_ring ring;
	int fd, order, status;
	pid_t pid = fork();

	if (!pid) {
		fd = open_as(maker, attr_of(0), 0, -1);
		if (fd < 0 || setrlimit(RLIMIT_MEMLOCK, &none) ||
		    become_user(USER, MAY_COUNT | capabilities))
			_exit(100);
		for (order = 0; !event_ring_map(&ring, fd, order, false); order++) {
			event_ring_unmap(&ring);
			if (order == LARGEST_ORDER)
				_exit(order);
		}
		_exit(order - 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return WEXITSTATUS(status);
}

/* kernel.perf_event_mlock_kb allows 516 KB for each CPU: 129 pages. */
TEST_F(event, memory_of_rings_is_accounted)
{
	int order = 0;
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	while ((2 << order) + 1 <= 129 * CPU_COUNT(&cpus))
		order++;
	EXPECT_EQ(order, largest_order(variant->maker, 0));
	/*
	 * The same order is possible a second time, since the first ring has freed all its memory.
	 */
	EXPECT_EQ(order, largest_order(variant->maker, 0));
	EXPECT_EQ(LARGEST_ORDER, largest_order(variant->maker, MAY_LOCK));
}

TEST_HARNESS_MAIN
