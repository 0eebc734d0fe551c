// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU without a tick, by nohz_full: the kernel interrupts it about once a second while one
 * program runs there. Counts, samples, throttling and turns are the same as elsewhere, since a
 * timer of the module watches the CPU. Counters of 24 bits, which wrap many times a second, lose no
 * wrap.
 *
 * The kernel has CONFIG_NO_HZ_FULL, and CPU 1 has no tick (--append nohz_full=1).
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "machine.h"
#include "perf.h"
#include "samples.h"

#define CPU	1

/* Rounds of a loop in which counters of 24 bits wrap many times. */
#define N	100000000UL
#define TURNS	12

/* Linux has 250 ticks a second here. Without them there are a few interrupts of timers. */
#define TICKS		250
#define FEW_TICKS	(TICKS / 5)
#define ATTEMPTS	20

FIXTURE(nohz)
{
	struct sampler sampler;
};

FIXTURE_SETUP(nohz)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	ASSERT_EQ(CPU, read_number("/sys/devices/system/cpu/nohz_full"));
	ASSERT_EQ(0, perf_lift_limits());
	ASSERT_EQ(0, pin_to_cpu(CPU));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(nohz)
{
	sampler_close(&self->sampler);
	if (module_reload(""))
		TH_LOG("the module can't be loaded again");
}

/* Executes a loop for @seconds. Returns the number of timer interrupts on this CPU meanwhile. */
static long long interrupts_in(double seconds)
{
	long long before = cpu_interrupts_of("LOC", CPU);
	double end = clock_seconds() + seconds;

	while (clock_seconds() < end)
		loop(100000);
	return cpu_interrupts_of("LOC", CPU) - before;
}

/* Checks the machine: on a CPU with a tick, the other tests would prove nothing. */
TEST_F(nohz, cpu_has_no_tick)
{
	long long interrupts = TICKS;
	int i;

	for (i = 0; i < ATTEMPTS && interrupts > FEW_TICKS; i++)
		interrupts = interrupts_in(1);
	TH_LOG("%lld interrupts of timers in a second", interrupts);
	EXPECT_GE(FEW_TICKS, interrupts);
}

TEST_F(nohz, counts_are_exact)
{
	struct perf_event_attr attr = event_instructions();
	__s64 least, before, of_cpu;
	int task, cpu, device, i;

	task = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, task);
	attr.disabled = 0;
	cpu = event_maker_perfmon.open(&attr, -1, CPU, -1, 0);
	ASSERT_LE(0, cpu);
	device = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup_instructions(device, 0, PMCF_USR));

	least = event_loop_count(task, 1);
	for (i = 0; i < 3; i++) {
		before = event_count(cpu);
		EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), event_loop_count(task, N));
		of_cpu = event_count(cpu) - before;
		EXPECT_LE((__s64)(LOOP_INSNS * N), of_cpu);
		/* The CPU is idle for more than a second. */
		usleep(1500000);
	}
	least = pmc_loop_count(device, 0, 1);
	EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), pmc_loop_count(device, 0, N));
	close(device);
	close(cpu);
	close(task);
}

/* The period takes longer than a wrap of a narrow counter, and longer than a second. */
TEST_F(nohz, rare_samples_are_exact)
{
	const __u64 period = 3 * N / 2 + 1;
	struct perf_event_attr attr = event_every(period);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->sampler;
	int i;

	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, 0, -1, 2));
	for (i = 0; i < 4; i++)
		ASSERT_LE((__s64)(LOOP_INSNS * N), event_loop_count(s->fd, N));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ((unsigned long)event_count(s->fd) / period, sums.samples);
	EXPECT_LT(4UL, sums.samples);
	EXPECT_FALSE(sums.malformed);
}

/* Without ticks of the module's timer, a period would never change. */
TEST_F(nohz, frequency_is_followed)
{
	struct perf_event_attr attr = event_every(0);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->sampler;
	__u64 words[2];
	double seconds;

	attr.freq = 1;
	attr.sample_freq = 1000;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, 0, -1, 7));
	/* Takes half a second to find the right period. */
	ASSERT_LE(0, event_loop_count(s->fd, N));
	ASSERT_EQ((ssize_t)sizeof(words), read(s->fd, words, sizeof(words)));
	seconds = words[1] / 1e9;
	sampler_read(s, &sums, NULL, NULL);
	sums.samples = 0;
	ASSERT_LE(0, event_loop_count(s->fd, 4 * N));
	ASSERT_EQ((ssize_t)sizeof(words), read(s->fd, words, sizeof(words)));
	seconds = words[1] / 1e9 - seconds;
	sampler_read(s, &sums, NULL, NULL);
	TH_LOG("%lu samples in %.2f s", sums.samples, seconds);
	/* Expects only few samples, since the host may stop the machine while the clocks go on. */
	EXPECT_LT(seconds * 1000 / 50, sums.samples + sums.lost);
	EXPECT_GT(seconds * 1000 * 2 + 10, sums.samples + sums.lost);
}

/* After a suspension, samples resume at the next tick of the module's timer. */
TEST_F(nohz, throttling_ends)
{
	struct perf_event_attr attr = event_every(97);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->sampler;
	__s64 least;
	int i;

	ASSERT_EQ(0, module_reload("perf_event_max_sample_rate=1250"));
	attr.read_format = PERF_FORMAT_LOST;
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, 0, -1, 7));
	for (i = 0; i < 100 && sums.throttled <= 10; i++) {
		ASSERT_LE(0, event_loop_count(s->fd, N));
		sampler_read(s, &sums, NULL, NULL);
	}
	least = (__s64)(i * LOOP_INSNS * N);
	TH_LOG("%lu samples, throttled %lu times, %lu ended", sums.samples, sums.throttled,
	       sums.unthrottled);
	EXPECT_LT(10UL, sums.throttled);
	EXPECT_LE(sums.throttled, sums.unthrottled + 1);
	EXPECT_LE(least, event_count(s->fd));
}

/* Returns how many of the events with these descriptors have counted for an eighth of the time. */
static int events_with_an_eighth(struct __test_metadata *_metadata, const int *fd)
{
	struct {
		__u64 count, enabled, running;
	} times;
	int i, events = 0;

	for (i = 0; i < TURNS; i++) {
		ASSERT_EQ((ssize_t)sizeof(times), read(fd[i], &times, sizeof(times)));
		EXPECT_GT(times.enabled, times.running);
		events += times.enabled / 8 < times.running;
	}
	return events;
}

/*
 * Turns change at ticks of the module's timer. With eight counters, each event counts for two
 * thirds of the time; its share is less if the host stops the machine in the turns of other events.
 */
TEST_F(nohz, each_event_has_its_turn)
{
	struct perf_event_attr attr = event_instructions();
	struct machine machine;
	int fd[TURNS], i;

	ASSERT_EQ(0, machine_read(&machine));
	attr.type = PERF_TYPE_RAW;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.disabled = 0;
	for (i = 0; i < TURNS; i++) {
		/*
		 * Branches; with a unit mask the select is another event, whose count does not
		 * matter.
		 */
		attr.config = (machine.is_intel ? 0xc4 : 0xc2) | i << 8;
		fd[i] = event_maker_perfmon.open(&attr, 0, -1, -1, PERFMON_EVENT_ROTATE);
		ASSERT_LE(0, fd[i]);
	}
	for (i = 0; i < 4; i++)
		loop(N);
	for (i = 0; i < 100 && events_with_an_eighth(_metadata, fd) < TURNS; i++)
		loop(N);
	EXPECT_EQ(TURNS, events_with_an_eighth(_metadata, fd));
	for (i = 0; i < TURNS; i++)
		close(fd[i]);
}

TEST_HARNESS_MAIN
