// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that hardly run, and a program that never sleeps, must not keep other programs from
 * their events.
 *
 * A reader of SCHED_IDLE on a CPU with busy loops runs some milliseconds per second. If it is
 * preempted while it holds a lock, other programs have to wait for the lock. They sleep meanwhile,
 * and the kernel counts their sleeps. Calls of the module must never sleep. The length of a call is
 * compared with perf's in the same boot, since it depends on the host.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "event.h"
#include "event_page.h"
#include "fixture.h"
#include "idle.h"
#include "kmsg.h"
#include "loop.h"
#include "options.h"
#include "perf.h"
#include "samples.h"
#include "spinner.h"
#include "system_sleep.h"

/* The number of busy loops on the reader's CPU. */
#define LOOPS	4

/* Seconds of each measurement. */
#define SECONDS	env_number("SECONDS", 4)

/*
 * The longest time of the module may be FACTOR times the longest time of perf. On a busy host both
 * may be stopped for some time, most of all at CPU hotplug and sleep, for which many threads must
 * run on a CPU with busy loops. So times below FLOOR always pass, and a failed comparison is
 * repeated: a lock of the reader would delay others in each attempt, since an attempt lasts for
 * SECONDS.
 */
#define FACTOR		3
#define FLOOR		1.0
#define SYSTEM_FLOOR	2.0
#define ATTEMPTS	10

#define N	1000000UL

/* A period so long that it does not end while an event is open. */
#define SAMPLED	1000000007UL

/* Memory that children and test share. */
struct shared_results {
	bool is_reading;	/* the reader is reading; it hardly runs from then on */
};

/* The longest time of each operation of a measured program, in seconds. */
struct longest_times {
	double open, read, close;
	long sleeps;	/* the number of times that an operation waited for another task */
};

FIXTURE(priority)
{
	struct shared_results *shared;
	int home, cpu;		/* a CPU that stays online, and the other one */
	int online;		/* the file "online" of @cpu */
	pid_t group;		/* process group of the children; 0 before the first */
	struct spinner spinner;
};

FIXTURE_SETUP(priority)
{
	SKIP_WITHOUT_PMU();
	self->group = 0;
	FIND_CPU_TO_SWITCH(self);
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, wait_until_idle());
}

/* Kills the children. */
static void end_children(pid_t *group)
{
	if (!*group)
		return;
	kill(-*group, SIGKILL);
	while (waitpid(-*group, NULL, 0) > 0)
		;
	*group = 0;
}

FIXTURE_TEARDOWN(priority)
{
	end_children(&self->group);
	if (self->spinner.pid)
		spinner_stop(&self->spinner);
	/* If the CPU is online, as it should be, this call fails with EINVAL. */
	cpu_set_online(self->online, "1");
	close(self->online);
}

/* Forks a child on a CPU, in the group that teardown kills. */
static pid_t fork_on(pid_t *group, int cpu)
{
	pid_t pid = fork();

	if (pid) {
		setpgid(pid, *group);
		if (pid > 0 && !*group)
			*group = pid;
		return pid;
	}
	setpgid(0, *group);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(cpu))
		_exit(1);
	return 0;
}

/* The number of reads after which the reader opens and closes a sampled event. */
#define READS	100

/* Reads its own inherited event forever, and opens a sampled event every READS reads. */
static void read_without_end(const struct event_maker *maker, bool *is_reading, int policy)
{
	struct perf_event_attr sampled = event_every(SAMPLED), attr = event_instructions();
	const struct sched_param none = { 0 };
	int fd, i;

	attr.disabled = 0;
	attr.inherit = 1;
	fd = maker->open(&attr, 0, -1, -1, 0);
	if (event_count(fd) < 0)
		_exit(1);
	__atomic_store_n(is_reading, true, __ATOMIC_RELAXED);
	if (sched_setscheduler(0, policy, &none))
		_exit(1);
	for (;;) {
		for (i = 0; i < READS; i++)
			if (event_count(fd) < 0)
				_exit(1);
		close(maker->open(&sampled, 0, -1, -1, 0));
	}
}

/*
 * Starts a reader of SCHED_IDLE and busy loops on one CPU, and a reader of normal priority on
 * the other CPU.
 */
static void start_readers(struct __test_metadata *_metadata,
			  FIXTURE_DATA(priority) *self, const struct event_maker *maker)
{
	bool unused;
	pid_t pid;
	int i;

	self->shared->is_reading = false;
	for (i = 0; i < LOOPS; i++) {
		pid = fork_on(&self->group, self->home);
		ASSERT_LE(0, pid);
		if (!pid)
			for (;;)
				loop(N);
	}
	pid = fork_on(&self->group, self->home);
	ASSERT_LE(0, pid);
	if (!pid)
		read_without_end(maker, &self->shared->is_reading, SCHED_IDLE);
	pid = fork_on(&self->group, self->cpu);
	ASSERT_LE(0, pid);
	if (!pid)
		read_without_end(maker, &unused, SCHED_OTHER);
	while (!__atomic_load_n(&self->shared->is_reading, __ATOMIC_RELAXED)) {
		ASSERT_EQ(0, waitpid(-self->group, NULL, WNOHANG));
		usleep(1000);
	}
}

/* Returns the number of times that this task has slept. Preemptions do not count. */
static long sleeps_so_far(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? -1 : usage.ru_nvcsw;
}

/*
 * Opens an event of this thread. Each open of the device takes a lock of the kernel's, which all miscellaneous devices
 * share and which is not measured here, so @device is open already.
 */
static int open_event(const struct event_maker *maker, int device, struct perf_event_attr *attr)
{
	const struct perfmon_event_open arguments = {
		.attr = (uintptr_t)attr,
		.cpu = -1,
		.group_fd = -1,
	};

	if (maker == &event_maker_perf)
		return maker->open(attr, 0, -1, -1, 0);
	return event_ioctl(device, PERFMON_EVENT_OPEN, (uintptr_t)&arguments);
}

/* Opens, reads and closes inherited sampled events for SECONDS. */
static void measure_operations(struct __test_metadata *_metadata, const struct event_maker *maker,
		    struct longest_times *longest)
{
	struct perf_event_attr attr = event_every(SAMPLED);
	double t, end = clock_seconds() + SECONDS;
	int fd, device = device_open(O_RDONLY);
	long before;

	ASSERT_LE(0, device);
	*longest = (struct longest_times){ 0 };
	attr.inherit = 1;
	do {
		before = sleeps_so_far();
		t = clock_seconds();
		fd = open_event(maker, device, &attr);
		clock_note_longest(&longest->open, &t);
		ASSERT_LE(0, fd);
		ASSERT_LE(0, event_count(fd));
		clock_note_longest(&longest->read, &t);
		close(fd);
		clock_note_longest(&longest->close, &t);
		longest->sleeps += sleeps_so_far() - before;
		usleep(1000);
	} while (clock_seconds() < end);
	close(device);
	TH_LOG("%s: open %.0f ms, read %.0f ms, close %.0f ms at most, %ld sleeps", maker->name,
	       longest->open * 1e3, longest->read * 1e3, longest->close * 1e3, longest->sleeps);
}

static bool is_short(double time, double perf_time, double floor)
{
	return time <= FACTOR * perf_time + floor;
}

TEST_F(priority, idle_reader_does_not_delay_others)
{
	const struct event_maker *makers[] = { &event_maker_perf, &event_maker_perfmon };
	struct longest_times longest[2];
	bool is_delayed = true;
	int i, attempts;

	for (attempts = 0; is_delayed && attempts < ATTEMPTS; attempts++) {
		for (i = 0; i < 2; i++) {
			start_readers(_metadata, self, makers[i]);
			ASSERT_EQ(0, pin_to_cpu(self->cpu));
			measure_operations(_metadata, makers[i], &longest[i]);
			ASSERT_EQ(0, pin_to_cpu(self->home));
			end_children(&self->group);
			ASSERT_EQ(0, wait_until_idle());
		}
		EXPECT_EQ(0, longest[1].sleeps);
		is_delayed = !is_short(longest[1].open, longest[0].open, FLOOR) ||
			  !is_short(longest[1].read, longest[0].read, FLOOR) ||
			  !is_short(longest[1].close, longest[0].close, FLOOR);
	}
	EXPECT_FALSE(is_delayed);
}

/* Returns the longest time to take the other CPU offline or online. */
static double switch_cpu(struct __test_metadata *_metadata, FIXTURE_DATA(priority) *self)
{
	double t, longest = 0;
	int i;

	for (i = 0; i < 6; i++) {
		t = clock_seconds();
		ASSERT_EQ(0, cpu_set_online(self->online, "0"));
		clock_note_longest(&longest, &t);
		ASSERT_EQ(0, cpu_set_online(self->online, "1"));
		clock_note_longest(&longest, &t);
	}
	return longest;
}

/* Returns the longest time to go to sleep, up to the step in which no other CPU is online, and to wake up. */
static double sleep_and_wake_up(struct __test_metadata *_metadata,
				FIXTURE_DATA(priority) *self __attribute__((unused)))
{
	const struct system_sleep how = { .level = "processors", .state = "mem" };
	double t, longest = 0;
	int i;

	ASSERT_EQ(0, system_sleep_prepare(&how));
	for (i = 0; i < 4; i++) {
		t = clock_seconds();
		EXPECT_EQ(0, system_sleep_once(&how));
		clock_note_longest(&longest, &t);
	}
	system_sleep_end();
	return longest;
}

/*
 * Compares operations of the whole system while the idle readers read events of perf with the same
 * operations while they read events of the module.
 */
static void compare_system(struct __test_metadata *_metadata, FIXTURE_DATA(priority) *self,
			   const char *what,
			   double (*measure)(struct __test_metadata *_metadata,
					     FIXTURE_DATA(priority) *self))
{
	const struct event_maker *makers[] = { &event_maker_perf, &event_maker_perfmon };
	bool is_delayed = true;
	double longest[2];
	int i, attempts;

	for (attempts = 0; is_delayed && attempts < ATTEMPTS; attempts++) {
		for (i = 0; i < 2; i++) {
			start_readers(_metadata, self, makers[i]);
			longest[i] = measure(_metadata, self);
			end_children(&self->group);
			ASSERT_EQ(0, wait_until_idle());
			TH_LOG("%s: %s takes %.0f ms at most", makers[i]->name, what,
			       longest[i] * 1e3);
		}
		is_delayed = !is_short(longest[1], longest[0], SYSTEM_FLOOR);
	}
	EXPECT_FALSE(is_delayed);
}

TEST_F(priority, idle_reader_does_not_delay_hotplug)
{
	compare_system(_metadata, self, "switching a CPU off or on", switch_cpu);
}

TEST_F(priority, idle_reader_does_not_delay_sleep)
{
	compare_system(_metadata, self, "going to sleep and waking up", sleep_and_wake_up);
}

/* Stops the real-time program, which must have run all the time. */
static void stop_spinning(struct __test_metadata *_metadata, FIXTURE_DATA(priority) *self)
{
	EXPECT_TRUE(spinner_stop(&self->spinner)) {
		TH_LOG("the calls waited for the real-time program");
	}
}

/* Makes perf use general counters of a CPU, so that they are dirty. */
static void dirty_counters_on(struct __test_metadata *_metadata, int cpu)
{
	struct perf_event_attr attr = event_instructions();
	int i, fd[4];

	attr.disabled = 0;
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	ASSERT_EQ(0, pin_to_cpu(cpu));
	for (i = 0; i < 4; i++) {
		fd[i] = event_maker_perf.open(&attr, -1, cpu, -1, 0);
		ASSERT_LE(0, fd[i]);
	}
	loop(N);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, close(fd[i]));
}

TEST_F(priority, first_calls_do_not_wait_for_a_real_time_program)
{
	struct perf_event_mmap_page *page;
	int fd, device;

	dirty_counters_on(_metadata, self->cpu);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, spinner_start(&self->spinner, self->cpu, 50, SPINNER_TAKES_ALL));

	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	page = mmap(NULL, 2 * sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_TRUE(page->cap_user_rdpmc == 1);
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_loop_count(fd, N));
	EXPECT_EQ(event_count(fd), page_read(page).count);
	ASSERT_EQ(0, munmap(page, 2 * sysconf(_SC_PAGESIZE)));
	ASSERT_EQ(0, close(fd));

	device = device_open(O_RDWR);
	ASSERT_LE(0, device);
	ASSERT_EQ(0, pmc_setup_instructions(device, 0, PMCF_USR));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_loop_count(device, 0, N));
	close(device);

	stop_spinning(_metadata, self);
}

/*
 * Only kernel threads can preempt the real-time program. So the call fails, and the log names the
 * CPU.
 */
TEST_F(priority, log_names_a_cpu_that_is_never_free)
{
	struct kmsg_lines lines;
	char cpu[32];
	int fd, kmsg;

	if (!spinner_can_take_all(self->cpu))
		SKIP(return, "this kernel has no fair_server setting in debugfs");
	kmsg = kmsg_open_end();
	ASSERT_LE(0, kmsg);
	ASSERT_EQ(0, spinner_start(&self->spinner, self->cpu, sched_get_priority_max(SCHED_FIFO),
				   SPINNER_TAKES_ALL));
	EXPECT_EQ(-EBUSY, event_open_instructions(&event_maker_perfmon, 0));
	stop_spinning(_metadata, self);

	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	close(kmsg);
	ASSERT_EQ(1, lines.count);
	snprintf(cpu, sizeof(cpu), "CPU %d,", self->cpu);
	EXPECT_NE(NULL, strstr(lines.line[0], cpu)) {
		TH_LOG("%s", lines.line[0]);
	}

	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_loop_count(fd, N));
	ASSERT_EQ(0, close(fd));
}

TEST_HARNESS_MAIN
