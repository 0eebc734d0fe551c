// SPDX-License-Identifier: GPL-2.0-only
/*
 * SIGKILL at random moments: during calls, or during samples at a high rate. Each time the device
 * is free at once and the registers have their old values; at the end no memory is lost.
 *
 * ROUNDS and SEED in the environment set the length and the random numbers.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call_stress.h"
#include "device.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "trace.h"

#define MAX_DELAY_US	30000
/* In one of this number of rounds, the process is killed without waiting for its start. */
#define PROCESSES_PER_EARLY_KILL	4

FIXTURE(killed)
{
	struct leak_check leaks;
	struct call_stress stress;
	struct rng random;
	__u64 rounds;
};

FIXTURE_SETUP(killed)
{
	SKIP_WITHOUT_PMU();
	self->random = rng_seed(env_number("SEED", 1));
	self->rounds = env_number("ROUNDS", 50);
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, leak_check_disturb(&self->leaks));
}

FIXTURE_TEARDOWN(killed)
{
	struct call_stress_result result;

	call_stress_kill(&self->stress, &result);
	leak_check_undisturb(&self->leaks);
}

static void sleep_random_time(FIXTURE_DATA(killed) *self)
{
	usleep(rng_below(&self->random, MAX_DELAY_US));
}

/* Returns "" if the device and the counters are free, else the problem. */
static const char *problem_after_kill(FIXTURE_DATA(killed) *self)
{
	int fd = device_open(O_RDWR);

	if (fd < 0)
		return "the device, which is still open for writing";
	close(fd);
	return leak_check_registers(&self->leaks);
}

TEST_F_TIMEOUT(killed, device_is_free_after_sigkill_in_calls, 36000)
{
	struct call_stress_result result;
	__u64 i, calls = 0;

	for (i = 0; i < self->rounds; i++) {
		ASSERT_EQ(0, call_stress_start(&self->stress, 1, 3,
					 rng_below(&self->random, 1 << 20)));
		while (i % PROCESSES_PER_EARLY_KILL && !call_stress_made(&self->stress))
			usleep(100);
		sleep_random_time(self);
		ASSERT_EQ(0, call_stress_kill(&self->stress, &result));
		ASSERT_STREQ("", result.wrong) {
			TH_LOG("errno %d in round %llu", result.wrong_errno, i);
		}
		calls += result.calls;
		ASSERT_STREQ("", problem_after_kill(self)) {
			TH_LOG("in round %llu", i);
		}
	}
	TH_LOG("%llu kills, %llu calls", i, calls);
	EXPECT_LT(i, calls);
	expect_no_leaks(_metadata, &self->leaks);
}

/*
 * Samples at a high rate, with a counter as well, until it is killed. Writes to @begun when it
 * has started.
 */
static void sample_until_killed(int begun)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 97,
						 FLAG_USER | FLAG_OS | FLAG_PC);
	int fd = device_open(O_RDWR);
	struct trace t;

	if (fd < 0 || pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR | PMCF_OS) ||
	    pmc_start(fd, 0) || trace_alloc(&t, fd, 256) ||
	    trace_stage(&t, &config))
		_exit(1);
	for (;;) {
		if (trace_start(&t))
			_exit(1);
		if (begun >= 0 && close(begun))
			_exit(1);
		begun = -1;
		loop(100000);
		if (trace_stop(&t))
			_exit(1);
	}
}

TEST_F_TIMEOUT(killed, device_is_free_after_sigkill_while_sampling, 36000)
{
	int status, begun[2];
	pid_t pid;
	__u64 i;
	char c;

	for (i = 0; i < self->rounds; i++) {
		ASSERT_EQ(0, pipe(begun));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			sample_until_killed(begun[1]);
		close(begun[1]);
		if (i % PROCESSES_PER_EARLY_KILL)
			ASSERT_EQ(0, read(begun[0], &c, 1));
		close(begun[0]);
		sleep_random_time(self);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_STREQ("", problem_after_kill(self)) {
			TH_LOG("in round %llu", i);
		}
	}
	TH_LOG("%llu kills", i);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
