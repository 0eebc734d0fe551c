/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps of tests that sample every n instructions. Include it after event_fixture.h.
 */
#ifndef SELFTESTS_SAMPLE_FIXTURE_H
#define SELFTESTS_SAMPLE_FIXTURE_H

#include "options.h"

/* The ring has 2^ORDER pages, more than any test fills. */
#define ORDER	8

static inline void open_sampler(struct __test_metadata *_metadata,
				const FIXTURE_VARIANT(event) *variant, struct sampler *s,
				struct perf_event_attr attr, pid_t tid)
{
	int err = sampler_open(s, variant->maker, &attr, tid, -1, ORDER);

	ASSERT_EQ(0, err) {
		TH_LOG("%s: a sampled event of thread %d can't be opened: %s", variant->maker->name,
		       tid, strerror(-err));
	}
}

/*
 * Expects that the ring has a sample for each @period of the count of a disabled event.
 * Returns the count.
 */
static inline __s64 expect_samples(struct __test_metadata *_metadata,
				   const FIXTURE_VARIANT(event) *variant, struct sampler *s,
				   __u64 period,
				   void (*each)(const struct sample *sample, void *data),
				   void *data)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__s64 count = event_count(s->fd);

	sampler_read(s, &sums, each, data);
	if (env_number("SKID", 0) >= period) {
		/* With a skid beyond the period, two overflows share one PMI. */
		if (variant->maker == &event_maker_perf)
			return count;
		sums.samples += sums.lost;
		sums.periods += sums.lost * period;
		sums.lost = 0;
	}
	EXPECT_EQ((unsigned long)(count / (__s64)period), sums.samples) {
		TH_LOG("%s: period %llu, count %lld, throttled %lu times", variant->maker->name,
		       period, count, sums.throttled);
	}
	EXPECT_EQ(sums.samples * period, sums.periods);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ(0UL, sums.others);
	EXPECT_FALSE(sums.malformed);
	EXPECT_TRUE(sums.ordered);
	return count;
}

#endif
