/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps of tests that sample each n instructions: to be included behind
 * event_fixture.h.
 */
#ifndef SELFTESTS_SAMPLE_FIXTURE_H
#define SELFTESTS_SAMPLE_FIXTURE_H

#include "options.h"

/* 2^ORDER are more pages than any of the tests fills. */
#define ORDER	8

static inline void open_sampler(struct __test_metadata *_metadata,
				const FIXTURE_VARIANT(event) *variant, struct sampler *s,
				struct perf_event_attr attr, pid_t tid)
{
	int err = sampler_open(s, variant->by, &attr, tid, -1, ORDER);

	ASSERT_EQ(0, err) {
		TH_LOG("%s: a sampled event of thread %d can't be opened: %s", variant->by->name,
		       tid, strerror(-err));
	}
}

/*
 * The event is disabled and has period @period: of its count, which is returned, all
 * samples are in the ring.
 */
static inline __s64 expect_samples(struct __test_metadata *_metadata,
				   const FIXTURE_VARIANT(event) *variant, struct sampler *s,
				   __u64 period,
				   void (*each)(const struct sample *sample, void *data),
				   void *data)
{
	struct seen seen = SEEN_NOTHING;
	__s64 count = event_count(s->fd);

	sampler_read(s, &seen, each, data);
	if (environment("SKID", 0) >= period) {
		/* Two overflows become one interrupt. */
		if (variant->by == &event_maker_perf)
			return count;
		seen.samples += seen.lost;
		seen.periods += seen.lost * period;
		seen.lost = 0;
	}
	EXPECT_EQ((unsigned long)(count / (__s64)period), seen.samples) {
		TH_LOG("%s: period %llu, count %lld, throttled %lu times", variant->by->name,
		       period, count, seen.throttled);
	}
	EXPECT_EQ(seen.samples * period, seen.periods);
	EXPECT_EQ(0UL, seen.lost);
	EXPECT_EQ(0UL, seen.others);
	EXPECT_FALSE(seen.malformed);
	EXPECT_TRUE(seen.ordered);
	return count;
}

#endif
