// SPDX-License-Identifier: GPL-2.0-only
/*
 * The number of events in a config, which is limited by the counters and by the config's array; and
 * the definitions of model-specific events.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "machine.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define UNUSED_GROUP	PERFMON_MAKE_EVENT_ID(5, 1)
#define LAST_GROUP	PERFMON_MAKE_EVENT_ID(PERFMON_MAX_GROUP, 1)

FIXTURE(events)
{
	struct trace trace;
	struct machine machine;
	int fd;
};

FIXTURE_SETUP(events)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, machine_read(&self->machine));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
}

FIXTURE_TEARDOWN(events)
{
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(events, config_takes_as_many_events_as_counters)
{
	const struct perfmon_properties *p = &self->machine.properties;
	struct perfmon_config c = { .events = { 0 } };
	int general = p->max_num_programmable_events;
	int fixed = p->max_num_fixed_events;
	int i;

	ASSERT_GT(PERFMON_MAX_EVENTS, general + fixed);
	define_instructions(_metadata, self->fd, general + 1);
	for (i = 0; i < fixed; i++) {
		c.events[i] = PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, i + 1);
		c.rate[i] = 1000000;
		c.flags[i] = FLAG_USER;
	}
	for (i = 0; i < general; i++) {
		c.events[fixed + i] = MODEL_EVENT(i);
		c.rate[fixed + i] = 1000000;
		c.flags[fixed + i] = FLAG_USER;
	}
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	EXPECT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, trace_stop(&self->trace));

	/* One more event still fits into the array, but there are not enough general counters. */
	c.events[fixed + general] = MODEL_EVENT(general);
	EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
	if (fixed) {
		c.events[0] = MODEL_EVENT(general);
		c.events[fixed + general] = PERFMON_EVENT_ID_NONE;
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
	}
}

TEST_F(events, config_takes_a_full_array)
{
	struct perfmon_config c;
	int i;

	for (i = 0; i < PERFMON_MAX_EVENTS; i++) {
		ASSERT_EQ(0, trace_define(self->fd, i, EVENT_INSTRUCTIONS));
		c.events[i] = MODEL_EVENT(i);
		c.rate[i] = 1000;
		c.flags[i] = FLAG_USER;
	}
	EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
}

/* An argument of PERFMON_DEFINE_EVENT, and the condition under which it is accepted. */
struct definition_case {
	__u16 id;
	__u64 select;
	bool (*is_accepted)(const struct machine *m);
};

static bool always(const struct machine *)
{
	return true;
}

static bool never(const struct machine *)
{
	return false;
}

static bool on_amd(const struct machine *m)
{
	return !m->is_intel;
}

static bool with_second_unit_mask(const struct machine *)
{
	return pmu_select_bits() & 1ULL << 40;
}

static bool with_equality(const struct machine *)
{
	return pmu_select_bits() & 1ULL << 36;
}

TEST_F(events, definition_accepts_the_bits_that_the_cpu_has)
{
	static const struct definition_case definitions[] = {
		{ MODEL_EVENT(0), 0xc0, always },
		{ MODEL_EVENT(PERFMON_MAX_EVENT), 0xc0, always },
		{ MODEL_EVENT(1), 0xffd7ffff, always },
		{ MODEL_EVENT(1), 0xc0 | PMCF_USR << 16, always },
		{ MODEL_EVENT(1), 0xc0 | PMCF_OS << 16, always },
		{ MODEL_EVENT(1), 0xc0 | PMCF_INT << 16, always },
		{ MODEL_EVENT(1), 0xc0 | PMCF_EN << 16, always },
		{ MODEL_EVENT(1), 0xc0 | PMCF_PC << 16, never },
		{ MODEL_EVENT(1), 0xc0 | PMCF_ANY << 16, never },
		{ MODEL_EVENT(1), 1ULL << 32, on_amd },
		{ MODEL_EVENT(1), 1ULL << 35, on_amd },
		{ MODEL_EVENT(1), 1ULL << 36, with_equality },
		{ MODEL_EVENT(1), 1ULL << 37, never },
		{ MODEL_EVENT(1), 1ULL << 40, with_second_unit_mask },
		{ MODEL_EVENT(1), 1ULL << 47, with_second_unit_mask },
		{ MODEL_EVENT(1), 1ULL << 63, never },
		{ ARCH_EVENT(INSTRUCTIONS_RETIRED), 0xc0, never },
		{ FIXED_EVENT(INSTRUCTIONS_RETIRED), 0xc0, never },
		{ PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, 1), 0xc0, never },
		{ PERFMON_EVENT_ID_NONE, 0xc0, never },
		{ UNUSED_GROUP, 0xc0, never },
		{ LAST_GROUP, 0xc0, never },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(definitions); i++) {
		struct perfmon_event_definition d = {
			.id = definitions[i].id,
			.select = definitions[i].select,
		};

		EXPECT_EQ(definitions[i].is_accepted(&self->machine) ? 0 : -EINVAL,
			  device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d)) {
			TH_LOG("id 0x%x, select 0x%llx", d.id,
			       (unsigned long long)d.select);
		}
	}
}

/* From Zen on, AMD's event 0x003 needs two counters, and 0xfff merges two. */
TEST_F(events, definition_of_an_event_of_two_counters_is_refused)
{
	struct perfmon_event_definition large = { .id = MODEL_EVENT(1), .select = 0xff03 };
	struct perfmon_event_definition merge = { .id = MODEL_EVENT(1), .select = 0xf000000ffULL };
	int want = self->machine.is_intel ? 0 : -EOPNOTSUPP;

	EXPECT_EQ(want, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &large));
	want = self->machine.is_intel ? -EINVAL : -EOPNOTSUPP;
	EXPECT_EQ(want, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &merge));
}

/*
 * With the type of the only kind of core, a select with Intel's event 0 means the event of a fixed
 * counter, if there is one.
 */
TEST_F(events, definition_with_a_type_names_a_fixed_counter)
{
	struct perfmon_event_definition d = {
		.id = MODEL_EVENT(1),
		.type = PERF_TYPE_RAW,
	};
	struct perfmon_config c = one_event(MODEL_EVENT(1), 0, FLAG_USER);
	struct trace_sums sums;
	int cpu = sched_getcpu();

	if (!self->machine.is_intel || !self->machine.properties.max_num_fixed_events)
		return;
	ASSERT_EQ(0, pin_to_cpu(cpu));
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	d.select = 0x0f00;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	d.select = 0x0100;
	ASSERT_EQ(0, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, trace_loop(&self->trace, 1000));
	EXPECT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(1000), sums.event[0].total);
}

/* Definitions belong to the descriptor: they outlive a trace, but not the descriptor. */
TEST_F(events, definitions_last_until_the_close)
{
	struct perfmon_config c = one_event(MODEL_EVENT(5), 1000, FLAG_USER);

	EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_define(self->fd, 5, EVENT_INSTRUCTIONS));
	EXPECT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_free(&self->trace));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	EXPECT_EQ(0, trace_stage(&self->trace, &c));

	ASSERT_EQ(0, trace_free(&self->trace));
	close(self->fd);
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
}

/* A later definition replaces an earlier definition, also in the same trace. */
TEST_F(events, last_definition_of_an_event_counts)
{
	struct perfmon_config c = one_event(MODEL_EVENT(5), 0, FLAG_USER);
	struct trace_sums sums;
	int cpu = sched_getcpu();

	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, trace_define(self->fd, 5, 0x00));
	ASSERT_EQ(0, trace_define(self->fd, 5, EVENT_INSTRUCTIONS));
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, trace_loop(&self->trace, 1000));
	EXPECT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(1000), sums.event[0].total);
}

TEST_HARNESS_MAIN
