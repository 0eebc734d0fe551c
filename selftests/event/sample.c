// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of known loops: there is one sample for each period in the count, at the right
 * instruction.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "kallsyms.h"
#include "loop.h"
#include "samples.h"

#define N	100000UL

FIXTURE(event)
{
	struct sampler sampler;
	int cpu;	/* the first CPU */
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"
#include "sample_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	self->sampler.fd = -1;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Expected values of samples of the current thread. */
struct loop_findings {
	int cpu;
	unsigned long elsewhere;	/* samples outside of the loop */
	unsigned long wrong;
};

static void check_sample(const struct sample *s, void *data)
{
	struct loop_findings *e = data;

	e->wrong += s->pid != (__u32)getpid() || s->tid != (__u32)gettid() ||
		    s->cpu != (__u32)e->cpu;
	e->elsewhere += s->ip < (uintptr_t)labelled_loop_begin ||
			s->ip > (uintptr_t)labelled_loop_end;
}

/* A period, and a loop with at least as many instructions. */
static const struct {
	__u64 period;
	unsigned long n;
} cases[] = {
	{ 97, N / 4 }, { 1009, N }, { 10007, N }, { 100003, 6 * N }, { 1000003, 20 * N },
	/* More than the range of counters of 24 bits. */
	{ 20000003, 260 * N },
};

TEST_F(event, number_of_samples_is_count_divided_by_period)
{
	unsigned int i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct loop_findings e = { .cpu = self->cpu };
		struct sampler *s = &self->sampler;
		__u64 period = cases[i].period;
		__s64 count;

		open_sampler(_metadata, variant, s, event_every(period), 0);
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(cases[i].n);
		ASSERT_EQ(0, event_disable(s->fd));
		count = expect_samples(_metadata, variant, s, period, check_sample, &e);
		EXPECT_EQ(0UL, e.wrong);
		/*
		 * With a skid, a late PMI may report an overflow that happened outside of the loop.
		 */
		count += env_number("SKID", 0) - LOOP_INSNS * cases[i].n;
		if (samples_are_exact(variant))
			EXPECT_GE((unsigned long)count / period + 1, e.elsewhere);
		sampler_close(s);
	}
}

/* The distances between samples, in instructions of the loop. */
struct sample_distances {
	unsigned long n;	/* iterations */
	__u64 period;
	__u64 first, samples;
	__u64 max_deviation;
};

static void check_position(const struct sample *s, void *data)
{
	struct sample_distances *p = data;
	__u64 position, deviation;

	if (!in_labelled_loop(s->ip))
		return;
	/* After DEC, half of the iteration is done. */
	position = LOOP_INSNS * (p->n - s->registers[0]) -
		   (s->ip != (uintptr_t)labelled_loop_begin);
	if (!p->samples++)
		p->first = position;
	deviation = position - p->first - (p->samples - 1) * p->period;
	if ((__s64)deviation < 0)
		deviation = -deviation;
	if (deviation > p->max_deviation)
		p->max_deviation = deviation;
}

/* By the loop's register, the test knows after how many instructions a sample came. */
TEST_F(event, samples_are_a_period_apart)
{
	struct sample_distances p = { .n = N, .period = 10007 };
	struct perf_event_attr attr = event_every(p.period);
	struct sampler *s = &self->sampler;

	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTER_CX;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, p.period, check_position, &p);
	if (samples_are_exact(variant)) {
		EXPECT_LE(N * LOOP_INSNS / p.period, p.samples);
		EXPECT_GE(env_number("SKID", 1), p.max_deviation);
	}
}

/* Times are those of the system's clock. */
TEST_F(event, sample_times_are_those_of_the_clock)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW };
	struct perf_event_attr attr = event_every(N);
	struct sampler *s = &self->sampler;
	struct timespec begin, end;
	struct sample_sums sums;
	unsigned int i;

	attr.use_clockid = 1;
	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		attr.clockid = clocks[i];
		open_sampler(_metadata, variant, s, attr, 0);
		ASSERT_EQ(0, event_enable(s->fd));
		clock_gettime(clocks[i], &begin);
		labelled_loop(N);
		clock_gettime(clocks[i], &end);
		ASSERT_EQ(0, event_disable(s->fd));
		sums = SAMPLE_SUMS_INIT;
		sampler_read(s, &sums, NULL, NULL);
		EXPECT_LE(2UL, sums.samples);
		EXPECT_LE(begin.tv_sec * 1000000000ULL + begin.tv_nsec, sums.last_time);
		EXPECT_GE(end.tv_sec * 1000000000ULL + end.tv_nsec, sums.last_time);
		sampler_close(s);
	}
}

/* The rest of a period is kept until the event is enabled again. */
TEST_F(event, disabled_event_keeps_the_rest_of_its_period)
{
	const __u64 period = 10007;
	struct sampler *s = &self->sampler;
	int i;

	open_sampler(_metadata, variant, s, event_every(period), 0);
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(1000 + 7 * i);
		ASSERT_EQ(0, event_disable(s->fd));
		labelled_loop(1000);
	}
	expect_samples(_metadata, variant, s, period, NULL, NULL);
}

TEST_F(event, new_period_begins_at_once)
{
	static const __u64 periods[] = { 10007, 997, 30011 };
	struct sampler *s = &self->sampler;
	unsigned int i;

	open_sampler(_metadata, variant, s, event_every(5003), 0);
	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		__u64 period = periods[i];

		ASSERT_EQ(0, event_reset(s->fd));
		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N / 2);
		ASSERT_EQ(0, event_disable(s->fd));
		expect_samples(_metadata, variant, s, period, NULL, NULL);
	}
}

/* If the period is changed while the event counts, the rest of the old period is dropped. */
TEST_F(event, new_period_begins_while_the_event_counts)
{
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 period = 997;
	__s64 count;

	open_sampler(_metadata, variant, s, event_every(100000007), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	count = event_count(s->fd);
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_LE(N * LOOP_INSNS / period, sums.samples);
	EXPECT_GE((count - N * LOOP_INSNS) / period, sums.samples);
	EXPECT_EQ(sums.samples * period, sums.periods);
}

/* If samples are due when the period changes, and are not taken, they are reported as lost. */
TEST_F(event, samples_lost_by_new_periods_are_reported)
{
	const __u64 periods[] = { 1, 2 }, last = 1ULL << 40;
	struct perf_event_attr attr = event_every(1);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 count[2], expected = 0;
	int i;

	/* Tests only the module: perf does not report such samples. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.read_format = PERF_FORMAT_LOST;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < 100; i++) {
		__u64 period = periods[i % 2];
		__s64 before = event_count(s->fd);

		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(50 + i);
		ASSERT_EQ(0, event_disable(s->fd));
		expected += (event_count(s->fd) - before) / period;
	}
	/* The sample that was due is reported as lost. */
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&last));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
	EXPECT_EQ(expected, sums.samples + count[1]);
}

/* Notes the count in a sample. */
static void note_count(const struct sample *s, void *data)
{
	*(__u64 *)data = s->counts[0];
}

TEST_F(event, new_frequencies_lose_no_events)
{
	const __u64 frequencies[] = { 1000, 100, 3000 };
	struct perf_event_attr attr = event_every(1000);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 count = 0;
	unsigned int i;

	/* perf starts a new period. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.freq = 1;
	attr.sample_type |= PERF_SAMPLE_READ;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < 30; i++) {
		__u64 frequency = frequencies[i % ARRAY_SIZE(frequencies)];

		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&frequency));
		ASSERT_EQ(0, sampler_loop_until_record(s, 10 * N));
		sampler_read(s, &sums, note_count, &count);
	}
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ(count, sums.periods);
}

TEST_F(event, invalid_period_is_refused)
{
	static const __u64 wrong[] = { 0, 1ULL << 63, ~0ULL };
	struct sampler *s = &self->sampler;
	__u64 period = 1;
	unsigned int i;
	int fd;

	open_sampler(_metadata, variant, s, event_every(N), 0);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(-EINVAL,
			  event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&wrong[i]));
	}
	EXPECT_EQ(-EFAULT, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, 8));
	fd = open_instructions(_metadata, variant->maker, 0);
	EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
	close(fd);
}

struct frequency_findings {
	__u64 longest;	/* period */
	struct sample_distances p;
};

/* Notes the first sample in the loop, and the largest deviation from the periods. */
static void check_frequency(const struct sample *s, void *data)
{
	struct frequency_findings *f = data;

	if (s->period > f->longest)
		f->longest = s->period;
	if (f->p.samples) {
		/*
		 * check_position() expects equal periods, so its start is corrected by the
		 * difference of the periods.
		 */
		f->p.first += s->period - f->p.period;
	}
	check_position(s, &f->p);
}

/*
 * Returns whether the number of samples is about right. Emulated time is uneven, so there are fewer
 * samples while the host is busy. With EVEN, time is counted in instructions (run --icount).
 */
static bool is_right_rate(__u64 wanted, unsigned long samples)
{
	if (env_number("EVEN", 0))
		return samples >= wanted - wanted / 8 && samples <= wanted + wanted / 8;
	return samples >= wanted / 8 && samples <= wanted * 2;
}

/* The samples of an event with FREQUENCY. */
#define FREQUENCY	1000
#define ATTEMPTS	10

/*
 * Executes a loop, and expects as many samples as FREQUENCY says. If the CPU stands still, time
 * passes without samples, and the loop is executed again. The sum of all samples' periods must not
 * be above the count. Calls @each with @f for each sample of a loop, from the loop's first one on.
 */
static void expect_frequency(struct __test_metadata *_metadata,
			     const FIXTURE_VARIANT(event) *variant, struct sampler *s,
			     struct frequency_findings *f,
			     void (*each)(const struct sample *sample, void *data))
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 read_out[3] = { 0 }, before, wanted = 0;
	unsigned long samples = 0;
	bool is_right = false;
	int i;

	for (i = 0; i < ATTEMPTS && !is_right; i++) {
		before = read_out[2];
		samples = sums.samples;
		f->p.samples = 0;
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(f->p.n);
		ASSERT_EQ(0, event_disable(s->fd));
		ASSERT_EQ((ssize_t)sizeof(read_out), read(s->fd, read_out, sizeof(read_out)));
		sampler_read(s, &sums, each, f);
		wanted = (read_out[2] - before) * FREQUENCY / 1000000000;
		samples = sums.samples - samples;
		TH_LOG("%s: %lu samples, %llu wanted", variant->maker->name, samples, wanted);
		is_right = is_right_rate(wanted, samples);
	}
	EXPECT_TRUE(is_right);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_GE(read_out[0], sums.periods);
}

TEST_F(event, frequency_is_the_number_of_samples_per_second)
{
	struct frequency_findings f = { .p = { .n = 500 * N } };
	struct perf_event_attr attr = event_every(FREQUENCY);
	struct sampler *s = &self->sampler;

	attr.freq = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTER_CX;
	open_sampler(_metadata, variant, s, attr, 0);
	expect_frequency(_metadata, variant, s, &f, check_frequency);
	TH_LOG("%s: longest %llu, most off %llu", variant->maker->name, f.longest,
	       f.p.max_deviation);
	if (samples_are_exact(variant))
		EXPECT_GE(env_number("SKID", 1), f.p.max_deviation);
}

/*
 * The first period fits an event that happens 10^9 times a second. Branches happen half as often
 * as instructions.
 */
TEST_F(event, frequency_follows_the_rate_of_the_event)
{
	struct frequency_findings f = { .p = { .n = 500 * N } };
	struct perf_event_attr attr = event_every(FREQUENCY);
	struct sampler *s = &self->sampler;

	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.freq = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	open_sampler(_metadata, variant, s, attr, 0);
	expect_frequency(_metadata, variant, s, &f, NULL);
}

struct driver_samples {
	struct kernel_function driver;
	unsigned long inside;
};

static void count_driver_sample(const struct sample *s, void *data)
{
	struct driver_samples *p = data;

	p->inside += kernel_function_has(&p->driver, s->ip);
}

/*
 * An idle CPU executes few instructions, at timer interrupts, so most samples are late. They must
 * not come from the driver's own functions. If the CPU stands still, there are few samples, and the
 * test goes on for longer.
 */
TEST_F(event, late_samples_of_a_frequency_are_not_in_the_driver)
{
	struct perf_event_attr attr = event_every(999);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct driver_samples p = {};
	const unsigned long least = variant->maker == &event_maker_perf ? 0 : 10;
	int seconds = 0;

	attr.freq = 1;
	attr.exclude_kernel = 0;
	ASSERT_EQ(0, find_kernel_module("perfmon", &p.driver));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, -1, self->cpu, ORDER));
	do {
		ASSERT_EQ(0, event_enable(s->fd));
		sleep(1);
		ASSERT_EQ(0, event_disable(s->fd));
		sampler_read(s, &sums, count_driver_sample, &p);
	} while (++seconds < 60 && (sums.samples < least || sums.samples / 4 < p.inside));
	TH_LOG("%s: %lu samples in %d s, %lu in the driver", variant->maker->name, sums.samples,
	       seconds, p.inside);
	EXPECT_LE(least, sums.samples);
	/* The driver's work at timer interrupts is a part of the samples. */
	EXPECT_GE(sums.samples / 4, p.inside);
	EXPECT_LE((__s64)sums.periods, event_count(s->fd));
}

TEST_HARNESS_MAIN
