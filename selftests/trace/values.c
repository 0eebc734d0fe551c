// SPDX-License-Identifier: GPL-2.0-only
/*
 * VALUE records, which need no counter: energy, temperatures, clocks. On the virtual PMU values are
 * computed from the retired instructions of all modes (Documentation/virtual-pmu.rst).
 *
 * $VALUES is the bit map of the events that the CPUs have (none by default). $UNIT is the
 * exponent of the unit of energy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "options.h"
#include "perf.h"
#include "retired.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	256
#define N	2000000UL
/* The number of event ids; ids below 32 are Fuchsia's own. */
#define ALL	(PERFMON_MISC_EVENT_MPERF + 1)

/* Energy per instruction, in the unit of the records: 2^-32 Joules */
#define PACKAGE_ENERGY	4096ULL
#define CORES_ENERGY	3072ULL
#define MEMORY_ENERGY	1024ULL

static const __u64 energies[] = {
	[PERFMON_MISC_EVENT_ENERGY_PACKAGE] = PACKAGE_ENERGY,
	[PERFMON_MISC_EVENT_ENERGY_CORES] = CORES_ENERGY,
	[PERFMON_MISC_EVENT_ENERGY_CORE] = CORES_ENERGY,
	[PERFMON_MISC_EVENT_ENERGY_MEMORY] = MEMORY_ENERGY,
};

static __u16 misc_event(int n)
{
	return PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, n);
}

FIXTURE(values)
{
	struct trace trace;
	int fd;
	int cpu;
	__u64 present;
};

FIXTURE_SETUP(values)
{
	SKIP_WITHOUT_PMU();
	self->present = env_number("VALUES", 0);
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(values)
{
	trace_free(&self->trace);
	close(self->fd);
}

static bool has_value(const FIXTURE_DATA(values) *self, int n)
{
	return self->present & (1ULL << n);
}

TEST_F(values, properties_list_the_registers)
{
	int n = __builtin_popcountll(self->present);
	struct perfmon_properties p;
	struct perfmon_info info;

	ASSERT_EQ(0, device_properties(self->fd, &p));
	EXPECT_EQ(n, p.max_num_misc_events);
	EXPECT_EQ(n ? 64 : 0, p.max_misc_counter_width);
	EXPECT_EQ(p.max_num_programmable_events + p.max_num_fixed_events + n,
		  p.max_num_events);
	ASSERT_EQ(0, device_ioctl(self->fd, PERFMON_GET_INFO, &info));
	EXPECT_EQ(self->present, info.misc_events);
}

/* An event that the CPUs lack is refused, alone and with a timebase. */
TEST_F(values, other_registers_are_refused)
{
	struct perfmon_config alone, follower;
	int i, want;

	for (i = 0; i < ALL + 1; i++) {
		want = has_value(self, i) ? 0 : -EINVAL;
		alone = one_event(misc_event(i), 0, 0);
		EXPECT_EQ(want, trace_stage(&self->trace, &alone));
		follower = one_event(INSTRUCTIONS, 1000, FLAG_USER);
		follower.events[1] = misc_event(i);
		follower.flags[1] = FLAG_TIMEBASE0;
		EXPECT_EQ(want, trace_stage(&self->trace, &follower));
	}
}

/* A VALUE event can have no rate and no branches, and no event can follow it. */
TEST_F(values, invalid_configs_are_refused)
{
	struct perfmon_config c;
	int i;

	for (i = 0; i < ALL; i++) {
		c = one_event(misc_event(i), 1, 0);
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		c.flags[0] = FLAG_TIMEBASE0;
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		c = one_event(misc_event(i), 0, FLAG_LAST_BRANCH);
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
		c = one_event(misc_event(i), 0, 0);
		c.events[1] = INSTRUCTIONS;
		c.flags[1] = FLAG_USER | FLAG_TIMEBASE0;
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &c));
	}
}

/*
 * Adds all values that the CPUs have to config @c, from index @n on. Returns their number.
 */
static int add_values(const FIXTURE_DATA(values) *self,
		      struct perfmon_config *c, int n, __u32 flags)
{
	int i, added = 0;

	for (i = 0; i < ALL; i++) {
		if (!has_value(self, i))
			continue;
		c->events[n + added] = misc_event(i);
		c->flags[n + added] = flags;
		added++;
	}
	return added;
}

/* A sample: the number of instructions since START, and the values by their event numbers. */
struct value_sample {
	__u64 insns;		/* from START on */
	__u64 value[ALL];
};

/* Reads the samples of the CPU. The last sample is that of STOP. */
static int read_samples(const struct trace *t, int cpu, struct value_sample *s, int room)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct trace_record r;
	__u64 insns = 0;
	int n = -1;

	while (trace_next(&c, &r) > 0) {
		switch (r.type) {
		case PERFMON_RECORD_TIME:
			if (++n == room)
				return n;
			memset(&s[n], 0, sizeof(s[n]));
			break;
		case PERFMON_RECORD_COUNT:
			if (r.event != MODEL_EVENT(0))
				break;
			insns += r.count;
			s[n].insns = insns;
			break;
		case PERFMON_RECORD_VALUE:
			s[n].value[PERFMON_EVENT_ID_EVENT(r.event)] = r.count;
			break;
		}
	}
	return n + 1;
}

#define SAMPLES	1000

/* Returns the absolute difference. */
static __u64 distance(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

/*
 * At each overflow all values are read right after the instructions of both modes: between two
 * overflows they grow by a multiple of the instructions.
 */
TEST_F(values, values_follow_the_timebase)
{
	/* The unit in 2^-32 Joules; with exponent 22 and a single CPU all values are exact. */
	const __u64 unit = 1ULL << (32 - env_number("UNIT", 22));
	const bool others = self->trace.cpus > 1;
	static struct value_sample s[SAMPLES];
	struct perfmon_config c = one_event(INSTRUCTIONS, 10007, FLAG_USER);
	struct trace_sums sums;
	__u64 insns, grown;
	int added, i, n, v;

	if (!self->present)
		return;
	define_instructions(_metadata, self->fd, 1);
	c.events[1] = MODEL_EVENT(0);
	c.flags[1] = FLAG_USER | FLAG_OS | FLAG_TIMEBASE0;
	added = add_values(self, &c, 2, FLAG_TIMEBASE0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N) / 10007, sums.event[0].ticks);
	for (i = 2; i < 2 + added; i++)
		EXPECT_EQ(sums.event[0].ticks + 1, sums.event[i].values);

	n = read_samples(&self->trace, self->cpu, s, SAMPLES);
	ASSERT_EQ(sums.times, (__u64)n);
	/* Leaves out the last sample, which is a record of STOP and not of a PMI. */
	for (i = 1; i < n - 1; i++) {
		insns = s[i].insns - s[i - 1].insns;
		for (v = 0; v < (int)ARRAY_SIZE(energies); v++) {
			if (!has_value(self, v))
				continue;
			grown = s[i].value[v] - s[i - 1].value[v];
			EXPECT_LT(insns * energies[v], grown + unit) {
				TH_LOG("event %d, sample %d", v, i);
			}
			/* The energy of a package includes that of its other CPUs. */
			if (others && v != PERFMON_MISC_EVENT_ENERGY_CORE)
				continue;
			EXPECT_GT(insns * energies[v] + unit, grown) {
				TH_LOG("event %d, sample %d", v, i);
			}
		}
		/* Values are rounded down. */
		grown = s[i].value[PERFMON_MISC_EVENT_APERF] -
			s[i - 1].value[PERFMON_MISC_EVENT_APERF];
		EXPECT_GE(1ULL, distance(insns * 10 / 8, grown));
		grown = s[i].value[PERFMON_MISC_EVENT_MPERF] -
			s[i - 1].value[PERFMON_MISC_EVENT_MPERF];
		EXPECT_GE(1ULL, distance(insns * 9 / 8, grown));
	}
}

/* Tests values at START and STOP in a trace without a counter. */
TEST_F(values, values_need_no_counter)
{
	const __u64 unit = 1ULL << (32 - env_number("UNIT", 22));
	struct perfmon_config c = {};
	struct trace_sums sums;
	__u64 least = LOOP_INSNS * N, most;
	int added, i, v;

	if (!self->present)
		return;
	added = add_values(self, &c, 0, FLAG_USER | FLAG_OS);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	/* The values also include the instructions of the kernel meanwhile, on all CPUs. */
	most = retired_insns();
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	most = retired_at_most(most);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_EQ(1ULL, sums.times);
	for (i = 0; i < added; i++) {
		EXPECT_EQ(1ULL, sums.event[i].values);
		v = PERFMON_EVENT_ID_EVENT(c.events[i]);
		if (v >= (int)ARRAY_SIZE(energies))
			continue;
		EXPECT_LE(least * energies[v], sums.event[i].value);
		EXPECT_GE(most * energies[v] + unit, sums.event[i].value);
	}
}

/* Records values while Linux perf has all counters. */
TEST_F(values, values_are_recorded_beside_perf)
{
	struct perfmon_config c = {};
	struct trace_sums sums;
	long long count;
	int perf;

	if (!self->present)
		return;
	perf = perf_open_instructions();
	ASSERT_LE(0, perf);
	count = perf_count_loop(perf, N);
	add_values(self, &c, 0, 0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(2 * count, perf_count_loop(perf, N));
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(3 * count, perf_count_loop(perf, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(1ULL, sums.event[0].values);
	EXPECT_LE(LOOP_INSNS * N * PACKAGE_ENERGY, sums.event[0].value);
	close(perf);
}

static __s64 last_value(const struct perfmon_config *c,
			const struct trace_sums *sums, int v)
{
	int i;

	for (i = 0; i < PERFMON_MAX_EVENTS; i++) {
		if (c->events[i] == misc_event(v))
			return sums->event[i].value;
	}
	return -1;
}

/* Temperature and margin add up to 100 degrees, and follow the instructions. */
TEST_F(values, temperatures_are_those_of_the_sensors)
{
	const struct {
		int temperature;
		int margin;
		int lowest;
	} sensors[] = {
		{ PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE,
		  PERFMON_MISC_EVENT_MARGIN_PACKAGE, 50 },
		{ PERFMON_MISC_EVENT_TEMPERATURE_CORE,
		  PERFMON_MISC_EVENT_MARGIN_CORE, 40 },
	};
	struct perfmon_config c = {};
	struct trace_sums sums;
	__s64 from[2], to, margin, most;
	__u64 before;
	int i, round;

	if (!has_value(self, PERFMON_MISC_EVENT_TEMPERATURE_CORE))
		return;
	add_values(self, &c, 0, 0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	before = retired_insns();
	for (round = 0; round < 2; round++) {
		/*
		 * A record has the temperature at STOP. In round 1 the temperature rises by three
		 * degrees.
		 */
		ASSERT_EQ(0, trace_loop(&self->trace, round ? 3UL << 21 : 1));
		/*
		 * The temperature rises by a degree in 2^22 instructions of all modes; the first
		 * degree comes sooner.
		 */
		most = 1 + (retired_at_most(before) >> 22);
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		for (i = 0; i < 2; i++) {
			to = last_value(&c, &sums, sensors[i].temperature);
			margin = last_value(&c, &sums, sensors[i].margin);
			EXPECT_LE(sensors[i].lowest, to);
			EXPECT_GT(sensors[i].lowest + 32, to);
			/* The second value may be read a degree later. */
			EXPECT_GE(1ULL, distance(100 - to, margin) % 31);
			if (round) {
				EXPECT_LE(3, (to - from[i] + 32) % 32);
				EXPECT_GE(most, (to - from[i] + 32) % 32);
			}
			from[i] = to;
		}
	}
}

/* A package's value is recorded on one CPU of the package, a core's value on each core. */
TEST_F(values, each_value_is_recorded_once_in_its_scope)
{
	const __u64 of_package = 1ULL << PERFMON_MISC_EVENT_ENERGY_PACKAGE |
				 1ULL << PERFMON_MISC_EVENT_ENERGY_CORES |
				 1ULL << PERFMON_MISC_EVENT_ENERGY_MEMORY |
				 1ULL << PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE |
				 1ULL << PERFMON_MISC_EVENT_MARGIN_PACKAGE;
	struct perfmon_config c = {};
	struct trace_sums sums;
	cpu_set_t cpus;
	int added, cpu, i;

	if (!self->present)
		return;
	added = add_values(self, &c, 0, 0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_loop(&self->trace, 1000));
	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < (int)self->trace.cpus; cpu++)
		CPU_SET(cpu, &cpus);
	for_each_cpu_in(cpu, &cpus) {
		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		for (i = 0; i < added; i++) {
			int v = PERFMON_EVENT_ID_EVENT(c.events[i]);
			bool elsewhere = (of_package & (1ULL << v)) &&
					 cpu != self->cpu;

			EXPECT_EQ(elsewhere ? 0ULL : 1ULL,
				  sums.event[i].values) {
				TH_LOG("event %d on CPU %d", v, cpu);
			}
		}
	}
}

/* A CPU that goes offline writes its values, also without counters in the trace. */
TEST_F(values, offline_cpu_leaves_its_values)
{
	struct perfmon_config c = {};
	struct trace_sums sums;
	int home, cpu, online;
	cpu_set_t all;

	if (!self->present)
		return;
	memset(&all, 0xff, sizeof(all));
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
	if (cpu_find_hotpluggable(&home, &cpu, &online) == -ENODEV)
		return;
	ASSERT_EQ(self->cpu, home);
	ASSERT_EQ(0, pin_to_cpu(home));
	add_values(self, &c, 0, 0);
	ASSERT_EQ(0, trace_stage(&self->trace, &c));
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, cpu_set_online(online, "0"));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE, self->trace.buffer[cpu]->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	EXPECT_EQ(1ULL, sums.times);
	EXPECT_LT(0LL, last_value(&c, &sums, PERFMON_MISC_EVENT_APERF));
	ASSERT_EQ(0, cpu_set_online(online, "1"));
	ASSERT_EQ(0, trace_stop(&self->trace));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_LT(0LL, last_value(&c, &sums, PERFMON_MISC_EVENT_APERF));
	close(online);
}

TEST_HARNESS_MAIN
