// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of known loops: as many as the count has periods, each where it must be.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event_ring.h"
#include "fixture.h"
#include "loop.h"
#include "target.h"

#define N	1000000UL

/* More pages than any of the tests fills. */
#define ORDER	8

FIXTURE(event)
{
	struct target target;
	struct event_ring ring;
	struct event_record *record;
	int fd;
	cpu_set_t cpus;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->fd = -1;
	self->record = malloc(sizeof(*self->record));
	ASSERT_NE(NULL, self->record);
}

FIXTURE_TEARDOWN(event)
{
	target_end(&self->target);
	event_ring_unmap(&self->ring);
	if (self->fd >= 0)
		close(self->fd);
	free(self->record);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr every(__u64 period)
{
	struct perf_event_attr attr = event_instructions();

	attr.sample_period = period;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			   PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	return attr;
}

/* The parts of a sample of every(). */
struct sample {
	struct perf_event_header header;
	__u64 ip;
	__u32 pid, tid;
	__u64 time;
	__u32 cpu, reserved;
	__u64 period;
};

struct seen {
	unsigned long samples, lost, others;
	__u64 periods;
	__u64 last_time;
	bool ordered, wrong_size;
	__u64 lowest, highest;	/* ip */
};

static struct seen read_all(struct event_ring *ring, struct event_record *record)
{
	struct seen seen = { .ordered = true, .lowest = ~0ULL };
	const struct sample *s = (const struct sample *)record;

	while (event_ring_next(ring, record)) {
		switch (record->header.type) {
		case PERF_RECORD_SAMPLE:
			seen.samples++;
			seen.wrong_size |= record->header.size != sizeof(*s);
			seen.periods += s->period;
			seen.ordered &= s->time >= seen.last_time;
			seen.last_time = s->time;
			if (s->ip < seen.lowest)
				seen.lowest = s->ip;
			if (s->ip > seen.highest)
				seen.highest = s->ip;
			break;
		case PERF_RECORD_LOST:
			seen.lost += record->words[1];
			break;
		default:
			seen.others++;
		}
	}
	return seen;
}

static __attribute__((noinline)) void sampled_loop(unsigned long n)
{
	loop(n);
}

static const __u64 periods[] = { 97, 1009, 10007, 100003, 1000003 };

TEST_F(event, as_many_samples_as_the_count_has_periods)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		struct perf_event_attr attr = every(periods[i]);
		struct seen seen;
		__s64 count;

		self->fd = variant->by->open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, event_ring_map(&self->ring, self->fd, ORDER, false));
		ASSERT_EQ(0, event_enable(self->fd));
		sampled_loop(N / 10);
		ASSERT_EQ(0, event_disable(self->fd));
		count = event_count(self->fd);
		seen = read_all(&self->ring, self->record);
		TH_LOG("%s: period %llu: count %lld samples %lu lost %lu others %lu",
		       variant->by->name, periods[i], (long long)count, seen.samples,
		       seen.lost, seen.others);
		EXPECT_EQ((unsigned long)(count / (__s64)periods[i]), seen.samples);
		EXPECT_EQ(seen.samples * periods[i], seen.periods);
		EXPECT_EQ(0UL, seen.lost);
		EXPECT_FALSE(seen.wrong_size);
		EXPECT_TRUE(seen.ordered);
		event_ring_unmap(&self->ring);
		close(self->fd);
		self->fd = -1;
	}
}

TEST_HARNESS_MAIN
