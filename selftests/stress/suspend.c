// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system goes to sleep and wakes up, down to each level of pm_test and to a
 * real suspend to memory, in which the registers are lost: counters go on from the
 * value that they had, a trace has ended with what it had recorded and says so,
 * and the next one records all; events of tasks and of CPUs go on, and their rings have
 * all samples.
 *
 * Nothing wakes the virtual machine from suspend to idle: its clock raises no
 * ACPI event while the machine is on. "platform" is all of that but the idling.
 *
 * ROUNDS in the environment makes it longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "file.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "samples.h"
#include "trace.h"

#define POWER		"/sys/power/"
#define TEST_DELAY	"/sys/module/suspend/parameters/pm_test_delay"

#define PAGES	64
#define RATE	997U
#define N	100000UL

/*
 * The writes of this program into the files of sysfs, and other processes whose
 * system calls begin again when they are thawed.
 */
#define SLEEP_OVERHEAD	20000

FIXTURE(suspend)
{
	struct leak_check leaks;
	struct trace trace;
	__u64 rounds;
	int fd;
};

FIXTURE_VARIANT(suspend)
{
	const char *level;	/* of pm_test */
	const char *state;	/* what is written to /sys/power/state */
	int alarm;		/* in how many seconds the system is to wake up */
};

FIXTURE_VARIANT_ADD(suspend, freezer) { "freezer", "freeze", 0 };
FIXTURE_VARIANT_ADD(suspend, devices) { "devices", "freeze", 0 };
FIXTURE_VARIANT_ADD(suspend, platform) { "platform", "freeze", 0 };
/* The other CPUs go offline, and then what is like a CPU. */
FIXTURE_VARIANT_ADD(suspend, processors) { "processors", "mem", 0 };
FIXTURE_VARIANT_ADD(suspend, core) { "core", "mem", 0 };
/* With an alarm in less than two seconds the kernel would not go to sleep. */
FIXTURE_VARIANT_ADD(suspend, memory) { "none", "mem", 3 };

/* Has the clock that runs while all else sleeps wake the system. */
static int set_alarm(int seconds)
{
	struct itimerspec when = { .it_value.tv_sec = seconds };
	int fd = timerfd_create(CLOCK_BOOTTIME_ALARM, TFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (!timerfd_settime(fd, 0, &when, NULL))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int sleep_once(const FIXTURE_VARIANT(suspend) *variant)
{
	int alarm = set_alarm(variant->alarm), err;

	if (alarm < 0)
		return alarm;
	err = write_file(POWER "state", variant->state);
	close(alarm);
	return err;
}

FIXTURE_SETUP(suspend)
{
	SKIP_WITHOUT_PMU();
	self->fd = -1;
	self->rounds = env_number("ROUNDS", 2);

	/* The kernel changes registers on sleep: begin with its values. */
	ASSERT_EQ(0, write_file(TEST_DELAY, "0"));
	ASSERT_EQ(0, write_file(POWER "pm_test", variant->level));
	ASSERT_EQ(0, sleep_once(variant));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, pin_to_cpu(cpu_next(&self->leaks.cpus, -1)));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(suspend)
{
	write_file(POWER "pm_test", "none");
	if (self->fd >= 0)
		close(self->fd);
}

/* Nothing of the device and of events is left once they are closed. */
static void close_without_leaks(struct __test_metadata *_metadata,
				FIXTURE_DATA(suspend) *self)
{
	close(self->fd);
	self->fd = -1;
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(suspend, counters_continue_after_sleep, 36000)
{
	__s64 before, after, stopped;
	__u64 i;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	stopped = pmc_loop_count(self->fd, 1, N);
	ASSERT_LT(0, stopped);
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	for (i = 0; i < self->rounds; i++) {
		loop(N);
		before = pmc_value(self->fd, 0);
		ASSERT_EQ(0, sleep_once(variant));
		after = pmc_value(self->fd, 0);
		EXPECT_LE(before, after);
		EXPECT_GE(before + SLEEP_OVERHEAD, after);
		loop(N);
		EXPECT_LE(after + (__s64)(LOOP_INSNS * N),
			  pmc_value(self->fd, 0));
		EXPECT_EQ(stopped, pmc_value(self->fd, 1));
	}
	TH_LOG("%llu sleeps", i);

	/* It has the same registers as before, and overflows as before. */
	ASSERT_EQ(0, pmc_stop(self->fd, 0));
	EXPECT_EQ(stopped, pmc_loop_count(self->fd, 0, N));
	close_without_leaks(_metadata, self);
}

TEST_F_TIMEOUT(suspend, trace_ends_with_a_flag_on_sleep, 36000)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						 FLAG_USER | FLAG_PC);
	struct trace_sums sums;
	int cpu, here = cpu_next(&self->leaks.cpus, -1);
	__u64 i;

	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for (i = 0; i < self->rounds; i++) {
		ASSERT_EQ(0, trace_start(&self->trace));
		loop(N);
		ASSERT_EQ(0, sleep_once(variant));
		for_each_cpu_in(cpu, &self->leaks.cpus)
			EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE,
				  self->trace.buffer[cpu]->flags);
		ASSERT_STREQ("", trace_sum(&self->trace, here, &sums));
		EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
		EXPECT_GE(LOOP_INSNS * N + SLEEP_OVERHEAD, sums.event[0].total);
		EXPECT_EQ(sums.event[0].total / RATE, sums.event[0].ticks);

		/* It runs until STOP, and records nothing. */
		EXPECT_EQ(-EBADFD, trace_start(&self->trace));
		loop(N);
		ASSERT_EQ(0, trace_stop(&self->trace));
		EXPECT_GE(LOOP_INSNS * N + SLEEP_OVERHEAD, sums.event[0].total);

		/* The next one begins everywhere, and is exact here. */
		ASSERT_EQ(0, wait_until_idle());
		ASSERT_EQ(0, trace_loop(&self->trace, N));
		for_each_cpu_in(cpu, &self->leaks.cpus)
			EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
		ASSERT_STREQ("", trace_sum(&self->trace, here, &sums));
		EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
	}
	TH_LOG("%llu sleeps", i);
	ASSERT_EQ(0, trace_free(&self->trace));
	close_without_leaks(_metadata, self);
}

/* Counts a loop on CPU @cpu, from another one's or from its own. */
static __s64 count_on(int fd, int cpu, int home)
{
	__s64 before = event_count(fd), after;

	if (before < 0 || pin_to_cpu(cpu))
		return -1;
	loop(N);
	after = event_count(fd);
	return pin_to_cpu(home) || after < 0 ? -1 : after - before;
}

TEST_F_TIMEOUT(suspend, events_of_all_cpus_continue_after_sleep, 36000)
{
	int cpu, home = cpu_next(&self->leaks.cpus, -1);
	struct perf_event_attr attr = event_instructions();
	int fd[CPU_SETSIZE];
	__u64 i;

	attr.disabled = 0;
	for_each_cpu_in(cpu, &self->leaks.cpus) {
		fd[cpu] = event_maker_perfmon.open(&attr, -1, cpu, -1, 0);
		ASSERT_LE(0, fd[cpu]);
	}
	for (i = 0; i < self->rounds; i++) {
		ASSERT_EQ(0, sleep_once(variant));
		for_each_cpu_in(cpu, &self->leaks.cpus)
			EXPECT_LE((__s64)(LOOP_INSNS * N), count_on(fd[cpu], cpu, home));
	}
	TH_LOG("%llu sleeps", i);
	for_each_cpu_in(cpu, &self->leaks.cpus)
		close(fd[cpu]);
	close_without_leaks(_metadata, self);
}

TEST_F_TIMEOUT(suspend, ring_has_every_sample_of_a_task_over_sleep, 36000)
{
	struct perf_event_attr attr = event_every(RATE);
	struct sampler sampler = { .fd = -1 };
	struct sample_sums seen = SAMPLE_SUMS_INIT;
	__s64 before, count;
	__u64 i;

	attr.disabled = 0;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 8));
	for (i = 0; i < self->rounds; i++) {
		before = event_count(sampler.fd);
		ASSERT_LE(0, before);
		loop(N);
		ASSERT_EQ(0, sleep_once(variant));
		loop(N);
		count = event_count(sampler.fd) - before;
		EXPECT_LE((__s64)(2 * LOOP_INSNS * N), count);
		EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + 2 * SLEEP_OVERHEAD, count);
		sampler_read(&sampler, &seen, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	count = event_count(sampler.fd);
	sampler_read(&sampler, &seen, NULL, NULL);
	TH_LOG("%llu sleeps, %lu samples", i, seen.samples);
	EXPECT_FALSE(seen.malformed);
	EXPECT_TRUE(seen.ordered);
	EXPECT_EQ(0UL, seen.lost);
	EXPECT_EQ((unsigned long)count / RATE, seen.samples);
	sampler_close(&sampler);
	close_without_leaks(_metadata, self);
}

/* The allocations of another process, while this one sends the system to sleep. */
struct allocations {
	unsigned long all;
	unsigned long untraced;	/* for a CPU that is always there */
	int err;
};

static int allocate_once(FIXTURE_DATA(suspend) *self, struct allocations *seen)
{
	int cpu = cpu_next(&self->leaks.cpus, -1), err;

	err = trace_alloc(&self->trace, self->fd, 1);
	if (err)
		return err;
	seen->all++;
	if (self->trace.buffer[cpu]->flags & PERFMON_BUFFER_FLAG_NOT_TRACED)
		seen->untraced++;
	return trace_free(&self->trace);
}

/*
 * Programs run before they are frozen and after they are thawed, when no CPU is
 * counted on: their buffers have room for the CPUs that will be.
 */
TEST_F_TIMEOUT(suspend, allocation_beside_sleep_has_room_for_all_cpus, 36000)
{
	/* The processes are only frozen: quick, and most of the time they run. */
	bool quick = !strcmp(variant->level, "freezer");
	__u64 i, rounds = self->rounds * (quick ? 10 : 1);
	struct allocations *seen;
	pid_t child;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, seen);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		while (!seen->err)
			seen->err = allocate_once(self, seen);
		_exit(0);
	}
	for (i = 0; i < rounds; i++) {
		EXPECT_EQ(0, sleep_once(variant));
		usleep(20000);
	}
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(0, seen->err);
	EXPECT_LT(0UL, seen->all);
	EXPECT_EQ(0UL, seen->untraced);
	TH_LOG("%llu sleeps, %lu allocations", i, seen->all);
	munmap(seen, sizeof(*seen));
	close_without_leaks(_metadata, self);
}

TEST_HARNESS_MAIN
