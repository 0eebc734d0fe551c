// SPDX-License-Identifier: GPL-2.0-only
/*
 * Call chains of made-up stacks, and of stacks that change while they are read.
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

/* The lengths of the chains of samples in frame_loop(). */
struct made_up_chains {
	unsigned long chain_count, wrong;
	unsigned int shortest, longest;		/* lengths without context mark and IP */
	bool frames_change;
};

static void check_made_up_chain(const struct sample *s, void *data)
{
	struct made_up_chains *f = data;
	unsigned int i, n;

	if (s->ip < (uintptr_t)frame_loop_begin || s->ip >= (uintptr_t)frame_loop_end)
		return;
	n = s->chain_length - 2;
	f->chain_count++;
	f->wrong += s->chain_length < 2 || s->chain_length > 128 || s->chain[0] != PERF_CONTEXT_USER ||
		    s->chain[1] != s->ip;
	for (i = 0; i < n && !f->frames_change; i++)
		f->wrong += s->chain[2 + i] != FRAME_ADDRESS(i);
	if (f->chain_count == 1 || n < f->shortest)
		f->shortest = n;
	if (n > f->longest)
		f->longest = n;
}

static struct made_up_chains sample_frame(struct __test_metadata *_metadata,
					  FIXTURE_DATA(event) *self,
					  const struct event_maker *maker, const void *frame,
					  bool frames_change)
{
	struct perf_event_attr attr = with_chains();
	struct made_up_chains f = { .frames_change = frames_change };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->sampler;

	if (frames_change)
		attr.sample_period = 997;
	ASSERT_EQ(0, sampler_open(s, maker, &attr, 0, -1, ORDER + 2 * frames_change));
	ASSERT_EQ(0, event_enable(s->fd));
	frame_loop(frame, N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_made_up_chain, &f);
	sampler_close(s);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(10UL, f.chain_count);
	EXPECT_EQ(0UL, f.wrong) {
		TH_LOG("%s: frame %p", maker->name, frame);
	}
	return f;
}

TEST_F(event, invalid_frame_pointer_ends_the_chain)
{
	unsigned int i;

	for (i = 0; i < FRAMES_NOWHERE; i++) {
		struct made_up_chains f = sample_frame(_metadata, self, variant->maker,
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

TEST_F(event, chain_ends_at_unmapped_memory)
{
	struct frame *frames = map_frames(_metadata);
	unsigned char *end = (unsigned char *)(frames + FRAMES);
	struct made_up_chains f;
	int i;

	/* The last frame points to unmapped memory. */
	for (i = 0; i < 5; i++)
		frames[FRAMES - 5 + i].address = FRAME_ADDRESS(i);
	f = sample_frame(_metadata, self, variant->maker, frames + FRAMES - 5, false);
	EXPECT_EQ(5U, f.longest);
	EXPECT_EQ(5U, f.shortest);
	/* Only a part of the frame itself is mapped. */
	f = sample_frame(_metadata, self, variant->maker, end - 8, false);
	EXPECT_EQ(0U, f.longest);
	/* More frames than the longest chain. */
	for (i = 0; i < FRAMES; i++)
		frames[i].address = FRAME_ADDRESS(i);
	f = sample_frame(_metadata, self, variant->maker, frames, false);
	EXPECT_EQ(126U, f.longest);
	/* Memory without permission to read. */
	ASSERT_EQ(0, mprotect(frames, 4096, PROT_NONE));
	f = sample_frame(_metadata, self, variant->maker, frames, false);
	EXPECT_EQ(0U, f.longest);
	frames_unmap(frames);
}

/* perf follows the circle until the chain is full. */
TEST_F(event, circular_stack_ends)
{
	struct frame *frames = map_frames(_metadata);
	struct made_up_chains f;

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

TEST_F(event, changing_stack_is_harmless)
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
