// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that are opened, read and closed at random moments: while their tasks switch, fork, exec
 * and are killed, while CPUs go offline and come back, while the system sleeps. In the end all
 * counters and memory are free, and a count is exact.
 *
 * SECONDS and SEED in the environment set the length and the random numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "file.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "target.h"

#define VICTIMS		6	/* tasks that events are attached to */
#define ATTACHERS	3	/* processes that open events */
#define EVENTS		8	/* the most events of each attacher */
#define POWER		"/sys/power/"

/* Shared by all processes. */
struct shared_results {
	pid_t victim[VICTIMS];
	bool stop;
	unsigned long opened, refused, read, closed;
	int wrong;		/* an errno that the call must not have */
	const char *call;	/* name of that call */
	__s64 negative;		/* a negative count that was read */
};

FIXTURE(event_stress)
{
	struct leak_check leaks;
	struct shared_results *shared;
	pid_t attacher[ATTACHERS];
	struct rng random;
	__u64 seconds;
	cpu_set_t cpus;
};

FIXTURE_SETUP(event_stress)
{
	SKIP_WITHOUT_PMU();
	self->random = rng_seed(env_number("SEED", 1));
	self->seconds = env_number("SECONDS", 6);
	self->shared = map_shared(_metadata, sizeof(*self->shared));
	ASSERT_EQ(0, cpus_online(&self->cpus));
}

/* Forks, executes programs, moves and switches, all of which the module follows, until killed. */
static void run_victim(struct rng r, const cpu_set_t *cpus)
{
	int cpu;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	/* Leaves most of the CPU's time to the attachers. */
	nice(10);
	for (;;) {
		loop(1 + rng_below(&r, 20000));
		switch (rng_below(&r, 8)) {
		case 0:
			if (!fork()) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				loop(1 + rng_below(&r, 20000));
				_exit(0);
			}
			break;
		case 1:
			if (!vfork()) {
				execlp("pmctl_loop", "pmctl_loop", "1000", NULL);
				_exit(0);
			}
			break;
		case 2:
			for_each_cpu_in(cpu, cpus)
				if (rng_once_in(&r, 2))
					pin_to_cpu(cpu);
			break;
		case 3:
			usleep(rng_below(&r, 500));
			break;
		default:
			sched_yield();
		}
	}
}

/* Notes an errno, unless it is one of @reasons. */
static bool note_if_wrong(struct shared_results *s, const char *call, int err, const int *reasons)
{
	for (; *reasons; reasons++)
		if (err == -*reasons)
			return false;
	if (!__atomic_exchange_n(&s->wrong, -err, __ATOMIC_RELAXED))
		s->call = call;
	return true;
}

/* The group's leader may be of another task, or of an exited task. */
static const int open_reasons[] = { EBUSY, ESRCH, EINVAL, ENODEV, 0 };
static const int read_reasons[] = { 0 };

static int open_random(struct rng *r, struct shared_results *s, const cpu_set_t *cpus, int group)
{
	struct perf_event_attr attr = event_instructions();
	int cpu = rng_once_in(r, 4) ? cpu_next(cpus, -1) : -1;
	pid_t pid = rng_once_in(r, 8) ? -1 : s->victim[rng_below(r, VICTIMS)];

	attr.disabled = rng_once_in(r, 2);
	attr.inherit = rng_once_in(r, 2);
	attr.exclude_kernel = rng_once_in(r, 2);
	attr.config = rng_once_in(r, 3) ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS :
					  PERF_COUNT_HW_INSTRUCTIONS;
	attr.read_format = rng_once_in(r, 2) ? PERF_FORMAT_GROUP : 0;
	if (pid < 0)
		cpu = cpu_next(cpus, -1);
	return event_maker_perfmon.open(&attr, pid, cpu, rng_once_in(r, 3) ? group : -1,
					PERF_FLAG_FD_CLOEXEC);
}

static void use_random_event(struct rng *r, struct shared_results *s, int fd)
{
	__s64 value;
	int err = 0;
	void *page;

	switch (rng_below(r, 6)) {
	case 0:
		err = event_enable(fd);
		break;
	case 1:
		err = event_disable(fd);
		break;
	case 2:
		err = event_ioctl(fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
		break;
	case 3:
		err = event_reset(fd);
		break;
	case 5:
		page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);
		if (page != MAP_FAILED)
			munmap(page, getpagesize());
		break;
	default:
		value = event_count(fd);
		s->read++;
		if (value < -4095)
			s->negative = value;
		else
			err = value < 0 ? value : 0;
	}
	if (err)
		note_if_wrong(s, "a call of an event", err, read_reasons);
}

static void run_attacher(struct rng r, struct shared_results *s, const cpu_set_t *cpus)
{
	int fd[EVENTS], count = 0, i, new;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		if (count < EVENTS && rng_once_in(&r, 3)) {
			new = open_random(&r, s, cpus, count ? fd[0] : -1);
			if (new >= 0) {
				fd[count++] = new;
				s->opened++;
			} else {
				note_if_wrong(s, "PERFMON_EVENT_OPEN", new, open_reasons);
				s->refused++;
			}
		} else if (count && rng_once_in(&r, 4)) {
			i = rng_below(&r, count);
			close(fd[i]);
			fd[i] = fd[--count];
			s->closed++;
		} else if (count) {
			use_random_event(&r, s, fd[rng_below(&r, count)]);
		}
	}
	/* exit(2) closes the other events. */
	_exit(0);
}

static pid_t start_victim(FIXTURE_DATA(event_stress) *self)
{
	struct rng r = rng_seed(rng_below(&self->random, 1 << 20));
	pid_t pid = fork();

	if (!pid)
		run_victim(r, &self->cpus);
	return pid;
}

static void start_tasks(FIXTURE_DATA(event_stress) *self)
{
	struct rng r;
	int i;

	for (i = 0; i < VICTIMS; i++)
		self->shared->victim[i] = start_victim(self);
	for (i = 0; i < ATTACHERS; i++) {
		r = rng_seed(rng_below(&self->random, 1 << 20));
		self->attacher[i] = fork();
		if (!self->attacher[i])
			run_attacher(r, self->shared, &self->cpus);
	}
}

/* Kills a victim, and starts another victim in its place. */
static void replace_victim(FIXTURE_DATA(event_stress) *self)
{
	int i = rng_below(&self->random, VICTIMS);

	kill(self->shared->victim[i], SIGKILL);
	waitpid(self->shared->victim[i], NULL, 0);
	self->shared->victim[i] = start_victim(self);
}

static void kill_all(FIXTURE_DATA(event_stress) *self)
{
	int i;

	__atomic_store_n(&self->shared->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < ATTACHERS; i++) {
		if (self->attacher[i] <= 0)
			continue;
		/* Kills an attacher, perhaps in the middle of a call. */
		if (!i)
			kill(self->attacher[i], SIGKILL);
		waitpid(self->attacher[i], NULL, 0);
		self->attacher[i] = 0;
	}
	for (i = 0; i < VICTIMS; i++) {
		if (self->shared->victim[i] <= 0)
			continue;
		kill(self->shared->victim[i], SIGKILL);
		waitpid(self->shared->victim[i], NULL, 0);
		self->shared->victim[i] = 0;
	}
}

/*
 * The number of events that are opened before the leak check, and the seconds in which even a busy
 * host opens so many.
 */
#define FIRST_EVENTS	100
#define MAX_FIRST_SECONDS	60

/* Starts the tasks before the leak check begins, because slabs grow with the first events. */
static void start_tasks_and_leak_check(struct __test_metadata *_metadata, FIXTURE_DATA(event_stress) *self)
{
	int i = 0;

	start_tasks(self);
	do {
		sleep(1);
	} while (__atomic_load_n(&self->shared->opened, __ATOMIC_RELAXED) < FIRST_EVENTS &&
		 ++i < MAX_FIRST_SECONDS);
	kill_all(self);
	memset(self->shared, 0, sizeof(*self->shared));
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	start_tasks(self);
}

FIXTURE_TEARDOWN(event_stress)
{
	kill_all(self);
}

/* Expects that all counters are free, for a task and for each CPU. */
static void expect_free(struct __test_metadata *_metadata, FIXTURE_DATA(event_stress) *self)
{
	const int general = self->leaks.properties.max_num_programmable_events;
	struct perf_event_attr attr = event_instructions();
	int fd[NPMC], cpu, i;

	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	for_each_cpu_in(cpu, &self->cpus) {
		for (i = 0; i < general; i++) {
			fd[i] = event_maker_perfmon.open(&attr, -1, cpu, -1, 0);
			EXPECT_LE(0, fd[i]) {
				TH_LOG("event %d of CPU %d: %s", i, cpu, strerror(-fd[i]));
			}
		}
		while (i--)
			close(fd[i]);
	}
}

static void expect_as_before(struct __test_metadata *_metadata,
			     FIXTURE_DATA(event_stress) *self)
{
	const struct shared_results *s = self->shared;
	__s64 least;
	int fd;

	kill_all(self);
	ASSERT_EQ(0, wait_until_idle());
	TH_LOG("%lu events, %lu refused, %lu reads, %lu closed", s->opened, s->refused,
	       s->read, s->closed);
	EXPECT_EQ(0, s->wrong) {
		TH_LOG("%s: %s", s->call, strerror(s->wrong));
	}
	EXPECT_EQ(0, s->negative);
	EXPECT_LT(0UL, s->opened);
	EXPECT_LT(0UL, s->read);
	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	least = event_loop_count(fd, 1);
	EXPECT_EQ(least + LOOP_INSNS * 99999, event_loop_count(fd, 100000));
	close(fd);
	expect_free(_metadata, self);
	expect_no_leaks(_metadata, &self->leaks);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

/* The maximum time beyond SECONDS until events were opened and read, since the host may be busy. */
#define MAX_EXTRA_SECONDS	300

/* Returns whether the test goes on. @end is the time at which SECONDS are over. */
static bool is_time_left(const FIXTURE_DATA(event_stress) *self, time_t end)
{
	const struct shared_results *s = self->shared;

	if (now() < end)
		return true;
	return now() < end + MAX_EXTRA_SECONDS &&
	       (!__atomic_load_n(&s->opened, __ATOMIC_RELAXED) ||
		!__atomic_load_n(&s->read, __ATOMIC_RELAXED));
}

TEST_F_TIMEOUT(event_stress, attach_and_detach_against_switches_and_kills, 36000)
{
	time_t end;

	start_tasks_and_leak_check(_metadata, self);
	end = now() + self->seconds;
	while (is_time_left(self, end)) {
		usleep(rng_below(&self->random, 20000));
		replace_victim(self);
	}
	expect_as_before(_metadata, self);
}

TEST_F_TIMEOUT(event_stress, attach_and_detach_against_hotplug, 36000)
{
	int online[CPU_SETSIZE], home = cpu_next(&self->cpus, -1), cpu;
	time_t end;

	/*
	 * On AMD the kernel resets perf's registers when a CPU goes offline, so each CPU goes
	 * offline once before the check.
	 */
	for_each_cpu_in(cpu, &self->cpus) {
		online[cpu] = cpu == home ? -1 : cpu_open_online(cpu);
		if (online[cpu] >= 0) {
			ASSERT_EQ(0, cpu_set_online(online[cpu], "0"));
			ASSERT_EQ(0, cpu_set_online(online[cpu], "1"));
		}
	}
	start_tasks_and_leak_check(_metadata, self);
	end = now() + self->seconds;
	while (is_time_left(self, end)) {
		for_each_cpu_in(cpu, &self->cpus) {
			if (online[cpu] < 0)
				continue;
			ASSERT_EQ(0, cpu_set_online(online[cpu], "0"));
			usleep(rng_below(&self->random, 5000));
			ASSERT_EQ(0, cpu_set_online(online[cpu], "1"));
		}
		replace_victim(self);
	}
	expect_as_before(_metadata, self);
}

/* Sleeps to the level "core": all CPUs but one are offline, and the registers are lost. */
TEST_F_TIMEOUT(event_stress, attach_and_detach_against_sleep, 36000)
{
	time_t end;
	int i;

	if (access(POWER "pm_test", F_OK))
		return;		/* a system that can't sleep */
	ASSERT_EQ(0, write_file("/sys/module/suspend/parameters/pm_test_delay", "0"));
	ASSERT_EQ(0, write_file(POWER "pm_test", "core"));
	/* The kernel changes registers on sleep, so sleep once before the test reads them. */
	ASSERT_EQ(0, write_file(POWER "state", "mem"));
	start_tasks_and_leak_check(_metadata, self);
	for (i = 0; i < (int)self->seconds / 2; i++) {
		EXPECT_EQ(0, write_file(POWER "state", "mem"));
		usleep(rng_below(&self->random, 50000));
		replace_victim(self);
	}
	end = now();
	while (is_time_left(self, end))
		usleep(1000);
	ASSERT_EQ(0, write_file(POWER "pm_test", "none"));
	expect_as_before(_metadata, self);
}

TEST_HARNESS_MAIN
