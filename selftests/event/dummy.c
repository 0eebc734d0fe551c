// SPDX-License-Identifier: GPL-2.0-only
/*
 * PERF_COUNT_SW_DUMMY: an event that counts nothing and needs no counter.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"

#define N	100000UL
#define PERIOD	10007UL
#define ORDER	4
#define MAX_EVENTS	64

FIXTURE(event)
{
	struct sampler sampler;
	int fd[MAX_EVENTS];
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	int i;

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	for (i = 0; i < MAX_EVENTS; i++)
		self->fd[i] = -1;
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	int i;

	sampler_close(&self->sampler);
	for (i = 0; i < MAX_EVENTS; i++)
		if (self->fd[i] >= 0)
			close(self->fd[i]);
	restore_maker(_metadata, variant);
}

/* A dummy may have a period, but never has a sample. */
TEST_F(event, dummy_counts_nothing)
{
	struct perf_event_attr attr = event_dummy();

	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	attr.sample_period = 1;
	self->fd[0] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd[0]);
	EXPECT_EQ(0, event_loop_count(self->fd[0], N));
	EXPECT_EQ(0, event_reset(self->fd[0]));
	EXPECT_EQ(0, event_count(self->fd[0]));
}

TEST_F(event, dummies_of_children_and_cpus_count_nothing)
{
	struct perf_event_attr attr = event_dummy();
	pid_t pid;

	attr.inherit = 1;
	attr.disabled = 0;
	self->fd[0] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd[0]);
	attr.inherit = 0;
	self->fd[1] = variant->maker->open(&attr, -1, 0, -1, 0);
	ASSERT_LE(0, self->fd[1]);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		loop(N);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(0, event_count(self->fd[0]));
	EXPECT_EQ(0, event_count(self->fd[1]));
}

/* A dummy has records of names, mappings and the like. */
TEST_F(event, dummy_has_records)
{
	struct perf_event_attr attr = event_dummy();
	struct sampler *s = &self->sampler;

	attr.comm = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "renamed"));
	ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
	EXPECT_EQ((__u32)PERF_RECORD_COMM, s->record.header.type);
	EXPECT_FALSE(event_ring_next(&s->ring, &s->record));
	/* A dummy has no counter for RDPMC. */
	EXPECT_FALSE(!!s->ring.page->cap_user_rdpmc);
	EXPECT_EQ(0U, s->ring.page->index);
}

/* A dummy is at each position in a group. The other members count exactly. */
TEST_F(event, dummies_are_members_of_groups)
{
	struct {
		__u64 nr, value[3];
	} group;
	struct perf_event_attr attr;
	int i, which;

	for (which = 0; which < 3; which++) {
		for (i = 0; i < 3; i++) {
			attr = i == which ? event_dummy() : event_instructions();
			attr.read_format = PERF_FORMAT_GROUP;
			attr.disabled = !i;
			self->fd[i] = variant->maker->open(&attr, 0, -1, i ? self->fd[0] : -1, 0);
			ASSERT_LE(0, self->fd[i]);
		}
		ASSERT_EQ(0, event_enable(self->fd[0]));
		loop(N);
		ASSERT_EQ(0, event_disable(self->fd[0]));
		ASSERT_EQ((ssize_t)sizeof(group), read(self->fd[0], &group, sizeof(group)));
		ASSERT_EQ(3ULL, group.nr);
		for (i = 0; i < 3; i++) {
			EXPECT_EQ(i != which, group.value[i] > LOOP_INSNS * N);
			EXPECT_EQ(i == which, !group.value[i]);
			close(self->fd[i]);
			self->fd[i] = -1;
		}
	}
}

/* Checks the dummy's count in samples with the counts of a group. */
static void check_counts(const struct sample *s, void *data)
{
	unsigned long *wrong = data;

	*wrong += s->count_words != 4 || s->counts[0] != 3 || !s->counts[1] || s->counts[2] ||
		  s->counts[3];
}

TEST_F(event, dummies_have_counts_in_samples)
{
	struct perf_event_attr attr = event_every(PERIOD), member = event_dummy();
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long wrong = 0;

	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_GROUP;
	member.disabled = 0;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	self->fd[0] = variant->maker->open(&member, 0, -1, s->fd, 0);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = variant->maker->open(&member, 0, -1, s->fd, 0);
	ASSERT_LE(0, self->fd[1]);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(10 * PERIOD);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_counts, &wrong);
	EXPECT_LE(10UL, sums.samples);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, wrong);
}

/* Dummies can be opened when no counter is free. */
TEST_F(event, dummies_take_no_counter)
{
	struct perf_event_attr attr = event_instructions(), none = event_dummy();
	int i, counters, fd;

	if (variant->maker == &event_maker_perf)
		return;
	/* A sampled event has a counter of its own. */
	attr.sample_period = 1ULL << 40;
	for (counters = 0; counters < MAX_EVENTS; counters++) {
		fd = variant->maker->open(&attr, 0, -1, -1, 0);
		if (fd < 0)
			break;
		self->fd[counters] = fd;
	}
	EXPECT_EQ(-EBUSY, fd);
	ASSERT_GT(MAX_EVENTS, counters);
	for (i = counters; i < MAX_EVENTS; i++) {
		self->fd[i] = variant->maker->open(&none, 0, -1, -1, 0);
		ASSERT_LE(0, self->fd[i]);
		EXPECT_EQ(-1, event_fdinfo_number(self->fd[i], "counter"));
	}
	EXPECT_LT(LOOP_INSNS * (__s64)N, event_loop_count(self->fd[0], N));
}

/* Linux's perf can use the counters while the module has only a dummy. */
TEST_F(event, dummy_leaves_the_counters_to_perf)
{
	struct perf_event_attr attr = event_dummy();

	self->fd[0] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = open_instructions(_metadata, &event_maker_perf, 0);
	EXPECT_LT(LOOP_INSNS * (__s64)N, event_loop_count(self->fd[1], N));
}

/* Exclusive events exclude only events that need a counter. */
TEST_F(event, dummy_is_not_excluded)
{
	struct perf_event_attr attr = event_instructions(), none = event_dummy();

	attr.exclusive = 1;
	self->fd[0] = variant->maker->open(&none, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd[1]);
	self->fd[2] = variant->maker->open(&none, 0, -1, -1, 0);
	EXPECT_LE(0, self->fd[2]);
}

TEST_HARNESS_MAIN
