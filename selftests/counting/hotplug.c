// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs that go offline and come online while a counter runs: no event is lost or counted twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"

#define N	1000000UL

/* The smallest number of hotplug rounds of a test */
#define MIN_ROUNDS	4

/* Memory that the hotplugging process and the counted process share. */
struct shared_results {
	int stop;
	int failed;
	long rounds;
};

FIXTURE(hotplug)
{
	int fd;
	int cpu;		/* the CPU that goes offline */
	int home;		/* a CPU that stays online */
	int online;		/* the file "online" of @cpu */
	struct shared_results *shared;
};

FIXTURE_SETUP(hotplug)
{
	SKIP_WITHOUT_PMU();
	self->online = -1;
	self->fd = open_device(_metadata, O_RDWR);
	FIND_CPU_TO_SWITCH(self);
	self->shared = map_shared(_metadata, sizeof(*self->shared));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(hotplug)
{
	/* If the CPU is online, as it should be, this call fails with EINVAL. */
	cpu_set_online(self->online, "1");
	close(self->online);
	close(self->fd);
}

TEST_F(hotplug, value_stays_when_its_cpu_goes_offline)
{
	__s64 value;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, pmc_count_loop(self->fd, 0, N));
	value = pmc_value(self->fd, 0);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	EXPECT_EQ(value, pmc_value(self->fd, 0));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	EXPECT_EQ(value, pmc_value(self->fd, 0));
	ASSERT_EQ(0, pmc_reset(self->fd, 0));
	EXPECT_EQ(0, pmc_value(self->fd, 0));
}

TEST_F(hotplug, offline_cpu_keeps_its_total)
{
	__s64 there, here;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	loop(N);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	there = pmc_value_on(self->fd, 0, self->cpu);
	EXPECT_LE((__s64)(LOOP_INSNS * N), there);
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	EXPECT_EQ(there, pmc_value_on(self->fd, 0, self->cpu));

	/* Counting on other CPUs does not change the total of the offline CPU. */
	here = pmc_value_on(self->fd, 0, self->home);
	loop(N);
	EXPECT_LE(here + (__s64)(LOOP_INSNS * N),
		  pmc_value_on(self->fd, 0, self->home));
	EXPECT_EQ(there, pmc_value_on(self->fd, 0, self->cpu));

	/* The counter continues from its total. */
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	EXPECT_EQ(there, pmc_value_on(self->fd, 0, self->cpu));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	loop(N);
	EXPECT_LE(there + (__s64)(LOOP_INSNS * N),
		  pmc_value_on(self->fd, 0, self->cpu));

	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, pmc_reset(self->fd, 0));
	EXPECT_EQ(0, pmc_value_on(self->fd, 0, self->cpu));
}

TEST_F(hotplug, cpu_that_comes_online_later_is_counted)
{
	__s64 value, here;

	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	here = pmc_loop_count(self->fd, 0, N);

	ASSERT_EQ(0, pmc_reset(self->fd, 0));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	loop(N);
	ASSERT_EQ(0, pmc_stop(self->fd, 0));
	value = pmc_value(self->fd, 0);
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + 3 * CALL_OVERHEAD, value);

	/*
	 * For a counter that was set up while the CPU was offline, the CPU now behaves like any
	 * other CPU.
	 */
	EXPECT_EQ(here, pmc_loop_count(self->fd, 0, N));
}

/* Counts while the thread leaves the CPU before it goes offline, @rounds times. */
static __s64 count_and_leave_cpu(FIXTURE_DATA(hotplug) *self, int rounds,
			    unsigned long n)
{
	int i, err = pmc_reset(self->fd, 0);

	if (!err)
		err = pmc_start(self->fd, 0);
	for (i = 0; i < rounds && !err; i++) {
		err = pin_to_cpu(self->cpu);
		loop(n);
		if (!err)
			err = pin_to_cpu(self->home);
		if (!err)
			err = cpu_set_online(self->online, "0");
		loop(n);
		if (!err)
			err = cpu_set_online(self->online, "1");
	}
	if (!err)
		err = pmc_stop(self->fd, 0);
	return err ? err : pmc_value(self->fd, 0);
}

TEST_F(hotplug, hotplugging_thread_loses_no_count)
{
	__s64 first, second;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	first = count_and_leave_cpu(self, 5, N);
	second = count_and_leave_cpu(self, 5, 2 * N);
	EXPECT_LE((__s64)(10 * LOOP_INSNS * N), first);
	EXPECT_EQ((__s64)(10 * LOOP_INSNS * N), second - first);
}

/*
 * Takes the CPU offline and online until asked to stop, in at least @least and at most @most
 * rounds. The condition uses & and | instead of && and ||, so that each round executes the same
 * number of instructions.
 */
static void hotplug_until_stopped(int online, struct shared_results *s, long least,
				 long most)
{
	int stop;

	do {
		s->failed |= cpu_set_online(online, "0");
		s->failed |= cpu_set_online(online, "1");
		s->rounds++;
		stop = __atomic_load_n(&s->stop, __ATOMIC_RELAXED);
	} while (!((stop & (s->rounds >= least)) | (s->rounds >= most)));
}

static __s64 count_hotplug_calls(FIXTURE_DATA(hotplug) *self, long rounds)
{
	int err = pmc_reset(self->fd, 0);

	*self->shared = (struct shared_results) { .stop = 0 };
	if (!err)
		err = pmc_start(self->fd, 0);
	hotplug_until_stopped(self->online, self->shared, rounds, rounds);
	if (!err)
		err = pmc_stop(self->fd, 0);
	return err ? err : pmc_value(self->fd, 0);
}

/*
 * Executes loop(@n) @loops times, while another process takes the CPU offline and online. Checks
 * after each loop that the value has grown by the loop's instructions.
 */
static __s64 count_during_hotplug(FIXTURE_DATA(hotplug) *self, int loops,
				  unsigned long n)
{
	struct shared_results *s = self->shared;
	__s64 last = 0, value = 0;
	int start_pipe, err, i, status;
	pid_t pid;

	*s = (struct shared_results) { .stop = 0 };
	pid = fork_waiting(&start_pipe);
	if (pid < 0)
		return pid;
	if (!pid) {
		/* On a busy host the loops may end before the first round. */
		hotplug_until_stopped(self->online, s, MIN_ROUNDS, -1UL >> 1);
		_exit(0);
	}

	/* The child waits for a byte before it begins, so that its start is not counted. */
	err = wait_until_idle();
	if (!err)
		err = pmc_reset(self->fd, 0);
	if (!err)
		err = pmc_start(self->fd, 0);
	if (write(start_pipe, "", 1) != 1)
		err = -EIO;
	for (i = 0; i < loops; i++) {
		loop(n);
		err |= pmc_read(self->fd, 0, &value);
		s->failed |= value - last < (__s64)(LOOP_INSNS * n);
		last = value;
	}
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
	if (waitpid(pid, &status, 0) != pid || status)
		err = -ECHILD;
	if (!err)
		err = pmc_stop(self->fd, 0);
	close(start_pipe);
	return err ? err : pmc_value(self->fd, 0);
}

TEST_F(hotplug, process_beside_a_hotplugging_one_loses_no_count)
{
	__s64 per_round, overhead, value;
	int i;

	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	value = count_hotplug_calls(self, 2);
	per_round = count_hotplug_calls(self, 3) - value;
	ASSERT_LT(0, per_round);
	ASSERT_EQ(value + 2 * per_round, count_hotplug_calls(self, 4));

	value = count_during_hotplug(self, 100, 1000);
	overhead = value - 100 * LOOP_INSNS * 1000 -
		   self->shared->rounds * per_round;
	for (i = 0; i < 3; i++) {
		value = count_during_hotplug(self, 100, N);
		EXPECT_EQ((__s64)(100 * LOOP_INSNS * N) + overhead +
			  self->shared->rounds * per_round, value);
		EXPECT_EQ(0, self->shared->failed);
		EXPECT_LE(MIN_ROUNDS, self->shared->rounds);
	}
}

/*
 * Linux's perf may use a CPU that comes online after the close, so its registers must be as before.
 */
TEST_F(hotplug, cpu_offline_at_close_reads_as_before)
{
	const __u64 left = 0x000100c5;	/* an event select, not enabled */
	__u32 select0 = pmu_registers()->select0;
	__u32 lvtpc_home, lvtpc;
	__u64 select;

	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, msr_write(self->cpu, select0, left));
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, msr_read(self->cpu, select0, &select));
	EXPECT_NE(left, select);
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	close(self->fd);
	self->fd = -1;
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));

	EXPECT_EQ(0, msr_read(self->cpu, select0, &select));
	EXPECT_EQ(left, select);
	EXPECT_EQ(0, msr_write(self->cpu, select0, 0));
	ASSERT_EQ(0, lvtpc_read(self->home, &lvtpc_home));
	ASSERT_EQ(0, lvtpc_read(self->cpu, &lvtpc));
	EXPECT_EQ(lvtpc_home, lvtpc);
}

TEST_HARNESS_MAIN
