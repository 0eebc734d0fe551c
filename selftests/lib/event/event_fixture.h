/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The makers of events as variants of the fixture "event". Include it after FIXTURE(event).
 * perf and the module exclude each other while an event is open, so a test closes all events that
 * it opens.
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
	const struct event_maker *maker;
	const char *parameters;	/* module parameters, or NULL */
};

FIXTURE_VARIANT_ADD(event, perf) { .maker = &event_maker_perf };
FIXTURE_VARIANT_ADD(event, perfmon) { .maker = &event_maker_perfmon };

/* A variant in which counters overflow many times while a task runs. */
#ifdef EVENT_OVERFLOWS
FIXTURE_VARIANT_ADD(event, overflows)
{
	.maker = &event_maker_perfmon,
	.parameters = "period_bits=16",
};
#endif

/*
 * Returns whether each sample has the address where its event happened. With a skid, perf's PMI may
 * come in the kernel or in the next task, and perf reports the address there.
 */
static inline bool samples_are_exact(const FIXTURE_VARIANT(event) *variant)
{
	return variant->maker != &event_maker_perf || !env_number("SKID", 0);
}

static inline void prepare_maker(struct __test_metadata *_metadata,
				 const FIXTURE_VARIANT(event) *variant)
{
	if (variant->maker == &event_maker_perf)
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

/* Opens event_instructions() of a thread. Returns a descriptor. */
static inline int open_instructions(struct __test_metadata *_metadata,
				    const struct event_maker *maker, pid_t tid)
{
	int fd = event_open_instructions(maker, tid);

	ASSERT_LE(0, fd) {
		TH_LOG("%s: an event of thread %d can't be opened: %s", maker->name, tid,
		       strerror(-fd));
	}
	return fd;
}

#endif
