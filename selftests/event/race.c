// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two users that request a counter at the same moment: two events of a task that is being forked,
 * one inherited and one opened by another thread; and perf, while a program calls
 * PERFMON_GET_OWNER. Also tests tasks that execute a program while their event is being closed,
 * and events beside a program that opens a task's first event, or closes a group's leader.
 *
 * SECONDS in the environment is the length of each test.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"

#define N	100000UL

/* Only general counters can count branches, so all events of branches share a counter. */
static struct perf_event_attr branches(bool kernel)
{
	struct perf_event_attr attr = event_instructions();

	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.disabled = 0;
	attr.exclude_kernel = !kernel;
	attr.exclude_user = kernel;
	return attr;
}

/* A thread that opens an event of a process as soon as a process with this id exists. */
static struct {
	int device;
	int cpu;
	pid_t victim;	/* expected process id; 0: none */
	int event_fd;	/* the event's descriptor, or -1 */
	bool stop;
} attacker;

static void *attack(void *unused)
{
	struct perf_event_attr attr = branches(true);
	struct perfmon_event_open arguments = {
		.attr = (uintptr_t)&attr, .cpu = -1, .group_fd = -1,
	};
	int fd;

	(void)unused;
	pin_to_cpu(attacker.cpu);
	while (!__atomic_load_n(&attacker.stop, __ATOMIC_RELAXED)) {
		arguments.pid = __atomic_load_n(&attacker.victim, __ATOMIC_ACQUIRE);
		if (!arguments.pid) {
			sched_yield();
			continue;
		}
		fd = ioctl(attacker.device, PERFMON_EVENT_OPEN, &arguments);
		if (fd < 0)
			continue;
		attacker.event_fd = fd;
		__atomic_store_n(&attacker.victim, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

/*
 * Forks a child for which the attacker opens an event at once, and that then executes N branches.
 * Returns its PID. PIDs are assigned in sequence, so @victim is the expected PID.
 */
static pid_t fork_victim(struct __test_metadata *_metadata, pid_t victim)
{
	int start_pipe, i;
	pid_t pid;

	attacker.event_fd = -1;
	__atomic_store_n(&attacker.victim, victim, __ATOMIC_RELEASE);
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid) {
		loop(N);
		_exit(0);
	}
	for (i = 0; i < 100 && __atomic_load_n(&attacker.victim, __ATOMIC_ACQUIRE); i++)
		usleep(10);
	__atomic_store_n(&attacker.victim, 0, __ATOMIC_RELEASE);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	return pid;
}

/*
 * The new task has only one of the two events, or has both on different counters. If it gets the
 * attacker's event first, the inherited event is not counted, and read(2) fails because the sum is
 * incomplete.
 */
TEST(new_task_has_one_event_on_a_counter)
{
	struct perf_event_attr attr = branches(false);
	int fd, forks = 0, caught = 0, missed = 0;
	__s64 before, after;
	pthread_t thread;
	cpu_set_t cpus;
	pid_t last;
	double end;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(fd, &cpus)
		attacker.cpu = fd;
	ASSERT_LE(0, pin_to_first_cpu());
	attacker.device = open_device(_metadata, O_RDONLY);
	ASSERT_EQ(0, pthread_create(&thread, NULL, attack, NULL));
	attr.inherit = 1;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	last = fork_victim(_metadata, 0);
	/* The time starts after the first event of a task, which takes a while to open. */
	end = clock_seconds() + env_number("SECONDS", 1);
	/*
	 * Goes on for up to a minute, since on a busy host the attacker's CPU may stand still for
	 * long.
	 */
	for (; clock_seconds() < end || (!caught && CPU_COUNT(&cpus) > 1 && clock_seconds() < end + 60); forks++) {
		before = event_count(fd);
		ASSERT_LE(0, before);
		last = fork_victim(_metadata, last + 1);
		after = event_count(fd);
		if (attacker.event_fd >= 0) {
			caught++;
			EXPECT_LE(0, event_count(attacker.event_fd));
			close(attacker.event_fd);
		}
		if (after != -EIO) {
			/* At most the child's branches in user mode, and a few of this thread's. */
			EXPECT_LE(before + (__s64)N, after);
			EXPECT_GE(before + 2 * (__s64)N, after);
			continue;
		}
		missed++;
		close(fd);
		fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
	}
	__atomic_store_n(&attacker.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%d forks, %d caught, %d of them before they inherited", forks, caught, missed);
	if (CPU_COUNT(&cpus) > 1)
		EXPECT_LT(0, caught);
	close(fd);
	close(attacker.device);
}

/* PERFMON_GET_OWNER of a caller that may not count CPUs never makes perf's events fail. */
TEST(asking_for_owners_takes_no_counter)
{
	const double end = clock_seconds() + env_number("SECONDS", 1);
	struct perfmon_counter_owner owner = {};
	struct perf_event_attr attr = event_instructions();
	int device, fd, opened = 0;
	pid_t pid;

	SKIP_WITHOUT_PMU();
	device = open_device(_metadata, O_RDONLY);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		drop_rights(false);
		for (;;)
			device_ioctl(device, PERFMON_GET_OWNER, &owner);
	}
	do {
		fd = event_maker_perf.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		EXPECT_LE(0, fd) {
			TH_LOG("after %d: %s", opened, strerror(-fd));
		}
		close(fd);
		opened++;
	} while (fd >= 0 && clock_seconds() < end);
	TH_LOG("%d opened", opened);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(device);
}

#define TASKS	16

/*
 * Starts TASKS children on a CPU. Each executes a program as soon as the parent has written a byte
 * to the child's @start_pipe.
 */
static void fork_executors(struct __test_metadata *_metadata, int cpu, pid_t pids[TASKS],
			   int start_pipe[TASKS])
{
	int i;

	for (i = 0; i < TASKS; i++) {
		pids[i] = fork_waiting(&start_pipe[i]);
		ASSERT_LE(0, pids[i]);
		if (!pids[i]) {
			pin_to_cpu(cpu);
			execlp("pmctl_loop", "pmctl_loop", "1", NULL);
			_exit(127);
		}
	}
}

/*
 * The event is closed at any moment of the execs that would enable it. Closing it must close the
 * window of each task that has inherited the event: a task with an open window would still be
 * sampled for the freed event, which the debug kernel would report. Another event keeps the
 * counter in use.
 */
TEST(exec_does_not_enable_a_closed_event)
{
	struct perf_event_attr attr = branches(false), other = attr;
	int start_pipe[TASKS], fd, cpu = 0, i, status, other_fd;
	pid_t pids[TASKS];
	unsigned long rounds = 0;
	cpu_set_t cpus;
	double end;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(i, &cpus)
		cpu = i;
	ASSERT_LE(0, pin_to_first_cpu());
	other_fd = event_maker_perfmon.open(&other, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, other_fd);
	attr.disabled = 1;
	attr.enable_on_exec = 1;
	attr.inherit = 1;
	attr.sample_period = 1009;
	srand(env_number("SEED", 1));
	for (end = clock_seconds() + env_number("SECONDS", 2); !rounds || clock_seconds() < end; rounds++) {
		fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		fork_executors(_metadata, cpu, pids, start_pipe);
		for (i = 0; i < TASKS; i++) {
			ASSERT_EQ(1, write(start_pipe[i], "", 1));
			close(start_pipe[i]);
		}
		loop(rand() % (10 * N));
		close(fd);
		for (i = 0; i < TASKS; i++) {
			ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
			EXPECT_EQ(0, status);
		}
	}
	TH_LOG("%lu rounds", rounds);
	EXPECT_LT(0, event_count(other_fd));
	close(other_fd);
}

/* Pins this program to the first CPU. Returns another CPU; negative if there is none. */
static int pin_beside_other_cpu(struct __test_metadata *_metadata)
{
	cpu_set_t cpus;
	int home;

	ASSERT_EQ(0, cpus_online(&cpus));
	home = pin_to_first_cpu();
	ASSERT_LE(0, home);
	return cpu_next(&cpus, home);
}

/*
 * The number of loops of a task after it was woken, and of inherited events that begin to count at
 * the switch to the task.
 */
#define ROUND_LOOPS	60
#define LOOP_SIZE	1000UL
#define FILLERS		1000

/*
 * Executes ROUND_LOOPS loops for each byte in the pipe @start_pipe, and counts them in @loops. Then
 * writes a byte to the pipe @done.
 */
static void run_rounds(int cpu, int start_pipe, int done, unsigned long *loops)
{
	char byte;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_cpu(cpu);
	while (read(start_pipe, &byte, 1) == 1) {
		for (i = 0; i < ROUND_LOOPS; i++) {
			loop(LOOP_SIZE);
			__atomic_store_n(loops, i + 1, __ATOMIC_RELAXED);
		}
		if (write(done, "", 1) != 1)
			break;
	}
	_exit(0);
}

/*
 * An inherited event is enabled or disabled at any moment of the switch to its task. The task has
 * many events, so the switch takes a while between the first one and the last.
 */
TEST(switch_sees_each_change_of_an_inherited_event)
{
	struct perf_event_attr attr = event_instructions();
	unsigned long *loops = map_shared(_metadata, sizeof(*loops));
	const struct rlimit files = { FILLERS + 100, FILLERS + 100 };
	int start_pipe[2], done[2], fd, i, cpu, round;
	struct rng rng = rng_seed(env_number("SEED", 1));
	__s64 after, count, least, most;
	char byte;
	pid_t pid;

	SKIP_WITHOUT_PMU();
	cpu = pin_beside_other_cpu(_metadata);
	/* On a machine with one CPU, the event can't be changed during the switch. */
	if (cpu < 0)
		return;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, pipe(start_pipe));
	ASSERT_EQ(0, pipe(done));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		run_rounds(cpu, start_pipe[0], done[1], loops);
	attr.inherit = 1;
	fd = event_maker_perfmon.open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	attr.disabled = 0;
	for (i = 0; i < FILLERS; i++)
		ASSERT_LE(0, event_maker_perfmon.open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
	for (round = 0; round < (int)env_number("ROUNDS", 400); round++) {
		const bool enable = round & 1;

		ASSERT_EQ(0, enable ? event_disable(fd) : event_enable(fd));
		ASSERT_EQ(0, event_reset(fd));
		__atomic_store_n(loops, 0, __ATOMIC_RELAXED);
		ASSERT_EQ(1, write(start_pipe[1], "", 1));
		loop(rng_below(&rng, 200000));
		ASSERT_EQ(0, enable ? event_enable(fd) : event_disable(fd));
		after = __atomic_load_n(loops, __ATOMIC_RELAXED);
		ASSERT_EQ(1, read(done[0], &byte, 1));
		count = event_count(fd);
		/* The loop that was running at the change is counted in part. */
		least = enable ? ROUND_LOOPS - after - 1 : 0;
		most = enable ? ROUND_LOOPS + 2 : after + 2;
		EXPECT_LE(least * (__s64)(LOOP_SIZE * LOOP_INSNS), count);
		EXPECT_GE(most * (__s64)(LOOP_SIZE * LOOP_INSNS), count);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Counts loops in @loops, without end. */
static void loop_without_end(int cpu, unsigned long *loops)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_cpu(cpu);
	for (;;) {
		loop(LOOP_SIZE);
		__atomic_fetch_add(loops, 1, __ATOMIC_RELAXED);
	}
}

/* Opens and closes an event of @pid without end, whenever no other program wants the CPU. */
static void open_without_end(pid_t pid)
{
	const struct sched_param none = { 0 };
	struct perf_event_attr attr = branches(true);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		_exit(1);
	for (;;)
		close(event_maker_perfmon.open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

/* Waits, without giving up the CPU, until the running loop was executed twice. */
static void wait_for_loops(const unsigned long *loops)
{
	const unsigned long begin = __atomic_load_n(loops, __ATOMIC_RELAXED);

	while (__atomic_load_n(loops, __ATOMIC_RELAXED) - begin < 2)
		;
}

/*
 * An open event of a running task counts, even if the program that is opening the task's first
 * event does not get to run: this program preempts it at any moment.
 */
TEST(open_event_counts_beside_an_opener_that_waits)
{
	unsigned long *loops = map_shared(_metadata, sizeof(*loops));
	struct perf_event_attr attr = branches(false);
	int fd, cpu, rounds = 0;
	struct rng rng = rng_seed(env_number("SEED", 1));
	pid_t pid, opener;
	double end;

	SKIP_WITHOUT_PMU();
	cpu = pin_beside_other_cpu(_metadata);
	/* On a single CPU the task does not run while this program does. */
	if (cpu < 0)
		return;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		loop_without_end(cpu, loops);
	wait_for_loops(loops);
	opener = fork();
	ASSERT_LE(0, opener);
	if (!opener)
		open_without_end(pid);
	for (end = clock_seconds() + env_number("SECONDS", 2); !rounds || clock_seconds() < end; rounds++) {
		usleep(50 + rng_below(&rng, 200));
		fd = event_maker_perfmon.open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		wait_for_loops(loops);
		EXPECT_LT(0, event_count(fd)) {
			TH_LOG("in round %d", rounds);
		}
		close(fd);
	}
	TH_LOG("%d rounds", rounds);
	kill(opener, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(opener, NULL, 0);
	waitpid(pid, NULL, 0);
}

/* Makes a child that counts loops in @loops, and waits. */
static void loop_in_child(int cpu, unsigned long *loops)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!fork())
		loop_without_end(cpu, loops);
	for (;;)
		pause();
}

/* Closes a descriptor, whenever no other program wants the CPU. */
static void close_when_idle(int fd)
{
	const struct sched_param none = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		_exit(1);
	close(fd);
	_exit(0);
}

/* The number of tasks with events of their own, among which a closed event looks for tasks that have inherited it. */
#define OTHER_TASKS	500

/*
 * The siblings of a leader count while it is being closed, even if the program that closes it does not
 * get to run: this program preempts it at any moment.
 */
TEST(siblings_count_beside_a_closer_that_waits)
{
	unsigned long *loops = map_shared(_metadata, sizeof(*loops));
	struct perf_event_attr attr = branches(false);
	int leader, sibling, cpu, start, go, rounds = 0;
	const struct rlimit files = { OTHER_TASKS + 100, OTHER_TASKS + 100 };
	struct rng rng = rng_seed(env_number("SEED", 1));
	pid_t pid, closer, others[OTHER_TASKS];
	int i;
	__s64 before;
	double end;

	SKIP_WITHOUT_PMU();
	cpu = pin_beside_other_cpu(_metadata);
	/* On a single CPU the task does not run while this program does. */
	if (cpu < 0)
		return;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < OTHER_TASKS; i++) {
		others[i] = fork();
		ASSERT_LE(0, others[i]);
		if (!others[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		ASSERT_LE(0, event_maker_perfmon.open(&attr, others[i], -1, -1, PERF_FLAG_FD_CLOEXEC));
	}
	attr.inherit = 1;
	for (end = clock_seconds() + env_number("SECONDS", 2); !rounds || clock_seconds() < end; rounds++) {
		*loops = 0;
		pid = fork_waiting(&start);
		ASSERT_LE(0, pid);
		if (!pid)
			loop_in_child(cpu, loops);
		leader = event_maker_perfmon.open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, leader);
		sibling = event_maker_perfmon.open(&attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, sibling);
		closer = fork_waiting(&go);
		ASSERT_LE(0, closer);
		if (!closer)
			close_when_idle(leader);
		close(leader);
		ASSERT_EQ(1, write(start, "", 1));
		wait_for_loops(loops);
		ASSERT_EQ(1, write(go, "", 1));
		usleep(1 + rng_below(&rng, 200));
		before = event_count(sibling);
		ASSERT_LE(0, before);
		wait_for_loops(loops);
		EXPECT_LT(before, event_count(sibling)) {
			TH_LOG("in round %d", rounds);
		}
		ASSERT_EQ(closer, waitpid(closer, NULL, 0));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(sibling);
		close(start);
		close(go);
	}
	TH_LOG("%d rounds", rounds);
	for (i = 0; i < OTHER_TASKS; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
}

TEST_HARNESS_MAIN
