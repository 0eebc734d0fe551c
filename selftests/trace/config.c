// SPDX-License-Identifier: GPL-2.0-only
/*
 * Configs of a trace. When a config is refused, the previous config stays staged. An accepted
 * config can be started.
 *
 * A variant is a config, and the condition under which the config is accepted: always, never, or
 * only if the machine has its counters and events.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "machine.h"
#include "trace.h"
#include "trace_fixture.h"

/* Returns true if a machine has the counters and events of a config. */
typedef bool condition(const struct machine *m,
		       const struct perfmon_config *config);

FIXTURE(config)
{
	struct trace trace;
	struct machine machine;
	int fd;
};

FIXTURE_VARIANT(config)
{
	condition *is_accepted;
	struct perfmon_config config;
};

static bool always(const struct machine *, const struct perfmon_config *)
{
	return true;
}

static bool never(const struct machine *, const struct perfmon_config *)
{
	return false;
}

/* Returns true if the machine has the architectural event of the first event. */
static bool arch_event(const struct machine *m, const struct perfmon_config *c)
{
	return m->arch_events >> PERFMON_EVENT_ID_EVENT(c->events[0]) & 1;
}

/* Returns true if the machine has the fixed counter of the first event. */
static bool fixed_event(const struct machine *m, const struct perfmon_config *c)
{
	return PERFMON_EVENT_ID_EVENT(c->events[0]) <=
	       m->properties.max_num_fixed_events;
}

static bool last_branch(const struct machine *m, const struct perfmon_config *)
{
	return m->properties.flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH;
}

/* Returns true if the rate of the first event is small enough. */
static bool rate_fits(const struct machine *m, const struct perfmon_config *c)
{
	return c->rate[0] <= machine_largest_rate(m, false);
}

#define ROW(name) FIXTURE_VARIANT_ADD(config, name)

/*
 * The event "instructions", and two model-specific events that are defined to count instructions,
 * too.
 */
#define FIRST	INSTRUCTIONS
#define SECOND	MODEL_EVENT(0)
#define THIRD	MODEL_EVENT(PERFMON_MAX_EVENT)
#define UNDEFINED	MODEL_EVENT(1)
#define UNUSED_GROUP	PERFMON_MAKE_EVENT_ID(5, 1)
#define LAST_GROUP	PERFMON_MAKE_EVENT_ID(PERFMON_MAX_GROUP, 1)

#define USER_AND_OS	(FLAG_USER | FLAG_OS)

/* Modes and records */
ROW(user) { always, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER },
} };
ROW(kernel) { always, {
	.events = { FIRST }, .rate = { 1000000 }, .flags = { FLAG_OS },
} };
ROW(both_modes) { always, {
	.events = { FIRST }, .rate = { 1000000 }, .flags = { USER_AND_OS },
} };
ROW(no_mode) { always, {
	.events = { FIRST }, .rate = { 1000 },
} };
ROW(pc) { always, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER | FLAG_PC },
} };
ROW(tally) { always, {
	.events = { FIRST }, .flags = { FLAG_USER },
} };
ROW(pc_of_a_tally) { always, {
	.events = { FIRST }, .flags = { FLAG_USER | FLAG_PC },
} };
ROW(several) { always, {
	.events = { FIRST, SECOND, THIRD },
	.rate = { 1000, 0, 3000 },
	.flags = { FLAG_USER | FLAG_PC, USER_AND_OS, FLAG_USER },
} };
ROW(unknown_flag) { never, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER | 1U << 5 },
} };
ROW(unknown_last_flag) { never, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER | 1U << 31 },
} };
ROW(unknown_flag_second) { never, {
	.events = { FIRST, SECOND }, .rate = { 1000 }, .flags = { FLAG_USER, 1U << 8 },
} };

/* The list of events */
ROW(no_event) { never, {
	.events = { 0 },
} };
ROW(no_event_but_a_rate) { never, {
	.rate = { 1000 },
} };
ROW(no_event_but_a_flag) { never, {
	.flags = { FLAG_USER },
} };
ROW(hole_at_the_front) { never, {
	.events = { 0, FIRST }, .flags = { 0, FLAG_USER },
} };
ROW(hole) { never, {
	.events = { FIRST, 0, SECOND }, .flags = { FLAG_USER, 0, FLAG_USER },
} };
ROW(event_at_the_end) { never, {
	.events = { FIRST, [PERFMON_MAX_EVENTS - 1] = SECOND }, .flags = { FLAG_USER },
} };
ROW(rate_after_the_end) { never, {
	.events = { FIRST }, .rate = { 1000, 1 }, .flags = { FLAG_USER },
} };
ROW(rate_at_the_end) { never, {
	.events = { FIRST },
	.rate = { 1000, [PERFMON_MAX_EVENTS - 1] = 1 },
	.flags = { FLAG_USER },
} };
ROW(flag_after_the_end) { never, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER, FLAG_USER },
} };
ROW(flag_at_the_end) { never, {
	.events = { FIRST },
	.rate = { 1000 },
	.flags = { FLAG_USER, [PERFMON_MAX_EVENTS - 1] = FLAG_USER },
} };
ROW(twice) { never, {
	.events = { FIRST, FIRST }, .flags = { FLAG_USER, FLAG_USER },
} };
ROW(twice_in_other_modes) { never, {
	.events = { FIRST, FIRST }, .flags = { FLAG_USER, FLAG_OS },
} };
ROW(twice_with_one_between) { never, {
	.events = { FIRST, SECOND, FIRST },
	.flags = { FLAG_USER, FLAG_USER, FLAG_USER },
} };
ROW(model_event_twice) { never, {
	.events = { SECOND, SECOND }, .flags = { FLAG_USER, FLAG_USER },
} };

/* Events */
ROW(group_0) { never, {
	.events = { 5 }, .flags = { FLAG_USER },
} };
ROW(group_5) { never, {
	.events = { UNUSED_GROUP }, .flags = { FLAG_USER },
} };
ROW(group_63) { never, {
	.events = { LAST_GROUP }, .flags = { FLAG_USER },
} };
ROW(arch_core_cycles) { arch_event, {
	.events = { ARCH_EVENT(UNHALTED_CORE_CYCLES) }, .flags = { FLAG_USER },
} };
ROW(arch_instructions) { arch_event, {
	.events = { ARCH_EVENT(INSTRUCTIONS_RETIRED) }, .flags = { FLAG_USER },
} };
ROW(arch_reference_cycles) { arch_event, {
	.events = { ARCH_EVENT(UNHALTED_REFERENCE_CYCLES) }, .flags = { FLAG_USER },
} };
ROW(arch_llc_references) { arch_event, {
	.events = { ARCH_EVENT(LLC_REFERENCES) }, .flags = { FLAG_USER },
} };
ROW(arch_llc_misses) { arch_event, {
	.events = { ARCH_EVENT(LLC_MISSES) }, .flags = { FLAG_USER },
} };
ROW(arch_branches) { arch_event, {
	.events = { ARCH_EVENT(BRANCHES_RETIRED) }, .flags = { FLAG_USER },
} };
ROW(arch_branch_misses) { arch_event, {
	.events = { ARCH_EVENT(BRANCH_MISSES_RETIRED) }, .flags = { FLAG_USER },
} };
ROW(arch_topdown_slots) { arch_event, {
	.events = { ARCH_EVENT(TOPDOWN_SLOTS) }, .flags = { FLAG_USER },
} };
ROW(arch_8) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, 8) },
	.flags = { FLAG_USER },
} };
ROW(arch_last) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, PERFMON_MAX_EVENT) },
	.flags = { FLAG_USER },
} };
ROW(fixed_0) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, 0) },
	.flags = { FLAG_USER },
} };
ROW(fixed_instructions) { fixed_event, {
	.events = { FIXED_EVENT(INSTRUCTIONS_RETIRED) }, .flags = { FLAG_USER },
} };
ROW(fixed_core_cycles) { fixed_event, {
	.events = { FIXED_EVENT(UNHALTED_CORE_CYCLES) }, .flags = { FLAG_USER },
} };
ROW(fixed_reference_cycles) { fixed_event, {
	.events = { FIXED_EVENT(UNHALTED_REFERENCE_CYCLES) }, .flags = { FLAG_USER },
} };
ROW(fixed_topdown_slots) { fixed_event, {
	.events = { FIXED_EVENT(TOPDOWN_SLOTS) }, .flags = { FLAG_USER },
} };
ROW(fixed_5) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, 5) },
	.flags = { FLAG_USER },
} };
ROW(fixed_last) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, PERFMON_MAX_EVENT) },
	.flags = { FLAG_USER },
} };
ROW(model_first) { always, {
	.events = { SECOND }, .flags = { FLAG_USER },
} };
ROW(model_last) { always, {
	.events = { THIRD }, .flags = { FLAG_USER },
} };
ROW(model_undefined) { never, {
	.events = { UNDEFINED }, .flags = { FLAG_USER },
} };
ROW(model_undefined_second) { never, {
	.events = { FIRST, UNDEFINED }, .flags = { FLAG_USER, FLAG_USER },
} };
ROW(misc_of_fuchsia) { never, {
	.events = { PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, 1) },
} };
ROW(misc_as_a_timebase) { never, {
	.events = { MISC_EVENT(APERF), FIRST },
	.rate = { 1000 },
	.flags = { 0, FLAG_USER | FLAG_TIMEBASE0 },
} };

/* Rates */
ROW(rate_1) { always, {
	.events = { FIRST }, .rate = { 1 },
} };
ROW(rate_24_bits) { rate_fits, {
	.events = { FIRST }, .rate = { (1 << 24) - 1 }, .flags = { FLAG_USER },
} };
ROW(rate_25_bits) { rate_fits, {
	.events = { FIRST }, .rate = { 1 << 24 }, .flags = { FLAG_USER },
} };
ROW(rate_31_bits) { rate_fits, {
	.events = { FIRST }, .rate = { (1U << 31) - 1 }, .flags = { FLAG_USER },
} };
ROW(rate_half) { rate_fits, {
	.events = { FIRST }, .rate = { 1U << 31 }, .flags = { FLAG_USER },
} };
ROW(rate_above_half) { rate_fits, {
	.events = { FIRST }, .rate = { (1U << 31) + 1 }, .flags = { FLAG_USER },
} };
ROW(rate_32_bits) { rate_fits, {
	.events = { FIRST }, .rate = { ~0U }, .flags = { FLAG_USER },
} };

/* Timebase */
ROW(timebase) { always, {
	.events = { FIRST, SECOND },
	.rate = { 1000 },
	.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(timebase_itself) { always, {
	.events = { FIRST, SECOND },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_TIMEBASE0, FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(timebase_alone) { always, {
	.events = { FIRST }, .rate = { 1000 }, .flags = { FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(timebase_and_a_rate) { always, {
	.events = { FIRST, SECOND },
	.rate = { 1000, 5 },
	.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(timebase_and_pc) { always, {
	.events = { FIRST, SECOND },
	.rate = { 1000, 5 },
	.flags = { FLAG_USER | FLAG_PC, FLAG_USER | FLAG_PC | FLAG_TIMEBASE0 },
} };
ROW(timebase_and_others) { always, {
	.events = { FIRST, SECOND, THIRD },
	.rate = { 1000, 0, 3000 },
	.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0, FLAG_USER },
} };
ROW(timebase_without_a_rate) { never, {
	.events = { FIRST, SECOND },
	.rate = { 0, 1000 },
	.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(timebase_itself_without_a_rate) { never, {
	.events = { FIRST }, .flags = { FLAG_USER | FLAG_TIMEBASE0 },
} };

/* Last branches */
ROW(branches) { last_branch, {
	.events = { FIRST },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH },
} };
ROW(branches_and_pc) { last_branch, {
	.events = { FIRST },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_PC | FLAG_LAST_BRANCH },
} };
ROW(branches_of_two) { last_branch, {
	.events = { FIRST, SECOND },
	.rate = { 1000, 1500 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH, FLAG_USER | FLAG_LAST_BRANCH },
} };
ROW(branches_beside_other_modes) { last_branch, {
	.events = { FIRST, SECOND },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH, USER_AND_OS },
} };
ROW(branches_of_the_timebase) { last_branch, {
	.events = { FIRST, SECOND },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH, FLAG_USER | FLAG_TIMEBASE0 },
} };
ROW(branches_of_its_own_timebase) { last_branch, {
	.events = { FIRST },
	.rate = { 1000 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH | FLAG_TIMEBASE0 },
} };
ROW(branches_without_a_rate) { never, {
	.events = { FIRST }, .flags = { FLAG_USER | FLAG_LAST_BRANCH },
} };
ROW(branches_of_a_following_event) { never, {
	.events = { FIRST, SECOND },
	.rate = { 1000, 1000 },
	.flags = { FLAG_USER, FLAG_USER | FLAG_TIMEBASE0 | FLAG_LAST_BRANCH },
} };
ROW(branches_of_two_modes) { never, {
	.events = { FIRST, SECOND },
	.rate = { 1000, 1500 },
	.flags = { FLAG_USER | FLAG_LAST_BRANCH, USER_AND_OS | FLAG_LAST_BRANCH },
} };

static const struct perfmon_config replaced_config = {
	.events = { INSTRUCTIONS },
	.rate = { 123456 },
	.flags = { PERFMON_CONFIG_FLAG_USER },
};

FIXTURE_SETUP(config)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, machine_read(&self->machine));
	ASSERT_EQ(0, trace_define(self->fd, 0, EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, trace_define(self->fd, PERFMON_MAX_EVENT,
				  EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	ASSERT_EQ(0, trace_stage(&self->trace, &replaced_config));
}

FIXTURE_TEARDOWN(config)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(config, config_works_or_is_refused_and_changes_nothing)
{
	bool is_accepted = variant->is_accepted(&self->machine, &variant->config);
	const struct perfmon_config *want = is_accepted ? &variant->config : &replaced_config;
	struct perfmon_config now;

	EXPECT_EQ(is_accepted ? 0 : -EINVAL,
		  trace_stage(&self->trace, &variant->config));
	memset(&now, 0xff, sizeof(now));
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &now));
	EXPECT_EQ(0, memcmp(&now, want, sizeof(now)));
	EXPECT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, trace_stop(&self->trace));

	/*
	 * Without a previous config, STAGE returns the same result, and a config that is refused
	 * leaves none staged.
	 */
	ASSERT_EQ(0, trace_free(&self->trace));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	EXPECT_EQ(is_accepted ? 0 : -EINVAL,
		  trace_stage(&self->trace, &variant->config));
	EXPECT_EQ(is_accepted ? 0 : -EBADFD,
		  device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &now));
}

TEST_HARNESS_MAIN
