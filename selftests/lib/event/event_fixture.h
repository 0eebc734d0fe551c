/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The makers of events as variants of the fixture "event": to be included behind
 * FIXTURE(event). perf and the module exclude each other while an event is open: a
 * test closes all that it opens.
 */
#ifndef SELFTESTS_EVENT_FIXTURE_H
#define SELFTESTS_EVENT_FIXTURE_H

#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "options.h"
#include "perf.h"

FIXTURE_VARIANT(event)
{
	const struct event_maker *by;
	const char *parameters;	/* of the module, if others than the usual ones */
};

FIXTURE_VARIANT_ADD(event, perf) { .by = &event_maker_perf };
FIXTURE_VARIANT_ADD(event, perfmon) { .by = &event_maker_perfmon };

/* Counters that overflow many times while a task runs. */
#ifdef EVENT_OVERFLOWS
FIXTURE_VARIANT_ADD(event, overflows)
{
	.by = &event_maker_perfmon,
	.parameters = "period_bits=16",
};
#endif

/*
 * Whether samples are where they are due. With a skid, perf's interrupt may find the
 * kernel or the next task, and that is what the sample shows.
 */
static inline bool shows_places(const FIXTURE_VARIANT(event) *variant)
{
	return variant->by != &event_maker_perf || !environment("SKID", 0);
}

static inline void prepare_maker(struct __test_metadata *_metadata,
				 const FIXTURE_VARIANT(event) *variant)
{
	if (variant->by == &event_maker_perf)
		ASSERT_EQ(0, perf_lift_limits());
	if (variant->parameters)
		ASSERT_EQ(0, module_reload(variant->parameters));
	ASSERT_EQ(0, wait_until_idle());
}

static inline void restore_maker(struct __test_metadata *_metadata,
				 const FIXTURE_VARIANT(event) *variant)
{
	if (variant->parameters && module_reload(""))
		TH_LOG("the module can't be loaded again");
}

/* Opens event_instructions() of a thread: a descriptor. */
static inline int open_instructions(struct __test_metadata *_metadata,
				    const struct event_maker *by, pid_t tid)
{
	int fd = event_open_instructions(by, tid);

	ASSERT_LE(0, fd) {
		TH_LOG("%s: an event of thread %d can't be opened: %s", by->name, tid,
		       strerror(-fd));
	}
	return fd;
}

#endif
