// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings that are too small, paused, overwritten or written backward; and readers that
 * write nonsense, unmap the ring or die.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define PERIOD	1009UL
#define N	100000UL

/* Two words for the count and the lost samples. */
struct count_and_lost {
	__u64 count, lost;
};

FIXTURE(event)
{
	struct target target;
	struct sampler sampler;
	struct sample_sums sums;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	self->sums = SAMPLE_SUMS_INIT;
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr with_lost(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.read_format = PERF_FORMAT_LOST;
	return attr;
}

static struct count_and_lost counted(struct __test_metadata *_metadata, int fd)
{
	struct count_and_lost c = { 0, 0 };

	EXPECT_EQ((ssize_t)sizeof(c), read(fd, &c, sizeof(c)));
	return c;
}

static void run(struct __test_metadata *_metadata, struct sampler *s, unsigned long n)
{
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(n);
	ASSERT_EQ(0, event_disable(s->fd));
}

/* So many that there is a record of those lost before. */
static void run_a_little(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	run(_metadata, &self->sampler, 2 * PERIOD);
	sampler_read(&self->sampler, &self->sums, NULL, NULL);
}

/* All samples were read, or there is a record that they are lost. */
static void expect_all(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	struct count_and_lost c = counted(_metadata, self->sampler.fd);

	EXPECT_EQ(c.count / PERIOD, self->sums.samples + self->sums.lost);
	EXPECT_EQ(c.lost, self->sums.lost);
	EXPECT_EQ(0UL, self->sums.others);
	EXPECT_FALSE(self->sums.malformed);
	EXPECT_TRUE(self->sums.ordered);
}

TEST_F(event, full_ring_loses_samples_and_tells_how_many)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 4; i++) {
		run(_metadata, s, N);
		EXPECT_LT(0ULL, counted(_metadata, s->fd).lost);
		sampler_read(s, &self->sums, NULL, NULL);
	}
	/* A page has room for 85 samples of 48 bytes, a record of lost ones for 24. */
	EXPECT_LE(4 * 84UL, self->sums.samples);
	EXPECT_GE(4 * 85UL, self->sums.samples);
	run_a_little(_metadata, self);
	expect_all(_metadata, self);
}

TEST_F(event, full_ring_counts_on)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	__u64 count[2];
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, event_reset(s->fd));
		run(_metadata, s, i ? 2 * N : N);
		count[i] = counted(_metadata, s->fd).count;
	}
	EXPECT_EQ(count[0] + LOOP_INSNS * N, count[1]);
}

/*
 * It reads when some are lost, or the task has ended. That may be the first time that it
 * executes: so the task has three jobs, each of many rings.
 */
TEST_F(event, slow_reader_is_told_how_many_are_lost)
{
	struct perf_event_attr attr = with_lost();
	struct target *t = &self->target;
	struct sampler *s = &self->sampler;
	__u64 lost;
	int i;

	ASSERT_EQ(0, target_start(t, -1, false));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, t->tid, -1, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, target_start_job(t, (struct job) { 3 * N, 10, STEP_MOVE }));
		while (!target_is_done(t)) {
			lost = counted(_metadata, s->fd).lost;
			sampler_read(s, &self->sums, NULL, NULL);
			while (!target_is_done(t) && counted(_metadata, s->fd).lost == lost)
				usleep(100);
		}
		ASSERT_EQ(0, target_wait_job(t));
		sampler_read(s, &self->sums, NULL, NULL);
	}
	/* The last are told with the next sample. */
	ASSERT_EQ(0, target_run_job(t, (struct job) { PERIOD, 1, STEP_NONE }));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &self->sums, NULL, NULL);
	/* More than the ring has room for, and still not all. */
	EXPECT_LT(2 * 85UL, self->sums.samples);
	EXPECT_LT(0UL, self->sums.lost);
	expect_all(_metadata, self);
}

TEST_F(event, record_of_lost_samples_tells_whose_they_are)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	unsigned int records = 0;

	attr.sample_type |= SAMPLE_END;
	attr.sample_id_all = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	run(_metadata, s, N);
	sampler_read(s, &self->sums, NULL, NULL);
	EXPECT_EQ(0UL, self->sums.lost);
	run(_metadata, s, 2 * PERIOD);
	while (event_ring_next(&s->ring, &s->record)) {
		if (s->record.header.type != PERF_RECORD_LOST)
			continue;
		records++;
		EXPECT_TRUE(sampler_ends_well(s, 2, gettid()));
		EXPECT_EQ(event_id(s->fd), s->record.words[0]);
		EXPECT_EQ(counted(_metadata, s->fd).lost, s->record.words[1]);
	}
	EXPECT_EQ(1U, records);
}

/* A record that is smaller than that of the loss finds no room either: it would come before. */
TEST_F(event, nothing_comes_before_the_record_of_the_loss)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	const __u64 size_of_lost = 24;
	__u64 head, room;
	int attempts = 0;

	attr.context_switch = 1;
	/* Context switches at other moments may leave more room. */
	do {
		ASSERT_GT(10, attempts++);
		sampler_close(s);
		ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N);
		ASSERT_LT(0ULL, counted(_metadata, s->fd).lost);
		head = s->ring.page->data_head;
		room = s->ring.size - head;
		usleep(1000);
		ASSERT_EQ(0, event_disable(s->fd));
	} while (room < sizeof(struct perf_event_header) || room >= size_of_lost);
	EXPECT_EQ(head, s->ring.page->data_head);
}

/* Names find no room either, and are lost beside the samples. */
TEST_F(event, lost_names_are_told_and_are_no_samples)
{
	const unsigned long names = 200;
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	struct sample_sums *sums = &self->sums;
	unsigned long lost_names, i;
	struct count_and_lost c;

	attr.comm = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < names; i++) {
		ASSERT_EQ(0, prctl(PR_SET_NAME, "renamed"));
		labelled_loop(PERIOD);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, sums, NULL, NULL);
	run_a_little(_metadata, self);
	c = counted(_metadata, s->fd);
	EXPECT_LT(0UL, sums->others);
	lost_names = names - sums->others;
	EXPECT_LT(0UL, lost_names);
	EXPECT_EQ(c.count / PERIOD + lost_names, sums->samples + sums->lost);
	EXPECT_EQ(sums->lost, c.lost + (variant->maker->counts_lost_records ? 0 : lost_names));
}

/* perf takes it modulo the size: it may write over what was not read. */
TEST_F(event, tail_that_makes_no_sense_harms_nobody)
{
	const __u64 tails[] = { 1, 4095, 4097, 1ULL << 63, (1ULL << 63) + 1, ~0ULL << 12, 0x12345678 };
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	struct perf_event_mmap_page *page;
	unsigned int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	page = s->ring.page;
	run_a_little(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(tails); i++) {
		page->data_tail = page->data_head + tails[i];
		run(_metadata, s, N / 4);
		page->data_tail = page->data_head;
	}
	run_a_little(_metadata, self);
	if (variant->maker == &event_maker_perfmon)
		expect_all(_metadata, self);
}

/* And the rest of the page is the program's to spoil. */
TEST_F(event, page_that_is_overwritten_harms_nobody)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	memset(s->ring.page, 0xff, getpagesize());
	run(_metadata, s, N);
	memset(s->ring.page, 0, getpagesize());
	run(_metadata, s, N);
	EXPECT_LE(4 * N, counted(_metadata, s->fd).count);
}

TEST_F(event, paused_ring_gets_nothing)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 4));
	run_a_little(_metadata, self);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	run(_metadata, s, N);
	EXPECT_EQ(s->ring.page->data_tail, s->ring.page->data_head);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	run_a_little(_metadata, self);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, self->sums.lost);
	expect_all(_metadata, self);
}

TEST_F(event, event_without_a_ring_is_not_paused_and_loses_nothing)
{
	/* Also with one that no CPU can keep. */
	const __u64 periods[] = { PERIOD, 1 };
	struct perf_event_attr attr = with_lost();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		attr.sample_period = periods[i];
		self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, self->sampler.fd);
		EXPECT_EQ(-EINVAL,
			  event_ioctl(self->sampler.fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
		run(_metadata, &self->sampler, N);
		EXPECT_EQ(0ULL, counted(_metadata, self->sampler.fd).lost);
		close(self->sampler.fd);
	}
	self->sampler.fd = -1;
}

/* Opens an event of which all records are 48 bytes, with a page that is overwritten. */
static void open_overwritten(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			     const struct event_maker *maker, bool backward)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;

	attr.write_backward = backward;
	s->parts = (struct sample_parts) { .type = attr.sample_type };
	s->fd = maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, 0, true));
}

#define SAMPLE_SIZE	48

/* The newest 85 samples are there, of which sample @i from the newest on is at @at. */
static void expect_newest(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  __u64 newest, __s64 step)
{
	struct sampler *s = &self->sampler;
	__u64 last = ~0ULL;
	struct sample sample;
	int i;

	for (i = 0; i < 4096 / SAMPLE_SIZE; i++) {
		ASSERT_TRUE(event_ring_at(&s->ring, newest + i * step, &s->record));
		ASSERT_EQ((__u32)PERF_RECORD_SAMPLE, s->record.header.type);
		ASSERT_EQ(SAMPLE_SIZE, s->record.header.size);
		ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
		EXPECT_EQ(PERIOD, sample.period);
		EXPECT_EQ((__u32)getpid(), sample.pid);
		EXPECT_GE(last, sample.time);
		last = sample.time;
	}
}

TEST_F(event, newest_samples_overwrite_the_oldest)
{
	struct count_and_lost c;
	__u64 head;

	open_overwritten(_metadata, self, variant->maker, false);
	run(_metadata, &self->sampler, N);
	c = counted(_metadata, self->sampler.fd);
	head = self->sampler.ring.page->data_head;
	EXPECT_EQ(c.count / PERIOD, head / SAMPLE_SIZE);
	EXPECT_EQ(0ULL, c.lost);
	expect_newest(_metadata, self, head - SAMPLE_SIZE, -SAMPLE_SIZE);
}

TEST_F(event, newest_sample_is_the_first_of_a_ring_that_is_written_backward)
{
	struct count_and_lost c;
	__u64 head;

	open_overwritten(_metadata, self, variant->maker, true);
	run(_metadata, &self->sampler, N);
	c = counted(_metadata, self->sampler.fd);
	head = self->sampler.ring.page->data_head;
	EXPECT_EQ(c.count / PERIOD, -head / SAMPLE_SIZE);
	EXPECT_EQ(0ULL, c.lost);
	expect_newest(_metadata, self, head, SAMPLE_SIZE);
}

/* Nothing is overwritten then. */
TEST_F(event, ring_that_is_written_backward_may_have_a_tail)
{
	struct perf_event_attr attr = with_lost();
	struct sampler *s = &self->sampler;
	struct count_and_lost c;

	attr.write_backward = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	run(_metadata, s, N);
	c = counted(_metadata, s->fd);
	EXPECT_EQ(4096 / SAMPLE_SIZE * SAMPLE_SIZE + 0ULL, -s->ring.page->data_head);
	EXPECT_EQ(c.count / PERIOD, 4096 / SAMPLE_SIZE + c.lost);
}

static void start_target(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct event_maker *maker)
{
	struct perf_event_attr attr = with_lost();

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	ASSERT_EQ(0, sampler_open(&self->sampler, maker, &attr, self->target.tid, -1, 2));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
}

TEST_F(event, ring_is_unmapped_while_it_is_written)
{
	struct sampler *s = &self->sampler;
	unsigned int order;

	start_target(_metadata, self, variant->maker);
	for (order = 0; order < 5; order++) {
		ASSERT_EQ(0, target_start_job(&self->target, (struct job) { 4 * N, 1, STEP_NONE }));
		event_ring_unmap(&s->ring);
		ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, order, order % 2));
		EXPECT_EQ(4096ULL << order, s->ring.page->data_size);
		ASSERT_EQ(0, target_wait_job(&self->target));
		EXPECT_LE(8 * N * (order + 1), counted(_metadata, s->fd).count);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	/* The last ring begins anew, and is right. */
	event_ring_unmap(&s->ring);
	ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, 5, false));
	EXPECT_EQ(0ULL, s->ring.page->data_head);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &self->sums, NULL, NULL);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, self->sums.samples);
	EXPECT_GE(LOOP_INSNS * N / PERIOD + 10, self->sums.samples);
	EXPECT_FALSE(self->sums.malformed);
}

TEST_F(event, reader_dies_while_the_ring_is_written)
{
	struct sampler *s = &self->sampler;
	int status, ready[2];
	char byte;
	pid_t pid;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct perf_event_attr attr = with_lost();

		if (!sampler_open(s, variant->maker, &attr, self->target.tid, -1, 0) &&
		    !event_enable(s->fd) && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { 10 * N, 1, STEP_NONE }));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, target_wait_job(&self->target));
	target_kill(&self->target);
	/* Another one is as if nothing had been. */
	start_target(_metadata, self, variant->maker);
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &self->sums, NULL, NULL);
	EXPECT_LE(80UL, self->sums.samples);
	EXPECT_FALSE(self->sums.malformed);
}

TEST_HARNESS_MAIN
