// SPDX-License-Identifier: GPL-2.0-only
#include <time.h>

#include "device.h"
#include "event_random.h"

#define PICK(r, list) ((list)[rng_below(r, sizeof(list) / sizeof(*(list)))])

__u64 random_period(struct rng *r)
{
	static const __u64 usual[] = { 10007, 100003, 1000003, 50021 };
	static const __u64 others[] = { 1, 2, 31, 97, 1009, 1ULL << 40, (1ULL << 63) - 1 };

	return rng_once_in(r, 6) ? PICK(r, others) : PICK(r, usual);
}

/* Chooses an event that all processors have. */
static void set_event(struct perf_event_attr *a, struct rng *r)
{
	switch (rng_below(r, 8)) {
	case 0:
		a->config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
		break;
	case 1:
		a->config = PERF_COUNT_HW_CPU_CYCLES;
		break;
	case 2:
		a->type = PERF_TYPE_RAW;
		a->config = EVENT_INSTRUCTIONS;
		break;
	case 3:
		a->config |= (__u64)PERF_TYPE_RAW << 32;
		break;
	}
}

/* Chooses the parts of samples, and the other records. */
static void set_records(struct perf_event_attr *a, struct rng *r)
{
	const __u64 parts = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			    PERF_SAMPLE_ADDR | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ID |
			    PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_STREAM_ID |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
			    PERF_SAMPLE_WEIGHT |
			    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TRANSACTION |
			    PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_CGROUP;

	a->sample_type = rng_below(r, PERF_SAMPLE_MAX) & parts;
	a->sample_regs_user = 1 + rng_below(r, 0xfff);
	a->sample_regs_intr = 1 + rng_below(r, 0xfff);
	a->sample_stack_user = 8 * rng_below(r, 300);
	a->sample_max_stack = rng_below(r, 128);
	a->sample_period = random_period(r);
	a->freq = rng_once_in(r, 4);
	if (a->freq)
		a->sample_freq = 1 + rng_below(r, 10000);
	a->use_clockid = rng_once_in(r, 4);
	a->clockid = rng_once_in(r, 2) ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_RAW;
	a->write_backward = rng_once_in(r, 6);
	a->watermark = rng_once_in(r, 2);
	a->wakeup_events = rng_below(r, 3000);
	a->sample_id_all = rng_once_in(r, 2);
	a->comm = rng_once_in(r, 3);
	a->task = rng_once_in(r, 3);
	a->context_switch = rng_once_in(r, 6);
}

/* Sets a random member to a wrong value, or to a value without effect. */
static void spoil_attr(union model_attr *a, struct rng *r)
{
	/*
	 * Indexes of the words in which any bit may be set: all words but those of the event
	 * itself.
	 */
	static const int words[] = {
		2, 3, 4, ATTR_FLAGS, ATTR_FLAGS, ATTR_FLAGS, 6, ATTR_CONFIG1, ATTR_CONFIG2, 9, 10,
		11, 12, 13, ATTR_AUX, 15, ATTR_CONFIG3, ATTR_CONFIG4,
	};
	static const __u64 events[] = {
		PERF_COUNT_HW_MAX, 999, 7ULL << 32 | 1, 1ULL << 40, 0xffffffff,
	};
	static const __u32 sizes[] = { 0, 64, 72, 80, 104, 120, 136, 144, 1, 63, 4097, ~0U };

	switch (rng_below(r, 8)) {
	case 0:
		a->fields.type = rng_once_in(r, 2) ? PERF_TYPE_SOFTWARE + rng_below(r, 2) :
						   PERF_TYPE_BREAKPOINT + rng_below(r, 20);
		break;
	case 1:
		a->fields.type = PERF_TYPE_HARDWARE;
		a->fields.config = PICK(r, events);
		break;
	case 2:
		a->fields.size = PICK(r, sizes);
		break;
	case 3:
		a->fields.sample_max_stack = 128 + rng_below(r, 1000);
		break;
	case 4:
		a->fields.use_clockid = 1;
		a->fields.clockid = rng_below(r, 14) - 1;
		break;
	default:
		a->words[PICK(r, words)] ^= 1ULL << rng_below(r, 64);
	}
}

/*
 * Asks for precise samples of this format; in rare cases, with parts that such samples can't have.
 */
static void make_precise(struct perf_event_attr *a, struct rng *r, int format)
{
	const __u64 missing = PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_TRANSACTION |
			      PERF_SAMPLE_REGS_INTR;

	a->precise_ip = 1 + rng_below(r, 3);
	if (!rng_once_in(r, 8))
		a->sample_type &= ~missing;
	/* Without these parts, an interrupt serves many samples at once. */
	if (rng_once_in(r, 2))
		a->sample_type &= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				  PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD;
	if (format > 3 && rng_once_in(r, 3))
		a->sample_type |= PERF_SAMPLE_BRANCH_STACK;
}

union model_attr random_attr(struct rng *r, int precise)
{
	union model_attr a = { .fields = {
		.type = PERF_TYPE_HARDWARE,
		.size = ATTR_SIZE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
	} };
	int i;

	set_event(&a.fields, r);
	a.fields.disabled = rng_once_in(r, 3);
	a.fields.exclude_kernel = !rng_once_in(r, 4);
	a.fields.exclude_user = rng_once_in(r, 6);
	a.fields.inherit = rng_once_in(r, 4);
	a.fields.pinned = rng_once_in(r, 8);
	a.fields.exclusive = rng_once_in(r, 20);
	a.fields.read_format = rng_once_in(r, 2) ? rng_below(r, PERF_FORMAT_MAX) : 0;
	if (!rng_once_in(r, 4))
		set_records(&a.fields, r);
	if (precise && rng_once_in(r, 2))
		make_precise(&a.fields, r, precise);
	if (rng_once_in(r, 4)) {
		for (i = 1 + rng_below(r, 2); i; i--)
			spoil_attr(&a, r);
	}
	/* The processor and other events decide whether other branch types are accepted. */
	if (a.fields.sample_type & PERF_SAMPLE_BRANCH_STACK)
		a.fields.branch_sample_type = precise > 3 && a.fields.precise_ip ?
					      RECORDED_BRANCHES : PERF_SAMPLE_BRANCH_IN_TX;
	return a;
}
