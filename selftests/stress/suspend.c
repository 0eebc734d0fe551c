// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system goes to sleep and wakes up: at each level of pm_test, and by a real suspend to memory,
 * in which the registers are lost. Counters continue from their values. A trace ends with a
 * flag, and keeps its records; the next trace records everything. Events of tasks, of CPUs and of
 * cgroups continue, and their rings have all samples.
 *
 * Suspend to idle is not tested, since nothing would wake the virtual machine: its clock raises no
 * ACPI event while the machine is on. The level "platform" tests all steps of it except the idling.
 *
 * ROUNDS in the environment sets the length.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "samples.h"
#include "system_sleep.h"
#include "trace.h"

#define CGROUPS		"/tmp/cgroup"

#define PAGES	64
#define RATE	997U
#define N	100000UL

/*
 * The maximum number of instructions of this program's writes to sysfs, and of other processes
 * whose system calls are restarted when the processes are thawed.
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
	struct system_sleep how;
};

FIXTURE_VARIANT_ADD(suspend, freezer) { { "freezer", "freeze", 0 } };
FIXTURE_VARIANT_ADD(suspend, devices) { { "devices", "freeze", 0 } };
FIXTURE_VARIANT_ADD(suspend, platform) { { "platform", "freeze", 0 } };
/* All other CPUs go offline, then CPU-like devices are suspended. */
FIXTURE_VARIANT_ADD(suspend, processors) { { "processors", "mem", 0 } };
FIXTURE_VARIANT_ADD(suspend, core) { { "core", "mem", 0 } };
/* With an alarm in less than two seconds the kernel refuses to sleep. */
FIXTURE_VARIANT_ADD(suspend, memory) { { "none", "mem", 3 } };

FIXTURE_SETUP(suspend)
{
	SKIP_WITHOUT_PMU();
	self->fd = -1;
	self->rounds = env_number("ROUNDS", 2);

	/* The kernel changes registers on sleep, so sleep once before the test reads them. */
	ASSERT_EQ(0, system_sleep_prepare(&variant->how));
	ASSERT_EQ(0, system_sleep_once(&variant->how));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, pin_to_cpu(cpu_next(&self->leaks.cpus, -1)));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(suspend)
{
	system_sleep_end();
	if (self->fd >= 0)
		close(self->fd);
}

/* Expects that no memory, counter or register is lost after the close. */
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
		ASSERT_EQ(0, system_sleep_once(&variant->how));
		after = pmc_value(self->fd, 0);
		EXPECT_LE(before, after);
		EXPECT_GE(before + SLEEP_OVERHEAD, after);
		loop(N);
		EXPECT_LE(after + (__s64)(LOOP_INSNS * N),
			  pmc_value(self->fd, 0));
		EXPECT_EQ(stopped, pmc_value(self->fd, 1));
	}
	TH_LOG("%llu sleeps", i);

	/* The counter has the same registers as before, and overflows as before. */
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
		ASSERT_EQ(0, system_sleep_once(&variant->how));
		for_each_cpu_in(cpu, &self->leaks.cpus)
			EXPECT_EQ(PERFMON_BUFFER_FLAG_OFFLINE,
				  self->trace.buffer[cpu]->flags);
		ASSERT_STREQ("", trace_sum(&self->trace, here, &sums));
		EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
		EXPECT_GE(LOOP_INSNS * N + SLEEP_OVERHEAD, sums.event[0].total);
		EXPECT_EQ(sums.event[0].total / RATE, sums.event[0].ticks);

		/* The trace counts as running until STOP, but records nothing more. */
		EXPECT_EQ(-EBADFD, trace_start(&self->trace));
		loop(N);
		ASSERT_EQ(0, trace_stop(&self->trace));
		EXPECT_GE(LOOP_INSNS * N + SLEEP_OVERHEAD, sums.event[0].total);

		/* The next trace runs on all CPUs, and is exact on this CPU. */
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

/* Counts a loop on CPU @cpu, then returns to CPU @home. */
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
		ASSERT_EQ(0, system_sleep_once(&variant->how));
		for_each_cpu_in(cpu, &self->leaks.cpus)
			EXPECT_LE((__s64)(LOOP_INSNS * N), count_on(fd[cpu], cpu, home));
	}
	TH_LOG("%llu sleeps", i);
	for_each_cpu_in(cpu, &self->leaks.cpus)
		close(fd[cpu]);
	close_without_leaks(_metadata, self);
}

/* The count of a cgroup grows by the instructions of its task, while the task has an event, too. */
TEST_F_TIMEOUT(suspend, event_of_a_cgroup_counts_its_task_over_sleep, 36000)
{
	struct perf_event_attr attr = event_instructions();
	__s64 before[2], after[2];
	int dir, cgroup, task;
	__u64 i;

	attr.disabled = 0;
	mkdir(CGROUPS, 0755);
	ASSERT_EQ(0, mount("none", CGROUPS, "cgroup2", 0, NULL));
	ASSERT_EQ(0, mkdir(CGROUPS "/a", 0755));
	EXPECT_EQ(0, write_file(CGROUPS "/a/cgroup.procs", "0"));
	dir = open(CGROUPS "/a", O_RDONLY | O_DIRECTORY);
	cgroup = event_maker_perfmon.open(&attr, dir, -1, -1, PERF_FLAG_PID_CGROUP);
	task = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	for (i = 0; i < self->rounds; i++) {
		before[0] = event_count(cgroup);
		before[1] = event_count(task);
		EXPECT_EQ(0, system_sleep_once(&variant->how));
		loop(N);
		after[0] = event_count(cgroup);
		after[1] = event_count(task);
		EXPECT_LE((__s64)(LOOP_INSNS * N), after[0] - before[0]);
		EXPECT_EQ(after[1] - before[1], after[0] - before[0]);
	}
	TH_LOG("%llu sleeps", i);
	close(task);
	close(cgroup);
	close(dir);
	EXPECT_EQ(0, write_file(CGROUPS "/cgroup.procs", "0"));
	EXPECT_EQ(0, rmdir(CGROUPS "/a"));
	EXPECT_EQ(0, umount(CGROUPS));
	close_without_leaks(_metadata, self);
}

enum { OUTER, INNER, OTHER, NESTED };

/* Nested cgroups with an event each, and two children that always run. */
struct nested_cgroups {
	int event[NESTED];	/* CGROUPS/a, CGROUPS/a/in and CGROUPS/b */
	pid_t child[2];
	int child_event[2];
};

static const char *const nested_paths[NESTED] = { CGROUPS "/a", CGROUPS "/a/in", CGROUPS "/b" };

static void stop_children(struct __test_metadata *_metadata, const struct nested_cgroups *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kill(c->child[i], SIGSTOP));
		ASSERT_EQ(c->child[i], waitpid(c->child[i], NULL, WUNTRACED));
	}
}

/* Moves one child to the inner cgroup, and the other one to CGROUPS/b. */
static void move_children(struct __test_metadata *_metadata, const struct nested_cgroups *c, int inner)
{
	int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, cgroup_move(nested_paths[i == inner ? INNER : OTHER], c->child[i]));
}

static void begin_nested(struct __test_metadata *_metadata, const FIXTURE_DATA(suspend) *self,
			 struct nested_cgroups *c)
{
	struct perf_event_attr attr = event_instructions();
	int i;

	attr.disabled = 0;
	mkdir(CGROUPS, 0755);
	ASSERT_EQ(0, mount("none", CGROUPS, "cgroup2", 0, NULL));
	for (i = 0; i < NESTED; i++) {
		ASSERT_EQ(0, mkdir(nested_paths[i], 0755));
		c->event[i] = event_open_of_cgroup(&event_maker_perfmon, attr, nested_paths[i], -1);
		ASSERT_LE(0, c->event[i]);
	}
	for (i = 0; i < 2; i++) {
		c->child[i] = fork();
		ASSERT_LE(0, c->child[i]);
		if (!c->child[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			sched_setaffinity(0, sizeof(self->leaks.cpus), &self->leaks.cpus);
			for (;;)
				loop(N);
		}
	}
	stop_children(_metadata, c);
	move_children(_metadata, c, 0);
	for (i = 0; i < 2; i++) {
		c->child_event[i] = event_maker_perfmon.open(&attr, c->child[i], -1, -1, 0);
		ASSERT_LE(0, c->child_event[i]);
	}
}

static void end_nested(struct __test_metadata *_metadata, const struct nested_cgroups *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		kill(c->child[i], SIGKILL);
		EXPECT_EQ(c->child[i], waitpid(c->child[i], NULL, 0));
		close(c->child_event[i]);
	}
	/* Removes the inner cgroups first. */
	for (i = NESTED; i--;) {
		close(c->event[i]);
		EXPECT_EQ(0, rmdir(nested_paths[i]));
	}
	EXPECT_EQ(0, umount(CGROUPS));
}

/*
 * Waits until each cgroup has counted a loop. The limit is at least a minute, since the host may be
 * busy.
 */
static void expect_all_count(struct __test_metadata *_metadata, const struct nested_cgroups *c)
{
	__s64 before;
	int i, tries;

	for (i = 0; i < NESTED; i++) {
		before = event_count(c->event[i]);
		for (tries = 0; tries < 6000 &&
		     event_count(c->event[i]) < before + (__s64)(LOOP_INSNS * N); tries++)
			usleep(10000);
		EXPECT_LE(before + (__s64)(LOOP_INSNS * N), event_count(c->event[i])) {
			TH_LOG("%s", nested_paths[i]);
		}
	}
}

/* The children change places before each sleep and after it. Their counts add up. */
TEST_F_TIMEOUT(suspend, events_of_nested_cgroups_follow_moves_over_sleep, 36000)
{
	struct nested_cgroups c;
	__u64 i;
	int k;

	begin_nested(_metadata, self, &c);
	for (i = 0; i < self->rounds; i++) {
		for (k = 0; k < 2; k++)
			ASSERT_EQ(0, kill(c.child[k], SIGCONT));
		move_children(_metadata, &c, 1);
		EXPECT_EQ(0, system_sleep_once(&variant->how));
		expect_all_count(_metadata, &c);
		move_children(_metadata, &c, 0);
		expect_all_count(_metadata, &c);
		stop_children(_metadata, &c);
		EXPECT_EQ(event_count(c.child_event[0]) + event_count(c.child_event[1]),
			  event_count(c.event[INNER]) + event_count(c.event[OTHER]));
		EXPECT_EQ(event_count(c.event[INNER]), event_count(c.event[OUTER]));
	}
	TH_LOG("%llu sleeps, %lld and %lld", i, event_count(c.event[INNER]),
	       event_count(c.event[OTHER]));
	end_nested(_metadata, &c);
	close_without_leaks(_metadata, self);
}

TEST_F_TIMEOUT(suspend, ring_has_every_sample_of_a_task_over_sleep, 36000)
{
	struct perf_event_attr attr = event_every(RATE);
	struct sampler sampler = { .fd = -1 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__s64 before, count;
	__u64 i;

	attr.disabled = 0;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 8));
	for (i = 0; i < self->rounds; i++) {
		before = event_count(sampler.fd);
		ASSERT_LE(0, before);
		loop(N);
		ASSERT_EQ(0, system_sleep_once(&variant->how));
		loop(N);
		count = event_count(sampler.fd) - before;
		EXPECT_LE((__s64)(2 * LOOP_INSNS * N), count);
		EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + 2 * SLEEP_OVERHEAD, count);
		sampler_read(&sampler, &sums, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	count = event_count(sampler.fd);
	sampler_read(&sampler, &sums, NULL, NULL);
	TH_LOG("%llu sleeps, %lu samples", i, sums.samples);
	EXPECT_FALSE(sums.malformed);
	EXPECT_TRUE(sums.ordered);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ((unsigned long)count / RATE, sums.samples);
	sampler_close(&sampler);
	close_without_leaks(_metadata, self);
}

/* Results of a process that allocates traces while this one sends the system to sleep. */
struct allocations {
	unsigned long count;
	unsigned long untraced;	/* traces that missed a CPU that stays online */
	int err;
};

static int allocate_once(FIXTURE_DATA(suspend) *self, struct allocations *result)
{
	int cpu = cpu_next(&self->leaks.cpus, -1), err;

	err = trace_alloc(&self->trace, self->fd, 1);
	if (err)
		return err;
	result->count++;
	if (self->trace.buffer[cpu]->flags & PERFMON_BUFFER_FLAG_NOT_TRACED)
		result->untraced++;
	return trace_free(&self->trace);
}

/*
 * Programs run before they are frozen and after they are thawed, when other CPUs are still offline:
 * buffers allocated then must include the CPUs that come back.
 */
TEST_F_TIMEOUT(suspend, allocation_beside_sleep_has_room_for_all_cpus, 36000)
{
	/*
	 * At the level "freezer", processes are only frozen, which is quick. So there are many
	 * rounds, and in most of them the processes run.
	 */
	bool quick = !strcmp(variant->how.level, "freezer");
	__u64 i, rounds = self->rounds * (quick ? 10 : 1);
	struct allocations *result;
	pid_t child;

	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, result);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		while (!result->err)
			result->err = allocate_once(self, result);
		_exit(0);
	}
	for (i = 0; i < rounds; i++) {
		EXPECT_EQ(0, system_sleep_once(&variant->how));
		usleep(20000);
	}
	/* On a busy host the child may not have had its turn yet: waits up to a minute. */
	for (i = 0; i < 6000 && !__atomic_load_n(&result->count, __ATOMIC_RELAXED); i++)
		usleep(10000);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(0, result->err);
	EXPECT_LT(0UL, result->count);
	EXPECT_EQ(0UL, result->untraced);
	TH_LOG("%llu sleeps, %lu allocations", rounds, result->count);
	munmap(result, sizeof(*result));
	close_without_leaks(_metadata, self);
}

TEST_HARNESS_MAIN
