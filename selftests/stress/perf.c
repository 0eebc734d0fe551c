// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's perf, or the NMI watchdog, takes and frees the counters at random moments of a count or
 * a trace: each side either counts right or is refused with EBUSY.
 *
 * SECONDS and SEED in the environment set the length and the random numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "leak_check.h"
#include "loop.h"
#include "options.h"
#include "perf.h"
#include "rng.h"
#include "trace.h"
#include "watchdog.h"

#define MAX_N	20000

/* The maximum time beyond SECONDS until each side has had the counters: the host may be busy. */
#define MAX_EXTRA_SECONDS	300

/* Memory shared with the other process: the request to stop, and the results of that process. */
struct other_user_results {
	int stop;
	__u64 times_had_counters;		/* rounds in which it had the counters */
	__u64 refused;
	__u64 wrong;		/* rounds with a wrong count, or another error */
};

FIXTURE(perf)
{
	struct leak_check leaks;
	struct other_user_results *other_user;
	struct rng random;
	struct trace trace;
	int cpu;		/* CPU of this process; the other process is on another one, if possible */
	int fd;
	pid_t pid;
	__u64 times_had_counters;
	__u64 refused;
};

FIXTURE_VARIANT(perf)
{
	int (*once)(struct rng *r);
	const char *kind;
};

/*
 * Executes a round of the other user of the counters. Returns 1 if it had the counters and its
 * results were right, -EBUSY if it was refused, and another value on an error.
 */
static int count_in_a_task(struct rng *r)
{
	unsigned long n = 1 + rng_below(r, MAX_N);
	long long value = perf_count_loop_once(n);

	if (value < 0)
		return value;
	return value >= (long long)(LOOP_INSNS * n) &&
	       value <= (long long)(LOOP_INSNS * n) + CALL_OVERHEAD;
}

/* Samples with a period so long that perf does not throttle: throttling would look like a loss. */
static int sample_on_a_cpu(struct rng *r)
{
	__u32 period = 20011 + rng_below(r, 1009);
	unsigned long n = 1 + rng_below(r, MAX_N);
	int fd = perf_open_sampling(sched_getcpu(), period);
	long long value;

	if (fd < 0)
		return fd;
	value = perf_count_loop(fd, n);
	close(fd);
	if (value < 0)
		return value;
	return value >= (long long)(LOOP_INSNS * n);
}

static int switch_the_watchdog(struct rng *r)
{
	int err = watchdog_set('1');

	if (!err)
		usleep(rng_below(r, 2000));
	return err ? err : watchdog_set('0') ? -EIO : 1;
}

FIXTURE_VARIANT_ADD(perf, counts) { count_in_a_task, "perf" };
FIXTURE_VARIANT_ADD(perf, samples) { sample_on_a_cpu, "perf" };
FIXTURE_VARIANT_ADD(perf, watchdog) { switch_the_watchdog, "the watchdog" };

static void run_other(struct other_user_results *other_user, int (*once)(struct rng *r),
		      struct rng random)
{
	int result;

	while (!__atomic_load_n(&other_user->stop, __ATOMIC_RELAXED)) {
		result = once(&random);
		if (result == 1)
			other_user->times_had_counters++;
		else if (result == -EBUSY)
			other_user->refused++;
		else
			other_user->wrong++;
		usleep(rng_below(&random, 2000));
	}
	_exit(0);
}

FIXTURE_SETUP(perf)
{
	cpu_set_t cpus;
	int other_cpu;

	SKIP_WITHOUT_PMU();
	self->fd = -1;
	self->random = rng_seed(env_number("SEED", 1));
	self->other_user = map_shared(_metadata, sizeof(*self->other_user));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, cpus_online(&cpus));
	self->cpu = cpu_next(&cpus, -1);
	other_cpu = cpu_next(&cpus, self->cpu);
	ASSERT_EQ(0, wait_until_idle());
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		if (pin_to_cpu(other_cpu < 0 ? self->cpu : other_cpu))
			_exit(1);
		run_other(self->other_user, variant->once,
			  rng_seed(env_number("SEED", 1) + 1));
	}
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
}

FIXTURE_TEARDOWN(perf)
{
	if (self->pid > 0)
		kill(self->pid, SIGKILL);
	if (self->fd >= 0)
		close(self->fd);
	watchdog_set('0');
}

/*
 * Counts on this CPU. Returns 1 if the count was right, or a negative errno if a call was refused.
 * On a machine with one CPU, the count includes the other process.
 */
static int count_here(FIXTURE_DATA(perf) *self, unsigned long n)
{
	bool alone = CPU_COUNT(&self->leaks.cpus) > 1;
	int err = pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR);
	__s64 value;

	if (err)
		return err;
	err = pmc_count_loop(self->fd, 0, n);
	if (err)
		return err;
	value = pmc_value_on(self->fd, 0, self->cpu);
	return value >= (__s64)(LOOP_INSNS * n) &&
	       (!alone || value <= (__s64)(LOOP_INSNS * n) + CALL_OVERHEAD);
}

/* Traces on this CPU. Returns as count_here(). */
static int trace_here(FIXTURE_DATA(perf) *self, unsigned long n)
{
	bool alone = CPU_COUNT(&self->leaks.cpus) > 1;
	struct trace_sums sums;
	int err = trace_loop(&self->trace, n);

	if (err)
		return err;
	if (*trace_sum(&self->trace, self->cpu, &sums))
		return 0;
	return sums.event[0].total == TRACE_LOOP_INSNS(n) ||
	       (!alone && sums.event[0].total > TRACE_LOOP_INSNS(n));
}

static int begin_rounds(FIXTURE_DATA(perf) *self)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 997,
						 FLAG_USER | FLAG_PC);
	int err;

	self->fd = device_open(O_RDWR);
	if (self->fd < 0)
		return self->fd;
	err = trace_alloc(&self->trace, self->fd, 64);
	return err ? err : trace_stage(&self->trace, &config);
}

static int end_rounds(FIXTURE_DATA(perf) *self)
{
	int err = trace_free(&self->trace);

	close(self->fd);
	self->fd = -1;
	return err;
}

static bool all_happened(FIXTURE_DATA(perf) *self)
{
	return self->times_had_counters && self->refused &&
	       __atomic_load_n(&self->other_user->times_had_counters, __ATOMIC_RELAXED);
}

TEST_F_TIMEOUT(perf, either_side_counts_right_or_is_refused, 36000)
{
	time_t until = time(NULL) + env_number("SECONDS", 5);
	int result, status;
	unsigned long n;

	while (time(NULL) < until || (!all_happened(self) &&
				      time(NULL) < until + MAX_EXTRA_SECONDS)) {
		n = 1 + rng_below(&self->random, MAX_N);
		ASSERT_EQ(0, begin_rounds(self));
		result = rng_below(&self->random, 2) ?
			count_here(self, n) : trace_here(self, n);
		if (result == -EBUSY)
			self->refused++;
		else
			ASSERT_EQ(1, result);
		self->times_had_counters += result == 1;
		ASSERT_EQ(0, end_rounds(self));
		usleep(rng_below(&self->random, 2000));
	}
	__atomic_store_n(&self->other_user->stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, 0));
	self->pid = 0;
	TH_LOG("%llu turns with the counters, %llu refused; %s: %llu and %llu",
	       self->times_had_counters, self->refused, variant->kind, self->other_user->times_had_counters,
	       self->other_user->refused);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0ULL, self->other_user->wrong);
	EXPECT_LT(0ULL, self->times_had_counters);
	EXPECT_LT(0ULL, self->refused);
	EXPECT_LT(0ULL, self->other_user->times_had_counters);
	EXPECT_STREQ("", leak_check_counts());
}

TEST_HARNESS_MAIN
