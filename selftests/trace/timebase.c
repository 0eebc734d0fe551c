// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that are counted between two overflows of another event, the timebase.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	1024
#define LOOPS	500000UL


FIXTURE(timebase)
{
	struct trace trace;
	int fd;
	int cpu;
	int following_count;
};

FIXTURE_VARIANT(timebase)
{
	__u32 rate;
};

FIXTURE_VARIANT_ADD(timebase, each_97) { .rate = 97 };
FIXTURE_VARIANT_ADD(timebase, each_1009) { .rate = 1009 };
FIXTURE_VARIANT_ADD(timebase, each_10007) { .rate = 10007 };
FIXTURE_VARIANT_ADD(timebase, never) { .rate = 10000019 };

FIXTURE_SETUP(timebase)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	self->following_count = p.max_num_programmable_events - 1;
	define_instructions(_metadata, self->fd, self->following_count);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(timebase)
{
	trace_free(&self->trace);
	close(self->fd);
}

/*
 * A config of instructions as the timebase, which @following_count events of instructions follow.
 * The rates of these events are ignored.
 */
static struct perfmon_config instructions(int following_count, __u32 rate)
{
	struct perfmon_config c = one_event(INSTRUCTIONS, rate,
					    FLAG_USER | FLAG_PC);
	int i;

	for (i = 0; i < following_count; i++) {
		c.events[1 + i] = MODEL_EVENT(i);
		c.rate[1 + i] = 3 * i;
		c.flags[1 + i] = FLAG_USER | FLAG_TIMEBASE0;
	}
	return c;
}

/*
 * Returns the number of COUNT records at overflows of the timebase whose count is not @want.
 */
static __u64 unexpected_counts(const struct trace *t, int cpu, __u64 want)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct trace_record r;
	bool ticked = false;
	__u64 other = 0;

	while (trace_next(&c, &r) > 0) {
		if (r.type == PERFMON_RECORD_TIME)
			ticked = false;
		else if (r.type == PERFMON_RECORD_PC)
			ticked = true;
		else if (ticked && r.count != want)
			other++;
	}
	return other;
}

TEST_F(timebase, following_events_count_between_ticks)
{
	struct perfmon_config config = instructions(self->following_count,
						    variant->rate);
	__u64 total = TRACE_LOOP_INSNS(LOOPS), ticks = total / variant->rate;
	struct trace_sums sums;
	int i;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LOOPS));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_EQ(ticks, sums.event[0].ticks);
	for (i = 1; i <= self->following_count; i++) {
		EXPECT_EQ(total, sums.event[i].total);
		EXPECT_EQ(0ULL, sums.event[i].ticks);

		/*
		 * Each event has a record at each overflow, and a record at the stop if there is a
		 * rest.
		 */
		EXPECT_LE(ticks, sums.event[i].counts);
		EXPECT_GE(ticks + 1, sums.event[i].counts);
	}
	EXPECT_EQ(0ULL, unexpected_counts(&self->trace, self->cpu, variant->rate));
}

/*
 * In a config with events that follow the timebase, an event with a rate of its own still overflows
 * at that rate.
 */
TEST_F(timebase, event_with_a_rate_ticks_beside_following_events)
{
	struct perfmon_config config = instructions(2, variant->rate);
	__u64 total = TRACE_LOOP_INSNS(LOOPS);
	struct trace_sums sums;
	int i;

	config.flags[0] = FLAG_USER;
	config.rate[2] = 1013;
	config.flags[2] = FLAG_USER | FLAG_PC;
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LOOPS));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(total, sums.event[i].total);
	EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
	EXPECT_EQ(0ULL, sums.event[1].ticks);
	EXPECT_EQ(total / 1013, sums.event[2].ticks);
}

/* The flag on the first event does not make the timebase follow itself. */
TEST_F(timebase, timebase_does_not_follow_itself)
{
	struct perfmon_config config = instructions(1, variant->rate);
	__u64 total = TRACE_LOOP_INSNS(LOOPS);
	struct trace_sums sums;

	config.flags[0] |= FLAG_TIMEBASE0;
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LOOPS));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_EQ(total / variant->rate, sums.event[0].ticks);
	EXPECT_EQ(total, sums.event[1].total);
}

/*
 * The events that follow the timebase count other events: branches, of which the loop has one for
 * two instructions, and the instructions of the kernel.
 */
TEST_F(timebase, following_events_count_other_events_and_modes)
{
	struct perfmon_config config = {
		.events = {
			INSTRUCTIONS, ARCH_EVENT(BRANCHES_RETIRED),
			MODEL_EVENT(0), MODEL_EVENT(1),
		},
		.rate = { variant->rate },
		.flags = {
			FLAG_USER,
			FLAG_USER | FLAG_TIMEBASE0,
			FLAG_OS | FLAG_TIMEBASE0,
			FLAG_USER | FLAG_OS | FLAG_TIMEBASE0,
		},
	};
	__u64 total = TRACE_LOOP_INSNS(LOOPS), kernel, both;
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, LOOPS));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(total, sums.event[0].total);
	EXPECT_EQ(total / variant->rate, sums.event[0].ticks);

	/* The loop's branches, and the system call. */
	EXPECT_EQ(LOOPS + 1, sums.event[1].total);
	kernel = sums.event[2].total;
	both = sums.event[3].total;
	EXPECT_LT(0ULL, kernel);
	EXPECT_LT(total, both);
}

TEST_HARNESS_MAIN
