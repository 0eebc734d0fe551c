// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings that are too small, paused, overwritten or written backward; and readers that write an
 * invalid tail, unmap the ring, or die.
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

/* The result of read(2) with PERF_FORMAT_LOST. */
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

static struct perf_event_attr attr_with_lost(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.read_format = PERF_FORMAT_LOST;
	return attr;
}

static struct count_and_lost read_count_and_lost(struct __test_metadata *_metadata, int fd)
{
	struct count_and_lost c = { 0, 0 };

	EXPECT_EQ((ssize_t)sizeof(c), read(fd, &c, sizeof(c)));
	return c;
}

static void run_loop(struct __test_metadata *_metadata, struct sampler *s, unsigned long n)
{
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(n);
	ASSERT_EQ(0, event_disable(s->fd));
}

/* Runs a job that is long enough for a record that reports the lost samples. */
static void run_until_lost_is_reported(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	run_loop(_metadata, &self->sampler, 2 * PERIOD);
	sampler_read(&self->sampler, &self->sums, NULL, NULL);
}

/* Expects that all samples were read or reported as lost. */
static void expect_all_read_or_lost(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	struct count_and_lost c = read_count_and_lost(_metadata, self->sampler.fd);

	EXPECT_EQ(c.count / PERIOD, self->sums.samples + self->sums.lost);
	EXPECT_EQ(c.lost, self->sums.lost);
	EXPECT_EQ(0UL, self->sums.others);
	EXPECT_FALSE(self->sums.malformed);
	EXPECT_TRUE(self->sums.ordered);
}

TEST_F(event, full_ring_records_how_many_samples_are_lost)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 4; i++) {
		run_loop(_metadata, s, N);
		EXPECT_LT(0ULL, read_count_and_lost(_metadata, s->fd).lost);
		sampler_read(s, &self->sums, NULL, NULL);
	}
	/* A page has room for 85 samples of 48 bytes; a LOST record needs 24 bytes. */
	EXPECT_LE(4 * 84UL, self->sums.samples);
	EXPECT_GE(4 * 85UL, self->sums.samples);
	run_until_lost_is_reported(_metadata, self);
	expect_all_read_or_lost(_metadata, self);
}

TEST_F(event, event_of_a_full_ring_continues_to_count)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	__u64 count[2];
	int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, event_reset(s->fd));
		run_loop(_metadata, s, i ? 2 * N : N);
		count[i] = read_count_and_lost(_metadata, s->fd).count;
	}
	EXPECT_EQ(count[0] + LOOP_INSNS * N, count[1]);
}

/*
 * The reader reads when samples are lost, or when the job has ended. The scheduler might run the
 * reader only after a job has ended, so there are three jobs, each of which fills the ring several
 * times.
 */
TEST_F(event, slow_reader_gets_the_number_of_lost_samples)
{
	struct perf_event_attr attr = attr_with_lost();
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
			lost = read_count_and_lost(_metadata, s->fd).lost;
			sampler_read(s, &self->sums, NULL, NULL);
			while (!target_is_done(t) && read_count_and_lost(_metadata, s->fd).lost == lost)
				usleep(100);
		}
		ASSERT_EQ(0, target_wait_job(t));
		sampler_read(s, &self->sums, NULL, NULL);
	}
	/* The last lost samples are reported with the next sample. */
	ASSERT_EQ(0, target_run_job(t, (struct job) { PERIOD, 1, STEP_NONE }));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &self->sums, NULL, NULL);
	/* Expects more samples than the ring has room for, but not all samples. */
	EXPECT_LT(2 * 85UL, self->sums.samples);
	EXPECT_LT(0UL, self->sums.lost);
	expect_all_read_or_lost(_metadata, self);
}

TEST_F(event, lost_record_has_the_id_of_the_event)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	unsigned int records = 0;

	attr.sample_type |= ALL_TRAILER_PARTS;
	attr.sample_id_all = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	run_loop(_metadata, s, N);
	sampler_read(s, &self->sums, NULL, NULL);
	EXPECT_EQ(0UL, self->sums.lost);
	run_loop(_metadata, s, 2 * PERIOD);
	while (event_ring_next(&s->ring, &s->record)) {
		if (s->record.header.type != PERF_RECORD_LOST)
			continue;
		records++;
		EXPECT_TRUE(sampler_has_right_trailer(s, 2, gettid()));
		EXPECT_EQ(event_id(s->fd), s->record.words[0]);
		EXPECT_EQ(read_count_and_lost(_metadata, s->fd).lost, s->record.words[1]);
	}
	EXPECT_EQ(1U, records);
}

/*
 * If the LOST record does not fit into the ring, no other record is written before it, even if that
 * record would fit.
 */
TEST_F(event, nothing_is_written_before_the_lost_record)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	const __u64 size_of_lost = 24;
	__u64 head, room;
	int attempts = 0;

	attr.context_switch = 1;
	/* Context switches may leave more room: try again. */
	do {
		ASSERT_GT(100, attempts++);
		sampler_close(s);
		ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N);
		ASSERT_LT(0ULL, read_count_and_lost(_metadata, s->fd).lost);
		head = s->ring.page->data_head;
		room = s->ring.size - head;
		usleep(1000);
		ASSERT_EQ(0, event_disable(s->fd));
	} while (room < sizeof(struct perf_event_header) || room >= size_of_lost);
	EXPECT_EQ(head, s->ring.page->data_head);
}

/* Records of names are also lost if the ring is full. They are not counted as lost samples. */
TEST_F(event, lost_name_records_are_not_counted_as_samples)
{
	const unsigned long names = 200;
	struct perf_event_attr attr = attr_with_lost();
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
	run_until_lost_is_reported(_metadata, self);
	c = read_count_and_lost(_metadata, s->fd);
	EXPECT_LT(0UL, sums->others);
	lost_names = names - sums->others;
	EXPECT_LT(0UL, lost_names);
	EXPECT_EQ(c.count / PERIOD + lost_names, sums->samples + sums->lost);
	EXPECT_EQ(sums->lost, c.lost + (variant->maker->counts_lost_records ? 0 : lost_names));
}

/* perf takes the tail modulo the size, and may overwrite records that were not read. */
TEST_F(event, invalid_tail_is_harmless)
{
	const __u64 tails[] = { 1, 4095, 4097, 1ULL << 63, (1ULL << 63) + 1, ~0ULL << 12, 0x12345678 };
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	struct perf_event_mmap_page *page;
	unsigned int i;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	page = s->ring.page;
	run_until_lost_is_reported(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(tails); i++) {
		page->data_tail = page->data_head + tails[i];
		run_loop(_metadata, s, N / 4);
		page->data_tail = page->data_head;
	}
	run_until_lost_is_reported(_metadata, self);
	if (variant->maker == &event_maker_perfmon)
		expect_all_read_or_lost(_metadata, self);
}

/* A program may also overwrite the rest of the page. */
TEST_F(event, overwritten_page_is_harmless)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	memset(s->ring.page, 0xff, getpagesize());
	run_loop(_metadata, s, N);
	memset(s->ring.page, 0, getpagesize());
	run_loop(_metadata, s, N);
	EXPECT_LE(4 * N, read_count_and_lost(_metadata, s->fd).count);
}

TEST_F(event, paused_ring_gets_nothing)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 4));
	run_until_lost_is_reported(_metadata, self);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	run_loop(_metadata, s, N);
	EXPECT_EQ(s->ring.page->data_tail, s->ring.page->data_head);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	run_until_lost_is_reported(_metadata, self);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, self->sums.lost);
	expect_all_read_or_lost(_metadata, self);
}

TEST_F(event, event_without_a_ring_is_not_paused_and_loses_nothing)
{
	/* The second event has a period that is too short for any CPU. */
	const __u64 periods[] = { PERIOD, 1 };
	struct perf_event_attr attr = attr_with_lost();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		attr.sample_period = periods[i];
		self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, self->sampler.fd);
		EXPECT_EQ(-EINVAL,
			  event_ioctl(self->sampler.fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
		run_loop(_metadata, &self->sampler, N);
		EXPECT_EQ(0ULL, read_count_and_lost(_metadata, self->sampler.fd).lost);
		close(self->sampler.fd);
	}
	self->sampler.fd = -1;
}

/* Opens an event with records of 48 bytes and a ring of one page that is overwritten. */
static void open_overwritten(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			     const struct event_maker *maker, bool backward)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;

	attr.write_backward = backward;
	s->parts = (struct sample_parts) { .type = attr.sample_type };
	s->fd = maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, 0, true));
}

#define SAMPLE_SIZE	48

/* Expects the newest 85 samples: the newest at @newest, older ones @step apart. */
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
	run_loop(_metadata, &self->sampler, N);
	c = read_count_and_lost(_metadata, self->sampler.fd);
	head = self->sampler.ring.page->data_head;
	EXPECT_EQ(c.count / PERIOD, head / SAMPLE_SIZE);
	EXPECT_EQ(0ULL, c.lost);
	expect_newest(_metadata, self, head - SAMPLE_SIZE, -SAMPLE_SIZE);
}

TEST_F(event, backward_ring_begins_with_the_newest_sample)
{
	struct count_and_lost c;
	__u64 head;

	open_overwritten(_metadata, self, variant->maker, true);
	run_loop(_metadata, &self->sampler, N);
	c = read_count_and_lost(_metadata, self->sampler.fd);
	head = self->sampler.ring.page->data_head;
	EXPECT_EQ(c.count / PERIOD, -head / SAMPLE_SIZE);
	EXPECT_EQ(0ULL, c.lost);
	expect_newest(_metadata, self, head, SAMPLE_SIZE);
}

/* A writable ring that is written backward stops at its tail and is not overwritten. */
TEST_F(event, backward_ring_respects_the_tail)
{
	struct perf_event_attr attr = attr_with_lost();
	struct sampler *s = &self->sampler;
	struct count_and_lost c;

	attr.write_backward = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	run_loop(_metadata, s, N);
	c = read_count_and_lost(_metadata, s->fd);
	EXPECT_EQ(4096 / SAMPLE_SIZE * SAMPLE_SIZE + 0ULL, -s->ring.page->data_head);
	EXPECT_EQ(c.count / PERIOD, 4096 / SAMPLE_SIZE + c.lost);
}

static void start_target(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct event_maker *maker)
{
	struct perf_event_attr attr = attr_with_lost();

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
		EXPECT_LE(8 * N * (order + 1), read_count_and_lost(_metadata, s->fd).count);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	/* A new ring of the same event is correct. */
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
		struct perf_event_attr attr = attr_with_lost();

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
	/* The next sampler works as usual. */
	start_target(_metadata, self, variant->maker);
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 1, STEP_NONE }));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &self->sums, NULL, NULL);
	EXPECT_LE(80UL, self->sums.samples);
	EXPECT_FALSE(self->sums.malformed);
}

TEST_HARNESS_MAIN
