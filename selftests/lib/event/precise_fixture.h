/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps of tests of precise samples, which the processor takes itself. Include it after
 * sample_fixture.h.
 */
#ifndef SELFTESTS_PRECISE_FIXTURE_H
#define SELFTESTS_PRECISE_FIXTURE_H

#include "cpu.h"
#include "loop.h"
#include "samples.h"

#define PERIOD	1009UL

/* Attributes of event_every(), made precise. */
static inline struct perf_event_attr precise_every(__u64 period)
{
	struct perf_event_attr attr = event_every(period);

	attr.precise_ip = 2;
	return attr;
}

static inline bool has_precise(const struct event_maker *maker)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	int fd = maker->open(&attr, 0, -1, -1, 0);

	close(fd);
	return fd >= 0;
}

/*
 * Begins a test's set-up: no sampler is open, and the maker of events is ready. Returns whether
 * there are precise samples; if there are none, skips the test.
 */
static inline bool prepare_precise(struct __test_metadata *_metadata,
				   const FIXTURE_VARIANT(event) *variant,
				   struct sampler samplers[2])
{
	samplers[0].fd = -1;
	samplers[1].fd = -1;
	prepare_maker(_metadata, variant);
	if (!has_precise(variant->maker))
		SKIP(return false, "this CPU has no precise samples (PEBS)");
	return true;
}

/* Defines NAME_loop(n), a loop of n rounds between the labels NAME_begin and NAME_end. */
#define DEFINE_LOOP(name)							\
extern const char name##_begin[], name##_end[];					\
__attribute__((noinline, noclone)) static void name##_loop(unsigned long n)	\
{										\
	__asm__ volatile(".globl " #name "_begin, " #name "_end\n"		\
			 #name "_begin:	dec	%0\n"				\
			 "		jnz	" #name "_begin\n"		\
			 #name "_end:\n"					\
			 : "+r" (n) : : "cc");					\
}

static inline bool is_between(__u64 ip, const char *begin, const char *end)
{
	return ip >= (uintptr_t)begin && ip < (uintptr_t)end;
}

/*
 * Returns the number of interrupts of the first CPU so far. If the kernel is sampled, too,
 * interrupts divide a loop into pieces, and each piece may have one sample fewer than its length
 * suggests.
 */
static inline unsigned long all_interrupts(void)
{
	return cpu_interrupts() + cpu_nmis();
}

/* The shortest period that a counter can be loaded for. */
#define SHORTEST_PERIOD	2

/*
 * Opens an event of this thread, and executes labelled_loop(@n) while it is enabled. With the
 * shortest period, a switch between two samples makes all following samples one event late, since
 * no counter can be loaded for a single event. The last sample may then still be due when the event
 * is disabled. So the loop is repeated if a switch has happened.
 */
static inline void sample_loop(struct __test_metadata *_metadata,
			       const FIXTURE_VARIANT(event) *variant, struct sampler *s,
			       struct perf_event_attr attr, unsigned long n)
{
	unsigned long switches;
	int attempts = 10;

	do {
		sampler_close(s);
		open_sampler(_metadata, variant, s, attr, 0);
		switches = thread_switches();
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(n);
		ASSERT_EQ(0, event_disable(s->fd));
	} while (attr.sample_period == SHORTEST_PERIOD && thread_switches() != switches &&
		 --attempts);
}

/* The positions of the samples of a labelled_loop(), in their order. */
struct places {
	__u64 period;
	__u32 tid;
	bool at_jnz;			/* the last sample was at the second instruction of the loop */
	unsigned long inside, outside;
	unsigned long displaced;	/* not at the instruction that the period predicts */
	unsigned long wrong;		/* samples of another task, or of the kernel */
};

static inline void check_place(const struct sample *s, void *data)
{
	struct places *p = data;
	bool at_jnz;

	p->wrong += s->ip >> 63 || s->tid != p->tid || s->period != p->period;
	if (!in_labelled_loop(s->ip)) {
		p->outside++;
		return;
	}
	at_jnz = s->ip != (uintptr_t)labelled_loop_begin;
	p->displaced += p->inside++ && at_jnz != (p->at_jnz ^ (p->period & 1));
	p->at_jnz = at_jnz;
}

/* Checks the places of all samples. Returns their number. */
static inline unsigned long check_places(struct __test_metadata *_metadata,
					 const FIXTURE_VARIANT(event) *variant,
					 struct sampler *s, __u64 period, pid_t tid,
					 unsigned long insns)
{
	struct places p = { .period = period, .tid = tid };
	__s64 count = expect_samples(_metadata, variant, s, period, check_place, &p);

	/*
	 * A sample that is due at the first instruction after a switch is taken at the second
	 * instruction.
	 */
	EXPECT_GE(2 + p.inside / 500, p.displaced) {
		TH_LOG("period %llu: %lu of %lu", period, p.displaced, p.inside);
	}
	EXPECT_EQ(0UL, p.wrong);
	EXPECT_LE((__s64)insns, count);
	EXPECT_LE(insns / period, p.inside + 1);
	EXPECT_GE((count - insns) / period + 1, p.outside);
	return p.inside + p.outside;
}

/*
 * Expects that each period of an event with PERF_FORMAT_LOST has one of the @samples, or is in the
 * count of lost samples. No sample may be lost unless samples were @throttled, as may happen on a
 * slow host.
 */
static inline void expect_periods(struct __test_metadata *_metadata, struct sampler *s, __u64 period,
				  unsigned long samples, unsigned long throttled)
{
	__u64 values[2];

	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	EXPECT_EQ(values[0] / period, samples + values[1]) {
		TH_LOG("%lu samples, %llu lost, %lld events after the last of them", samples,
		       values[1], values[0] - (samples + values[1]) * period);
	}
	if (!throttled)
		EXPECT_EQ(0ULL, values[1]);
}

/* The order of THROTTLE and UNTHROTTLE records and of samples. */
struct throttling {
	bool throttled;
	unsigned long times;	/* THROTTLE records */
	unsigned long wrong;	/* samples while throttled; THROTTLE or UNTHROTTLE twice in a row */
};

/* Reads all records, and adds samples and lost samples to @sums. */
static inline void read_throttling(struct __test_metadata *_metadata, struct sampler *s,
				   struct throttling *t, struct sample_sums *sums)
{
	while (!event_ring_is_empty(&s->ring)) {
		ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
		switch (s->record.header.type) {
		case PERF_RECORD_SAMPLE:
			t->wrong += t->throttled;
			sums->samples++;
			break;
		case PERF_RECORD_LOST:
			sums->lost += s->record.words[1];
			break;
		case PERF_RECORD_THROTTLE:
			t->wrong += t->throttled;
			t->throttled = true;
			t->times++;
			break;
		case PERF_RECORD_UNTHROTTLE:
			t->wrong += !t->throttled;
			t->throttled = false;
			break;
		}
	}
}

#endif
