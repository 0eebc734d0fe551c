// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests when a ring wakes its reader: after a number of samples or bytes, and when the last task
 * has exited. Also tests signals at overflows, and the limit of their number.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "options.h"
#include "samples.h"
#include "target.h"

#define PERIOD		10007UL
#define SAMPLE_SIZE	48
#define TIMEOUT_MS		60000	/* ms to wait: much longer than needed */
#define NOBODY		65534

#include "sampler_fixture.h"

/* Returns the events that poll(2) reports within @timeout ms. */
static int poll_now(int fd, int timeout)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout) < 0 ? -errno : p.revents;
}

/*
 * Makes @samples samples, one by one. Expects that the reader is woken after each @interval
 * samples.
 */
static void expect_wakeups(struct __test_metadata *_metadata, struct sampler *s,
			   unsigned long interval, unsigned long samples)
{
	unsigned long before = 0, now, woken = 0;
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	EXPECT_EQ(0, poll_now(s->fd, 0));
	while (before < samples) {
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(PERIOD / 2);
		ASSERT_EQ(0, event_disable(s->fd));
		now = s->ring.page->data_head / SAMPLE_SIZE;
		ASSERT_GE(before + 1, now);
		EXPECT_EQ(now / interval > woken ? POLLIN : 0, poll_now(s->fd, 0)) {
			TH_LOG("after %lu samples, each %lu", now, interval);
		}
		/* After a wake-up, poll(2) reports the event only once. */
		EXPECT_EQ(0, poll_now(s->fd, 0));
		woken = now / interval;
		before = now;
		sampler_read(s, &sums, NULL, NULL);
	}
}

TEST_F(event, reader_is_woken_after_wakeup_events)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.wakeup_events = 5;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 4));
	expect_wakeups(_metadata, &self->sampler, 5, 23);
}

/* The watermark is 1000 bytes, and 21 samples take more. */
TEST_F(event, reader_is_woken_after_wakeup_watermark)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.watermark = 1;
	attr.wakeup_watermark = 1000;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 4));
	expect_wakeups(_metadata, &self->sampler, 21, 85);
}

TEST_F(event, reader_is_woken_after_half_of_the_ring)
{
	struct perf_event_attr attr = event_every(PERIOD);

	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 0));
	expect_wakeups(_metadata, &self->sampler, 2048 / SAMPLE_SIZE + 1, 50);
}

/* A watermark that is never reached counts as the size of the ring. */
TEST_F(event, reader_is_woken_after_all_of_the_ring)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.watermark = 1;
	attr.wakeup_watermark = 1 << 20;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 0));
	expect_wakeups(_metadata, &self->sampler, 4096 / SAMPLE_SIZE + 1, 90);
}

/* A reader that waits for more samples than the ring has room for is woken when it is full. */
TEST_F(event, reader_is_woken_when_the_ring_is_full)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int i, events;

	/* perf does not wake its reader. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.watermark = 1;
	attr.wakeup_watermark = 4096;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, poll_now(s->fd, 0));
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(100 * PERIOD / LOOP_INSNS);
		ASSERT_EQ(0, event_disable(s->fd));
		EXPECT_EQ(POLLIN, poll_now(s->fd, 0));
		/* After a wake-up, the reader is not woken again until it has read. */
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(10 * PERIOD / LOOP_INSNS);
		ASSERT_EQ(0, event_disable(s->fd));
		events = poll_now(s->fd, 0);
		/*
		 * With precise samples, the reader may be woken once more, since the LOST record
		 * may come only now.
		 */
		EXPECT_TRUE(!events || env_number("PRECISE", 0));
		sampler_read(s, &sums, NULL, NULL);
	}
	EXPECT_LE(3 * 4000UL / SAMPLE_SIZE, sums.samples);
}

static struct perf_event_attr waking_attr(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.read_format = PERF_FORMAT_LOST;
	attr.wakeup_events = 4;
	return attr;
}

/* The reader sleeps until it is woken, for the last time when the task has exited. */
TEST_F(event, sleeping_reader_sees_all_samples)
{
	struct perf_event_attr attr = waking_attr();
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned int wakeups = 0;
	__u64 count[2];
	int events;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, self->target.tid, -1, 5));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { PERIOD, 250, STEP_NONE }));
	/*
	 * The task waits until poll(2) has reported POLLIN: after the exit of all tasks, poll(2)
	 * would report nothing else.
	 */
	ASSERT_EQ(POLLIN, poll_now(s->fd, TIMEOUT_MS));
	wakeups++;
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { PERIOD, 250, STEP_EXIT }));
	do {
		events = poll_now(s->fd, TIMEOUT_MS);
		ASSERT_NE(0, events);
		wakeups += !!(events & POLLIN);
		sampler_read(s, &sums, NULL, NULL);
	} while (!(events & POLLHUP));
	sampler_read(s, &sums, NULL, NULL);
	ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
	EXPECT_LE(1000UL, sums.samples + sums.lost);
	EXPECT_EQ(count[0] / PERIOD, sums.samples + count[1]);
	EXPECT_GE(1000 / 4 + 1U, wakeups);
	EXPECT_EQ(POLLHUP, poll_now(s->fd, 0) & POLLHUP);
}

/* Variables of the signal handler. */
static int signals, wrong_signals, last_signals, signal_fd;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
	if (number == SIGRTMIN && info->si_code == POLL_HUP)
		__atomic_add_fetch(&last_signals, 1, __ATOMIC_RELAXED);
	else if (number == SIGRTMIN && (info->si_fd != signal_fd || info->si_code != POLL_IN))
		__atomic_add_fetch(&wrong_signals, 1, __ATOMIC_RELAXED);
}

/* Makes overflows of the event send signal @number, and counts them from now on. */
static void send_signals(struct __test_metadata *_metadata, int fd, int number)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	ASSERT_EQ(0, sigaction(number, &action, NULL));
	signal_fd = fd;
	signals = 0;
	wrong_signals = 0;
	last_signals = 0;
	ASSERT_EQ(0, fcntl(fd, F_SETOWN, getpid()));
	if (number != SIGIO)
		ASSERT_EQ(0, fcntl(fd, F_SETSIG, number));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_ASYNC));
}

/*
 * The signals have the number that F_SETSIG has set. They come with each sample, however rarely the
 * reader is woken.
 */
TEST_F(event, signal_comes_with_each_sample)
{
	const int numbers[] = { SIGRTMIN, SIGIO };
	struct perf_event_attr attr = event_every(100003);
	struct sampler *s = &self->sampler;
	unsigned int i;

	for (i = 0; i < 2 * ARRAY_SIZE(numbers); i++) {
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		attr.wakeup_events = i < ARRAY_SIZE(numbers) ? 1 : 7;
		ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 4));
		send_signals(_metadata, s->fd, numbers[i % ARRAY_SIZE(numbers)]);
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(20 * 50002);
		ASSERT_EQ(0, event_disable(s->fd));
		sampler_read(s, &sums, NULL, NULL);
		EXPECT_LE(20UL, sums.samples);
		EXPECT_EQ(sums.samples, (unsigned long)__atomic_load_n(&signals, __ATOMIC_RELAXED));
		EXPECT_EQ(0, __atomic_load_n(&wrong_signals, __ATOMIC_RELAXED));
		EXPECT_EQ(0, __atomic_load_n(&last_signals, __ATOMIC_RELAXED));
		/* Without O_ASYNC there are no signals. */
		ASSERT_EQ(0, fcntl(s->fd, F_SETFL, 0));
		signals = 0;
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(2 * 50002);
		ASSERT_EQ(0, event_disable(s->fd));
		EXPECT_EQ(0, __atomic_load_n(&signals, __ATOMIC_RELAXED));
		sampler_close(s);
	}
}

/* Programs may want signals without records. */
TEST_F(event, signal_comes_without_a_ring)
{
	struct perf_event_attr attr = event_every(100003);

	self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->sampler.fd);
	send_signals(_metadata, self->sampler.fd, SIGRTMIN);
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(20 * 50002);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	EXPECT_LE(20, __atomic_load_n(&signals, __ATOMIC_RELAXED));
	EXPECT_GE(21, __atomic_load_n(&signals, __ATOMIC_RELAXED));
	EXPECT_EQ(0, __atomic_load_n(&wrong_signals, __ATOMIC_RELAXED));
}

/*
 * As a user other than root, makes 20 overflows whose signals go to @owner, or to this process if it is 0.
 * Returns the number of signals that this process got, or -1.
 */
static int signal_as_user(const struct event_maker *maker, pid_t owner)
{
	struct perf_event_attr attr = event_every(100003);
	int fd;

	if (become_user(NOBODY, MAY_COUNT))
		return -1;
	fd = maker->open(&attr, 0, -1, -1, 0);
	if (fd < 0 || fcntl(fd, F_SETOWN, owner ? owner : getpid()) || fcntl(fd, F_SETSIG, SIGRTMIN) ||
	    fcntl(fd, F_SETFL, O_ASYNC) || event_enable(fd))
		return -1;
	labelled_loop(20 * 50002);
	if (event_disable(fd))
		return -1;
	return __atomic_load_n(&signals, __ATOMIC_RELAXED);
}

/* Runs signal_as_user() in a child. Returns its result. */
static int signal_from_child(struct __test_metadata *_metadata, const struct event_maker *maker, pid_t owner)
{
	int *result = map_shared(_metadata, sizeof(*result)), value;
	pid_t pid = fork();

	if (!pid) {
		*result = signal_as_user(maker, owner);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) != pid && errno == EINTR)
		;
	value = *result;
	munmap(result, sizeof(*result));
	return value;
}

/*
 * As with any descriptor, signals go only to processes to which the caller of F_SETOWN may send
 * signals.
 */
TEST_F(event, signal_is_not_sent_to_the_process_of_another_user)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	struct stat device;
	int own, other;

	ASSERT_EQ(0, sigaction(SIGRTMIN, &action, NULL));
	/* The device belongs to root after the module is loaded. */
	ASSERT_EQ(0, stat(_PATH_PERFMON, &device));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	signals = 0;
	own = signal_from_child(_metadata, variant->maker, 0);
	other = signal_from_child(_metadata, variant->maker, getpid());
	EXPECT_EQ(0, chmod(_PATH_PERFMON, device.st_mode & 0777));
	EXPECT_LE(20, own);
	EXPECT_EQ(0, other);
	EXPECT_EQ(0, __atomic_load_n(&signals, __ATOMIC_RELAXED));
}

/*
 * Executes the same loop on two CPUs at once; on a machine with one CPU, twice. Returns the exit
 * code.
 */
static int loop_twice(unsigned long n)
{
	cpu_set_t cpus;
	int cpu, other;
	pid_t pid;

	if (cpus_online(&cpus))
		return 1;
	cpu = cpu_next(&cpus, -1);
	other = cpu_next(&cpus, cpu);
	pid = fork();
	if (pid < 0 || pin_to_cpu(pid || other < 0 ? cpu : other))
		return 1;
	labelled_loop(n);
	return pid && waitpid(pid, NULL, 0) != pid;
}

/* Each task that inherits the event causes signals, also while other CPUs cause signals. */
TEST_F(event, signals_come_from_several_cpus)
{
	const struct rlimit pending = { 10000, 10000 };
	const unsigned long period = 20011;
	struct perf_event_attr attr = event_every(period);
	int start_pipe, status, samples;
	unsigned long periods;
	pid_t pid;

	/*
	 * Raises the limit, because all signals are pending at the same time if this process does
	 * not run meanwhile.
	 */
	ASSERT_EQ(0, setrlimit(RLIMIT_SIGPENDING, &pending));
	attr.inherit = 1;
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(loop_twice(1000 * period));
	self->sampler.fd = variant->maker->open(&attr, pid, -1, -1, 0);
	ASSERT_LE(0, self->sampler.fd);
	send_signals(_metadata, self->sampler.fd, SIGRTMIN);
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	while (waitpid(pid, &status, 0) != pid)
		ASSERT_EQ(EINTR, errno);
	EXPECT_EQ(0, status);
	periods = event_count(self->sampler.fd) / period;
	samples = __atomic_load_n(&signals, __ATOMIC_RELAXED) - __atomic_load_n(&last_signals, __ATOMIC_RELAXED);
	EXPECT_LE(4000UL, periods);
	/* One sample may be missing, since each of the two tasks has an incomplete period. */
	EXPECT_LE(periods - 1, (unsigned long)samples);
	/* perf has sent one more in some runs. */
	EXPECT_GE(periods + (variant->maker == &event_maker_perf), (unsigned long)samples);
	EXPECT_EQ(0, __atomic_load_n(&wrong_signals, __ATOMIC_RELAXED));
}

/* Executes @periods periods. Returns the samples, which REFRESH limits. */
static unsigned long read_limited_samples(struct __test_metadata *_metadata, struct sampler *s,
				unsigned int periods)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	labelled_loop(periods * 50002);
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
	return sums.samples;
}

TEST_F(event, refresh_limits_the_number_of_samples)
{
	struct perf_event_attr attr = event_every(100003);
	struct sampler *s = &self->sampler;
	__s64 before;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 4));
	send_signals(_metadata, s->fd, SIGRTMIN);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 3));
	EXPECT_EQ(3UL, read_limited_samples(_metadata, s, 10));
	EXPECT_EQ(3, __atomic_load_n(&signals, __ATOMIC_RELAXED));
	EXPECT_EQ(1, __atomic_load_n(&last_signals, __ATOMIC_RELAXED));
	EXPECT_EQ(0, __atomic_load_n(&wrong_signals, __ATOMIC_RELAXED));
	/* The last allowed sample disables the event. */
	before = event_count(s->fd);
	EXPECT_LE(3 * 100003, before);
	EXPECT_GE(3 * 100003 + 1000, before);
	EXPECT_EQ(0UL, read_limited_samples(_metadata, s, 2));
	EXPECT_EQ(before, event_count(s->fd));
	/* The limits of several calls of REFRESH add up. */
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 4));
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 5));
	EXPECT_EQ(9UL, read_limited_samples(_metadata, s, 20));
	/* ENABLE removes the limit. */
	ASSERT_EQ(0, event_enable(s->fd));
	EXPECT_LE(20UL, read_limited_samples(_metadata, s, 20));
	EXPECT_EQ(2, __atomic_load_n(&last_signals, __ATOMIC_RELAXED));
}

/* An event of a CPU, and a task that sleeps and moves. */
TEST_F(event, refresh_works_for_cpus_and_moving_tasks)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, pin_to_cpu(cpu_next(&cpus, -1)));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, -1, cpu_next(&cpus, -1), 4));
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 5));
	EXPECT_EQ(5UL, read_limited_samples(_metadata, s, 10));
	sampler_close(s);

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, self->target.tid, -1, 4));
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 50));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { PERIOD, 100, STEP_MOVE }));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ(50UL, sums.samples);
}

/*
 * The last allowed sample disables the event, also if it comes while REFRESH runs, since the event was
 * enabled before.
 */
TEST_F(event, refresh_limits_the_samples_of_an_enabled_event)
{
	struct perf_event_attr attr = event_every(200);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	cpu_set_t cpus;
	int round, i;

	/* perf's descriptors don't tell whether the event is enabled. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, pin_to_cpu(cpu_next(&cpus, -1)));
	/* On another CPU, if there is one */
	ASSERT_EQ(0, target_start(&self->target, cpu_next(&cpus, cpu_next(&cpus, -1)), false));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, self->target.tid, -1, 7));
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { .n = 1UL << 40, .pieces = 1 }));
	for (round = 0; round < 3000; round++) {
		ASSERT_EQ(0, event_enable(s->fd));
		loop(1 + round % 97 * 11);
		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, 1));
		for (i = 0; i < 1000000 && event_fdinfo_number(s->fd, "enabled"); i++)
			sched_yield();
		ASSERT_EQ(0, event_fdinfo_number(s->fd, "enabled")) {
			TH_LOG("in round %d", round);
		}
		sampler_read(s, &sums, NULL, NULL);
	}
}

TEST_F(event, refresh_of_an_inherited_event_is_refused)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.inherit = 1;
	self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->sampler.fd);
	EXPECT_EQ(-EINVAL, event_ioctl(self->sampler.fd, PERF_EVENT_IOC_REFRESH, 1));
}

/* Closes a descriptor that still has O_ASYNC while its ring wakes. */
TEST_F(event, signalling_descriptor_can_be_closed)
{
	struct perf_event_attr attr = waking_attr();
	struct sampler *s = &self->sampler;
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, self->target.tid, -1, 1));
		send_signals(_metadata, s->fd, SIGIO);
		ASSERT_EQ(0, event_enable(s->fd));
		ASSERT_EQ(0, target_start_job(&self->target, (struct job) { PERIOD, 20, STEP_NONE }));
		sampler_close(s);
		ASSERT_EQ(0, target_wait_job(&self->target));
	}
}

TEST_HARNESS_MAIN
