// SPDX-License-Identifier: GPL-2.0-only
/*
 * All CPUs but the first go offline and online many times, while a trace and a counter of the same
 * event run. Trace and counter agree on each CPU, and a flag reports missing records. A second test
 * switches CPUs while other processes make random calls.
 *
 * ROUNDS and SEED in the environment set the length and the random numbers.
 */
#include <fcntl.h>
#include <unistd.h>

#include "call_stress.h"
#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "trace.h"

#define PAGES		256
#define RATE		997U

/* The maximum number of iterations of the loop, on a CPU in a round. */
#define MAX_N		20000

FIXTURE(hotplug)
{
	struct leak_check leaks;
	struct call_stress stress;
	struct trace trace;
	struct rng random;
	__u64 rounds;
	int fd;
	int home;			/* the CPU that stays online */
	cpu_set_t others;		/* CPUs that can go offline */
	int online[TRACE_MAX_CPUS];	/* their files "online" */
};

FIXTURE_SETUP(hotplug)
{
	cpu_set_t cpus;
	int cpu;

	SKIP_WITHOUT_PMU();
	self->fd = -1;
	self->random = rng_seed(env_number("SEED", 1));
	self->rounds = env_number("ROUNDS", 20);
	ASSERT_EQ(0, cpus_online(&cpus));
	self->home = cpu_next(&cpus, -1);
	CPU_ZERO(&self->others);
	for_each_cpu_in(cpu, &cpus) {
		ASSERT_GT(TRACE_MAX_CPUS, cpu);
		self->online[cpu] = cpu_open_online(cpu);
		if (cpu == self->home || self->online[cpu] < 0)
			continue;
		CPU_SET(cpu, &self->others);
		/*
		 * On AMD, perf's registers are reset when a CPU goes offline for the first time, so
		 * this happens before the check.
		 */
		ASSERT_EQ(0, cpu_set_online(self->online[cpu], "0"));
		ASSERT_EQ(0, cpu_set_online(self->online[cpu], "1"));
	}
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	if (!CPU_COUNT(&self->others))
		SKIP(return, "no CPU can go offline");
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(hotplug)
{
	struct call_stress_result result;
	int cpu;

	call_stress_kill(&self->stress, &result);
	for_each_cpu_in(cpu, &self->others) {
		/*
		 * Brings the CPU online if the test has failed while the CPU was offline; otherwise
		 * fails with EINVAL.
		 */
		cpu_set_online(self->online[cpu], "1");
		close(self->online[cpu]);
	}
	if (self->fd >= 0)
		close(self->fd);
}

/* Executes the loop on another CPU, and returns home. */
static int loop_on_cpu(FIXTURE_DATA(hotplug) *self, int cpu, unsigned long n)
{
	int err = pin_to_cpu(cpu);

	if (err)
		return err;
	loop(n);
	return pin_to_cpu(self->home);
}

/*
 * Takes one CPU offline and online while the trace and counter 0 run. In user mode, that CPU
 * executes the loop and two system calls.
 */
static const char *run_round(FIXTURE_DATA(hotplug) *self, int cpu,
			     unsigned long n)
{
	const struct trace *t = &self->trace;
	__s64 counted = pmc_value_on(self->fd, 0, cpu);
	__s64 here = pmc_value_on(self->fd, 0, self->home);
	struct trace_sums sums;
	const char *problem;

	if (trace_start(&self->trace) || loop_on_cpu(self, cpu, n) ||
	    cpu_set_online(self->online[cpu], "0"))
		return "going offline";
	loop(n);
	if (cpu_set_online(self->online[cpu], "1") || trace_stop(&self->trace))
		return "coming online";

	counted = pmc_value_on(self->fd, 0, cpu) - counted;
	here = pmc_value_on(self->fd, 0, self->home) - here;
	if (counted < (__s64)(LOOP_INSNS * n) ||
	    counted > (__s64)(LOOP_INSNS * n) + CALL_OVERHEAD)
		return "the count of the CPU that was offline";
	if (here < (__s64)(LOOP_INSNS * n))
		return "the count of the CPU that stayed online";

	problem = trace_sum(t, cpu, &sums);
	if (*problem)
		return problem;
	if (t->buffer[cpu]->flags != PERFMON_BUFFER_FLAG_OFFLINE)
		return "a flag of the CPU that was offline";
	if (sums.event[0].total != (__u64)counted)
		return "the trace differs from the count on the CPU that was offline";
	problem = trace_sum(t, self->home, &sums);
	if (*problem)
		return problem;
	if (t->buffer[self->home]->flags)
		return "a flag of the CPU that stayed online";
	if (sums.event[0].total < LOOP_INSNS * n ||
	    sums.event[0].total > (__u64)here)
		return "the trace differs from the count on the CPU that stayed online";
	return "";
}

TEST_F_TIMEOUT(hotplug, trace_and_count_agree, 36000)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						 FLAG_USER | FLAG_PC);
	int cpu = self->home;
	__u64 i;

	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for (i = 0; i < self->rounds; i++) {
		cpu = cpu_next(&self->others, cpu);
		if (cpu < 0)
			cpu = cpu_next(&self->others, -1);
		ASSERT_STREQ("", run_round(self, cpu,
					   1 + rng_below(&self->random,
							    MAX_N))) {
			TH_LOG("CPU %d in round %llu", cpu, i);
		}
	}
	TH_LOG("%llu hotplug cycles of %d CPUs", i,
	       CPU_COUNT(&self->others));
	ASSERT_EQ(0, trace_free(&self->trace));
	close(self->fd);
	self->fd = -1;
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(hotplug, switched_cpus_survive_random_calls, 36000)
{
	struct call_stress_result result;
	int cpu;
	__u64 i;

	ASSERT_EQ(0, call_stress_start(&self->stress, 2, 2, env_number("SEED", 1)));
	for (i = 0; i < self->rounds;) {
		for_each_cpu_in(cpu, &self->others)
			ASSERT_EQ(0, cpu_set_online(self->online[cpu], "0"));
		for_each_cpu_in(cpu, &self->others) {
			ASSERT_EQ(0, cpu_set_online(self->online[cpu], "1"));
			i++;
		}
	}
	ASSERT_EQ(0, call_stress_stop(&self->stress, &result));
	TH_LOG("%llu hotplug cycles, %llu calls", i, result.calls);
	EXPECT_STREQ("", result.wrong) {
		TH_LOG("errno %d", result.wrong_errno);
	}
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
