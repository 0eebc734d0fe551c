// SPDX-License-Identifier: GPL-2.0-only
/*
 * If a CPU gets more samples than it can take, sampling is suspended, and records report this.
 * Samples in that time are counted as lost. The sum of read and lost samples is complete, and the
 * count is exact.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "module.h"
#include "samples.h"

/*
 * A limit of 5 samples between two ticks of 4 ms. A loop with a long period stays below the limit,
 * and a short period reaches it even on a kernel and a host where a sample takes much of a
 * millisecond.
 */
#define FEW_SAMPLES	"perf_event_max_sample_rate=1250"
/* A limit of the time that samples may take. */
#define SHORT_TIME	"perf_cpu_time_max_percent=1"
#define N	2000000UL

FIXTURE(throttle)
{
	struct sampler sampler;
	struct sample_sums sums;
};

FIXTURE_VARIANT(throttle)
{
	const char *parameters;	/* module parameters */
	__u64 period;
	bool kernel;		/* kernel mode is counted, too */
	bool throttled;
};

FIXTURE_VARIANT_ADD(throttle, each_one) { FEW_SAMPLES, 1, false, true };
FIXTURE_VARIANT_ADD(throttle, each_97) { FEW_SAMPLES, 97, false, true };
FIXTURE_VARIANT_ADD(throttle, each_97_of_a_short_time) { SHORT_TIME, 97, false, true };
FIXTURE_VARIANT_ADD(throttle, each_97_of_the_kernel) { FEW_SAMPLES, 97, true, true };
/* A period that is shorter than the kernel's path back from the end of a pause. */
FIXTURE_VARIANT_ADD(throttle, each_11_of_the_kernel) { FEW_SAMPLES, 11, true, true };
FIXTURE_VARIANT_ADD(throttle, rare) { FEW_SAMPLES, 1000003, false, false };
FIXTURE_VARIANT_ADD(throttle, without_limits) { "", 997, false, false };

FIXTURE_SETUP(throttle)
{
	struct perf_event_attr attr = event_every(variant->period);

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_reload(variant->parameters));
	ASSERT_EQ(0, wait_until_idle());
	attr.read_format = PERF_FORMAT_LOST;
	attr.sample_type |= ALL_TRAILER_PARTS;
	attr.sample_id_all = 1;
	attr.exclude_kernel = !variant->kernel;
	self->sums = SAMPLE_SUMS_INIT;
	ASSERT_EQ(0, sampler_open(&self->sampler, &event_maker_perfmon, &attr, 0, -1, 9));
}

FIXTURE_TEARDOWN(throttle)
{
	sampler_close(&self->sampler);
	if (module_reload(""))
		TH_LOG("the module can't be loaded again");
}

static void sample_loop(struct __test_metadata *_metadata, FIXTURE_DATA(throttle) *self,
			unsigned long n)
{
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(n);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &self->sums, NULL, NULL);
}

TEST_F(throttle, samples_and_lost_samples_are_complete)
{
	struct sampler *s = &self->sampler;
	struct sample_sums *sums = &self->sums;
	__u64 period = variant->period, last, count[2];
	int i;

	for (i = 0; i < 5; i++)
		sample_loop(_metadata, self, N / 5);
	/* The last lost samples are reported with the next record. */
	usleep(20000);
	last = sums->samples;
	for (i = 0; i < 100 && sums->samples == last; i++)
		sample_loop(_metadata, self, period);
	ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
	/* A sample that was due when the event was disabled may still come. */
	for (i = 0; i < 5 && count[0] / period != sums->samples + count[1]; i++) {
		sample_loop(_metadata, self, period);
		ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
	}
	TH_LOG("count %llu, %lu samples, %lu lost, throttled %lu times, %lu ended",
	       count[0], sums->samples, sums->lost, sums->throttled, sums->unthrottled);
	EXPECT_FALSE(sums->malformed);
	EXPECT_EQ(0UL, sums->others);
	EXPECT_TRUE(sums->ordered);
	EXPECT_EQ(sums->samples * period, sums->periods);
	EXPECT_EQ(count[0] / period, sums->samples + count[1]);
	EXPECT_LE(LOOP_INSNS * N, count[0]);
	if (variant->throttled) {
		EXPECT_LT(0UL, sums->throttled);
		EXPECT_LT(0UL, sums->lost);
	} else {
		EXPECT_EQ(0UL, sums->throttled);
		EXPECT_EQ(0UL, sums->lost);
	}
}

/* The next event has samples from its start. */
TEST_F(throttle, throttling_ends_with_the_event)
{
	struct perf_event_attr busy = event_every(variant->period), next = event_every(100003);
	struct sampler *s = &self->sampler;
	__u64 count[2];
	int i;

	/* The limited time may be too short for a single sample. */
	if (!variant->throttled || !strcmp(variant->parameters, SHORT_TIME))
		return;
	next.read_format = PERF_FORMAT_LOST;
	for (i = 0; i < 20; i++) {
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		sample_loop(_metadata, self, N / 20);
		sampler_close(s);
		ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &next, 0, -1, 3));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N / 10);
		ASSERT_EQ(0, event_disable(s->fd));
		ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
		sampler_read(s, &sums, NULL, NULL);
		EXPECT_EQ(count[0] / 100003, sums.samples);
		EXPECT_EQ(0ULL, count[1]);
		EXPECT_EQ(0UL, sums.unthrottled);
		sampler_close(s);
		ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &busy, 0, -1, 9));
	}
}

/*
 * An event begins to count while sampling is suspended. Its ring has a THROTTLE record before the
 * first LOST record, and only one, however often the event begins. The event's own samples are too
 * rare to cause a suspension.
 */
TEST_F(throttle, event_that_begins_during_a_suspension_is_throttled)
{
	struct perf_event_attr next = event_every(2000003);
	unsigned long losing_rounds = 0;
	struct sampler other;
	int i, j;

	/* The limited time may be too short for a single sample. */
	if (!variant->throttled || variant->kernel || !strcmp(variant->parameters, SHORT_TIME))
		return;
	for (i = 0; i < 500 && losing_rounds < 5; i++) {
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		ASSERT_EQ(0, sampler_open(&other, &event_maker_perfmon, &next, 0, -1, 3));
		sample_loop(_metadata, self, N / 20);
		for (j = 0; j < 20; j++) {
			ASSERT_EQ(0, event_enable(other.fd));
			ASSERT_EQ(0, event_disable(other.fd));
		}
		ASSERT_EQ(0, event_enable(other.fd));
		labelled_loop(2 * N);
		ASSERT_EQ(0, event_disable(other.fd));
		sampler_read(&other, &sums, NULL, NULL);
		if (sums.lost) {
			losing_rounds++;
			EXPECT_LT(0UL, sums.throttled);
		}
		EXPECT_GE(1UL, sums.throttled);
		EXPECT_EQ(sums.throttled, sums.unthrottled);
		sampler_close(&other);
	}
	EXPECT_EQ(5UL, losing_rounds);
}

/* Tests records of a task that runs so long that sampling stops and resumes several times. */
TEST_F(throttle, throttle_records_have_the_id_of_the_event)
{
	struct sampler *s = &self->sampler;
	const struct event_record *r = &s->record;
	unsigned long throttles = 0, unthrottles = 0;
	__u64 id = event_id(s->fd), last = 0;
	int i;

	if (!variant->throttled)
		return;
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 5000 && (throttles < 3 || unthrottles < 3); i++) {
		labelled_loop(N / 5);
		while (event_ring_next(&s->ring, &s->record)) {
			if (r->header.type != PERF_RECORD_THROTTLE &&
			    r->header.type != PERF_RECORD_UNTHROTTLE)
				continue;
			throttles += r->header.type == PERF_RECORD_THROTTLE;
			unthrottles += r->header.type == PERF_RECORD_UNTHROTTLE;
			EXPECT_TRUE(sampler_has_right_trailer(s, 3, gettid()));
			EXPECT_LT(last, r->words[0]);
			last = r->words[0];
			EXPECT_EQ(id, r->words[1]);
			EXPECT_EQ(id, r->words[2]);
		}
	}
	ASSERT_EQ(0, event_disable(s->fd));
	EXPECT_LE(3UL, throttles);
	EXPECT_LE(3UL, unthrottles);
}

/* The counts of two loops differ by the instructions of the difference. */
TEST_F(throttle, count_is_exact)
{
	__s64 least;
	int fd = self->sampler.fd;

	if (variant->kernel)
		return;
	least = event_loop_count(fd, 1);
	EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), event_loop_count(fd, N));
}

/* Without limits, an event of kernel mode may sample nothing but its own interrupts. */
TEST(kernel_goes_on_without_limits)
{
	struct perf_event_attr attr = event_every(100);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler sampler;
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_reload("perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0"));
	ASSERT_EQ(0, wait_until_idle());
	attr.exclude_kernel = 0;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 9));
	ASSERT_EQ(0, event_enable(sampler.fd));
	for (i = 0; i < 100; i++)
		sched_yield();
	ASSERT_EQ(0, event_disable(sampler.fd));
	sampler_read(&sampler, &sums, NULL, NULL);
	TH_LOG("%lu samples, %lu lost, throttled %lu times", sums.samples, sums.lost, sums.throttled);
	/*
	 * A suspension is not required: on a fast host ticks still come, and nothing is suspended.
	 */
	EXPECT_LT(0UL, sums.samples);
	sampler_close(&sampler);
	EXPECT_EQ(0, module_reload(""));
}

/*
 * The samples of an event with a frequency are suspended because of another event. The sum of its
 * samples and lost samples is as the frequency demands: its period does not become too short in a
 * suspension.
 */
TEST(frequency_is_kept_beside_a_throttled_event)
{
	struct perf_event_attr fast_attr = event_every(97), attr = event_every(1000);
	struct sample_sums fast_sums = SAMPLE_SUMS_INIT, sums = SAMPLE_SUMS_INIT;
	struct { __u64 count, enabled_ns, lost; } values;
	struct sampler fast, sampler;
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_reload(FEW_SAMPLES));
	ASSERT_EQ(0, wait_until_idle());
	attr.freq = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_LOST;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 9));
	ASSERT_EQ(0, sampler_open(&fast, &event_maker_perfmon, &fast_attr, 0, -1, 9));
	ASSERT_EQ(0, event_enable(sampler.fd));
	ASSERT_EQ(0, event_enable(fast.fd));
	for (i = 0; i < 100; i++) {
		labelled_loop(N / 4);
		sampler_read(&sampler, &sums, NULL, NULL);
		sampler_read(&fast, &fast_sums, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	ASSERT_EQ((ssize_t)sizeof(values), read(sampler.fd, &values, sizeof(values)));
	sampler_read(&sampler, &sums, NULL, NULL);
	TH_LOG("%lu samples, %llu lost in %llu ms, throttled %lu times", sums.samples, values.lost,
	       values.enabled_ns / 1000000, sums.throttled);
	EXPECT_LT(10UL, sums.throttled);
	/*
	 * Expects one sample or lost sample in a millisecond, and some more in the first periods,
	 * which assume another rate.
	 */
	EXPECT_GT(2 * values.enabled_ns / 1000000 + 100, sums.samples + values.lost);
	sampler_close(&fast);
	sampler_close(&sampler);
	EXPECT_EQ(0, module_reload(""));
}

/* Each sample sends a signal to these processes, which takes longer than the period. */
#define LISTENERS	500
#define SELDOM		200003

/* Starts sleeping processes in a process group of their own. Returns the group. */
static pid_t start_listeners(struct __test_metadata *_metadata)
{
	pid_t pid, group = 0;
	int i;

	for (i = 0; i < LISTENERS; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		group = group ?: pid;
		ASSERT_EQ(0, setpgid(pid, group));
	}
	return group;
}

/* The time to send signals counts for the limit, too. */
TEST(time_for_signals_counts_for_the_limit)
{
	struct perf_event_attr attr = event_every(SELDOM);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler sampler;
	pid_t group;
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_reload("perf_cpu_time_max_percent=25"));
	ASSERT_EQ(0, wait_until_idle());
	attr.wakeup_events = 1;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 9));
	ASSERT_NE(SIG_ERR, signal(SIGIO, SIG_IGN));
	group = start_listeners(_metadata);
	ASSERT_EQ(0, fcntl(sampler.fd, F_SETOWN, -group));
	ASSERT_EQ(0, fcntl(sampler.fd, F_SETFL, O_ASYNC));
	ASSERT_EQ(0, event_enable(sampler.fd));
	for (i = 0; i < 20 && !sums.throttled; i++) {
		labelled_loop(5 * N);
		sampler_read(&sampler, &sums, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	TH_LOG("throttled %lu times in %d loops, %lu samples", sums.throttled, i, sums.samples);
	EXPECT_LT(0UL, sums.throttled);
	sampler_close(&sampler);
	kill(-group, SIGKILL);
	while (waitpid(-group, NULL, 0) > 0)
		;
	EXPECT_EQ(0, module_reload(""));
}

/* The readers that each sample wakes. A task has at most 1024 events. */
#define READERS	1000

/*
 * Opens events of this thread whose records go to the ring of @output, and lets an epoll wait for
 * each of them: so each wake-up calls all of them. Returns the descriptor of the epoll.
 */
static int open_readers(struct __test_metadata *_metadata, int output, int cpu, int *fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct perf_event_attr attr = event_instructions();
	int set = epoll_create1(EPOLL_CLOEXEC), i;

	ASSERT_LE(0, set);
	for (i = 0; i < READERS; i++) {
		fd[i] = event_maker_perfmon.open(&attr, 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, ioctl(fd[i], PERF_EVENT_IOC_SET_OUTPUT, output));
		ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, fd[i], &event));
	}
	return set;
}

/* The time to wake many readers counts for the limit, too. */
TEST(time_for_wake_ups_counts_for_the_limit)
{
	const struct rlimit files = { 2 * READERS, 2 * READERS };
	struct perf_event_attr attr = event_every(SELDOM);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int fd[READERS], cpu, set, i;
	struct sampler sampler;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, module_reload("perf_cpu_time_max_percent=25"));
	ASSERT_EQ(0, wait_until_idle());
	cpu = pin_to_first_cpu();
	ASSERT_LE(0, cpu);
	attr.wakeup_events = 1;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, -1, cpu, 9));
	set = open_readers(_metadata, sampler.fd, cpu, fd);
	ASSERT_EQ(0, event_enable(sampler.fd));
	for (i = 0; i < 1000 && sums.throttled < 10; i++) {
		labelled_loop(5 * N);
		sampler_read(&sampler, &sums, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	TH_LOG("throttled %lu times in %d loops, %lu samples", sums.throttled, i, sums.samples);
	/*
	 * A single suspension would prove nothing: the host may have stopped the machine in an
	 * interrupt.
	 */
	EXPECT_LE(10UL, sums.throttled);
	close(set);
	for (i = 0; i < READERS; i++)
		close(fd[i]);
	sampler_close(&sampler);
	EXPECT_EQ(0, module_reload(""));
}

TEST_HARNESS_MAIN
