// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU that came online after the module was loaded, with fewer counters than the other CPUs, is
 * not used for counting. Reading an event that should have counted on this CPU fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "loop.h"
#include "module.h"
#include "samples.h"

#define N	1000000UL
#define CHANGES	50UL
#define ANY_CPU	(-1)
#define ROOT	"/tmp/cgroup"

FIXTURE(refused)
{
	int home;
	int cpu;		/* the CPU without counting */
	int online;		/* the file "online" of @cpu */
	int fd;
};

FIXTURE_SETUP(refused)
{
	SKIP_WITHOUT_PMU();
	self->online = -1;
	self->fd = -1;
	FIND_CPU_TO_SWITCH(self);
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, module_reload(""));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	ASSERT_EQ(0, pin_to_cpu(self->home));
}

FIXTURE_TEARDOWN(refused)
{
	close(self->fd);
	close(self->online);
	EXPECT_EQ(0, module_reload(""));
}

/* Opens an event of this task on any CPU. */
static int open_for_any_cpu(bool disabled, int leader)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = disabled;
	return event_maker_perfmon.open(&attr, 0, ANY_CPU, leader, 0);
}

/* Opens an event of this task on CPU @cpu, and counts a loop on a CPU with counting. */
static void count_on_usable_cpu(struct __test_metadata *_metadata, FIXTURE_DATA(refused) *self,
			  int cpu, __s64 expected)
{
	struct perf_event_attr attr = event_instructions();

	self->fd = event_maker_perfmon.open(&attr, 0, cpu, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, event_enable(self->fd));
	loop(N);
	EXPECT_LE(expected, event_count(self->fd));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	loop(N);
}

TEST_F(refused, event_of_the_cpu_is_refused)
{
	struct perf_event_attr attr = event_instructions();

	EXPECT_EQ(-EOPNOTSUPP, event_maker_perfmon.open(&attr, -1, self->cpu, -1, 0));
}

TEST_F(refused, event_on_any_cpu_fails_after_the_task_ran_there)
{
	count_on_usable_cpu(_metadata, self, ANY_CPU, LOOP_INSNS * N);
	EXPECT_EQ(-EIO, event_count(self->fd));
}

TEST_F(refused, event_on_this_cpu_fails_after_the_task_ran_there)
{
	count_on_usable_cpu(_metadata, self, self->cpu, 0);
	EXPECT_EQ(-EIO, event_count(self->fd));
}

TEST_F(refused, event_on_another_cpu_keeps_its_count)
{
	count_on_usable_cpu(_metadata, self, self->home, LOOP_INSNS * N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd));
}

TEST_F(refused, event_that_is_enabled_there_fails)
{
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	self->fd = open_for_any_cpu(true, -1);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(0, event_count(self->fd));
	ASSERT_EQ(0, event_enable(self->fd));
	EXPECT_EQ(-EIO, event_count(self->fd));
}

TEST_F(refused, event_that_is_opened_enabled_there_fails)
{
	int first = open_for_any_cpu(true, -1);

	ASSERT_LE(0, first);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	self->fd = open_for_any_cpu(false, -1);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(-EIO, event_count(self->fd));
	EXPECT_EQ(0, event_count(first));
	close(first);
}

/* Forks a child that executes a program when a byte is written to @start_pipe. */
static pid_t fork_to_execute(int *start_pipe)
{
	pid_t child = fork_waiting(start_pipe);

	if (child)
		return child;
	execlp("pmctl_loop", "pmctl_loop", "1", NULL);
	_exit(127);
}

/* To count a command, pmctl and perf open events that an exec enables. */
TEST_F(refused, event_that_exec_enables_there_fails)
{
	struct perf_event_attr attr = event_instructions();
	int start_pipe, status;
	pid_t child;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	child = fork_to_execute(&start_pipe);
	ASSERT_LE(0, child);
	attr.enable_on_exec = 1;
	self->fd = event_maker_perfmon.open(&attr, child, ANY_CPU, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(-EIO, event_count(self->fd));
	close(start_pipe);
}

/*
 * The CPU without counting marks its own part of a cgroup's event as broken. It does not wait for
 * another CPU's part, which always counts the root cgroup.
 */
TEST_F(refused, event_of_the_root_cgroup_fails_after_a_task_ran_there)
{
	struct perf_event_attr attr = event_instructions();
	int root;

	mkdir(ROOT, 0700);
	ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
	root = open(ROOT, O_RDONLY | O_DIRECTORY);
	self->fd = event_maker_perfmon.open(&attr, root, ANY_CPU, -1, PERF_FLAG_PID_CGROUP);
	close(root);
	EXPECT_EQ(0, umount2(ROOT, MNT_DETACH));
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	loop(N);
	EXPECT_EQ(-EIO, event_count(self->fd));
}

/* Takes a name, maps executable memory and makes a child, @n times each. */
static void change_task(struct __test_metadata *_metadata, unsigned long n)
{
	size_t size = getpagesize();
	int status;
	pid_t child;
	void *at;

	while (n--) {
		ASSERT_EQ(0, prctl(PR_SET_NAME, n % 2 ? "one" : "other"));
		at = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, at);
		ASSERT_EQ(0, munmap(at, size));
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(0);
		ASSERT_EQ(child, waitpid(child, &status, 0));
	}
}

/* Records need no counter. */
TEST_F(refused, records_of_the_task_are_complete)
{
	struct perf_event_attr attr = event_dummy();
	unsigned long names = 0, mappings = 0, children = 0, lost = 0;
	struct sampler s;

	attr.comm = 1;
	attr.mmap2 = 1;
	attr.task = 1;
	attr.disabled = 0;
	ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, 0, ANY_CPU, 4));
	change_task(_metadata, CHANGES);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	change_task(_metadata, CHANGES);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	change_task(_metadata, CHANGES);
	while (event_ring_next(&s.ring, &s.record)) {
		__u32 type = s.record.header.type;

		names += type == PERF_RECORD_COMM;
		mappings += type == PERF_RECORD_MMAP2;
		children += type == PERF_RECORD_FORK;
		lost += type == PERF_RECORD_LOST;
	}
	sampler_close(&s);
	EXPECT_EQ(3 * CHANGES, names);
	EXPECT_EQ(3 * CHANGES, mappings);
	EXPECT_EQ(3 * CHANGES, children);
	EXPECT_EQ(0UL, lost);
}

/* Returns the number of mappings that are recorded of a program that is executed on a CPU. */
static unsigned long recorded_mappings_of_exec(struct __test_metadata *_metadata, int cpu)
{
	struct perf_event_attr attr = event_dummy();
	unsigned long mappings = 0, lost = 0;
	bool has_executed = false;
	int start_pipe, status;
	struct sampler s;
	pid_t child;

	ASSERT_EQ(0, pin_to_cpu(cpu));
	child = fork_to_execute(&start_pipe);
	ASSERT_LE(0, child);
	attr.comm = 1;
	attr.mmap2 = 1;
	attr.disabled = 0;
	ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, child, ANY_CPU, 4));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	while (event_ring_next(&s.ring, &s.record)) {
		has_executed |= s.record.header.type == PERF_RECORD_COMM &&
				s.record.header.misc & PERF_RECORD_MISC_COMM_EXEC;
		mappings += s.record.header.type == PERF_RECORD_MMAP2 && has_executed;
		lost += s.record.header.type == PERF_RECORD_LOST;
	}
	EXPECT_TRUE(has_executed);
	EXPECT_EQ(0UL, lost);
	sampler_close(&s);
	close(start_pipe);
	return mappings;
}

TEST_F(refused, mappings_of_an_exec_are_recorded)
{
	unsigned long mappings = recorded_mappings_of_exec(_metadata, self->home);

	EXPECT_LT(0UL, mappings);
	EXPECT_EQ(mappings, recorded_mappings_of_exec(_metadata, self->cpu));
}

TEST_F(refused, group_whose_leader_is_disabled_misses_nothing)
{
	int sibling;

	self->fd = open_for_any_cpu(true, -1);
	ASSERT_LE(0, self->fd);
	sibling = open_for_any_cpu(false, self->fd);
	ASSERT_LE(0, sibling);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	loop(N);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, event_enable(self->fd));
	loop(N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(sibling));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(self->fd));
	close(sibling);
}

TEST_HARNESS_MAIN
