// SPDX-License-Identifier: GPL-2.0-only
/*
 * Call chains of stacks that are none, or change while they are read.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "frames.h"
#include "loop.h"
#include "samples.h"

#define PERIOD	10007UL
#define N	100000UL
#define ORDER	8

#include "sampler_fixture.h"

static struct perf_event_attr with_chains(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	return attr;
}

/* The chain of a sample in frame_loop(): the longest and the shortest. */
struct fake {
	unsigned long chain_count, wrong;
	unsigned int shortest, longest;		/* without mark and ip */
	bool changes;
};

static void see_fake(const struct sample *s, void *data)
{
	struct fake *f = data;
	unsigned int i, n;

	if (s->ip < (uintptr_t)frame_loop_begin || s->ip >= (uintptr_t)frame_loop_end)
		return;
	n = s->length - 2;
	f->chain_count++;
	f->wrong += s->length < 2 || s->length > 128 || s->chain[0] != PERF_CONTEXT_USER ||
		    s->chain[1] != s->ip;
	for (i = 0; i < n && !f->changes; i++)
		f->wrong += s->chain[2 + i] != FRAME_ADDRESS(i);
	if (f->chain_count == 1 || n < f->shortest)
		f->shortest = n;
	if (n > f->longest)
		f->longest = n;
}

static struct fake sample_frame(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				const struct event_maker *maker, const void *frame, bool changes)
{
	struct perf_event_attr attr = with_chains();
	struct fake f = { .changes = changes };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->sampler;

	if (changes)
		attr.sample_period = 997;
	ASSERT_EQ(0, sampler_open(s, maker, &attr, 0, -1, ORDER + 2 * changes));
	ASSERT_EQ(0, event_enable(s->fd));
	frame_loop(frame, N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, see_fake, &f);
	sampler_close(s);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(10UL, f.chain_count);
	EXPECT_EQ(0UL, f.wrong) {
		TH_LOG("%s: frame %p", maker->name, frame);
	}
	return f;
}

TEST_F(event, frame_pointer_to_nowhere_ends_the_chain)
{
	unsigned int i;

	for (i = 0; i < FRAMES_NOWHERE; i++) {
		struct fake f = sample_frame(_metadata, self, variant->maker,
					     (void *)(uintptr_t)frames_without_memory[i], false);

		EXPECT_EQ(0U, f.longest);
	}
}

static struct frame *map_frames(struct __test_metadata *_metadata)
{
	struct frame *frames = frames_map();

	ASSERT_NE(NULL, frames);
	return frames;
}

TEST_F(event, chain_ends_with_the_memory)
{
	struct frame *frames = map_frames(_metadata);
	unsigned char *end = (unsigned char *)(frames + FRAMES);
	struct fake f;
	int i;

	/* The next frame of the last one is where no memory is. */
	for (i = 0; i < 5; i++)
		frames[FRAMES - 5 + i].address = FRAME_ADDRESS(i);
	f = sample_frame(_metadata, self, variant->maker, frames + FRAMES - 5, false);
	EXPECT_EQ(5U, f.longest);
	EXPECT_EQ(5U, f.shortest);
	/* The frame itself is there in part. */
	f = sample_frame(_metadata, self, variant->maker, end - 8, false);
	EXPECT_EQ(0U, f.longest);
	/* More than a chain has. */
	for (i = 0; i < FRAMES; i++)
		frames[i].address = FRAME_ADDRESS(i);
	f = sample_frame(_metadata, self, variant->maker, frames, false);
	EXPECT_EQ(126U, f.longest);
	/* Memory that may not be read. */
	ASSERT_EQ(0, mprotect(frames, 4096, PROT_NONE));
	f = sample_frame(_metadata, self, variant->maker, frames, false);
	EXPECT_EQ(0U, f.longest);
	frames_unmap(frames);
}

/* perf goes round until the chain is full. */
TEST_F(event, stack_that_is_a_circle_ends)
{
	struct frame *frames = map_frames(_metadata);
	struct fake f;

	frames[0].next = frames;
	f = sample_frame(_metadata, self, variant->maker, frames, variant->maker == &event_maker_perf);
	if (variant->maker == &event_maker_perfmon)
		EXPECT_EQ(1U, f.longest);
	frames[0].next = frames + 1;
	frames[1].next = frames;
	f = sample_frame(_metadata, self, variant->maker, frames, variant->maker == &event_maker_perf);
	if (variant->maker == &event_maker_perfmon)
		EXPECT_EQ(2U, f.longest);
	frames_unmap(frames);
}

TEST_F(event, stack_that_changes_harms_nobody)
{
	struct frames_changer changer;
	int i;

	ASSERT_EQ(0, frames_changer_begin(&changer, map_frames(_metadata)));
	for (i = 0; i < 3; i++)
		sample_frame(_metadata, self, variant->maker, changer.frames, true);
	ASSERT_EQ(0, frames_changer_end(&changer));
	frames_unmap(changer.frames);
}

TEST_HARNESS_MAIN
