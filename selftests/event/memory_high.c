// SPDX-License-Identifier: GPL-2.0-only
/*
 * A cgroup above its memory.high: each of its allocations may sleep for up to two seconds. Its
 * programs open and close events, whose memory is charged to the cgroup. If they slept while they
 * hold a lock of the module, other programs would have to wait for the lock.
 *
 * The longest calls of a program outside of the cgroup are compared with those of perf in the same
 * boot, since they depend on the host. The kernel has CONFIG_MEMCG.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "clock.h"
#include "device.h"
#include "event.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "options.h"
#include "perf.h"
#include "samples.h"

#define ROOT	"/tmp/cgroup"
#define FULL	ROOT "/full"
#define OTHER	ROOT "/other"

#define HIGH	"4194304\n"
#define FILLED	(16UL << 20)	/* bytes */
#define THREADS	4
#define EVENTS	3		/* events that each thread has open at a time */

/* Seconds of each measurement. */
#define SECONDS	env_number("SECONDS", 8)

/*
 * A call may take FACTOR times as long as perf's longest call. A call of less than FLOOR seconds, a
 * quarter of the time that an allocation sleeps, always passes, since a busy host may stop one of
 * the two programs. There are several attempts for the same reason: a lock would delay others in
 * each attempt.
 */
#define FACTOR		3
#define FLOOR		0.5
#define ATTEMPTS	10

/* A period so long that it does not end while an event is open. */
#define SAMPLED	1000000007UL

/* The longest calls of a program, in seconds. */
struct longest_calls {
	double open, close;
};

FIXTURE(memory)
{
	struct longest_calls *own;	/* longest calls of the programs in the cgroup, which share this memory */
	pid_t attacker;
};

FIXTURE_SETUP(memory)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, perf_lift_limits());
	self->attacker = 0;
	self->own = map_shared(_metadata, sizeof(*self->own));
	ASSERT_EQ(0, cgroups_mount(ROOT));
	ASSERT_EQ(0, write_file(ROOT "/cgroup.subtree_control", "+memory"));
	rmdir(FULL);
	rmdir(OTHER);
	ASSERT_EQ(0, mkdir(FULL, 0755));
	ASSERT_EQ(0, mkdir(OTHER, 0755));
	ASSERT_EQ(0, write_file(FULL "/memory.high", HIGH));
	ASSERT_EQ(0, wait_until_idle());
}

static void end_attacker(pid_t *attacker)
{
	if (!*attacker)
		return;
	kill(*attacker, SIGKILL);
	waitpid(*attacker, NULL, 0);
	*attacker = 0;
}

FIXTURE_TEARDOWN(memory)
{
	end_attacker(&self->attacker);
	rmdir(FULL);
	rmdir(OTHER);
	umount(ROOT);
}

/* Opens and closes EVENTS events. Returns 0 or a negative errno. */
static int open_and_close(const struct event_maker *maker, struct longest_calls *longest)
{
	struct perf_event_attr attr = event_every(SAMPLED);
	int fd[EVENTS], opened, err = 0;
	double t = clock_seconds();

	for (opened = 0; opened < EVENTS; opened++) {
		attr.inherit = opened == 0;
		fd[opened] = maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		clock_note_longest(&longest->open, &t);
		if (fd[opened] < 0) {
			err = fd[opened];
			break;
		}
	}
	while (opened--) {
		close(fd[opened]);
		clock_note_longest(&longest->close, &t);
	}
	return err;
}

/* The attacker's maker and results. */
static const struct event_maker *attackers_maker;
static struct longest_calls *attackers_calls;

static void *attack(void *unused)
{
	(void)unused;
	/* Failures are ignored: an event may be refused while other threads have the counters. */
	for (;;)
		open_and_close(attackers_maker, attackers_calls);
	return NULL;
}

/* Starts a program in the cgroup FULL that fills its memory, and opens and closes events. */
static void start_attacker(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			   const struct event_maker *maker)
{
	pthread_t thread;
	int ready[2], i;
	char *memory, byte;

	*self->own = (struct longest_calls) { 0 };
	ASSERT_EQ(0, pipe(ready));
	self->attacker = fork();
	ASSERT_LE(0, self->attacker);
	if (!self->attacker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attackers_maker = maker;
		attackers_calls = self->own;
		memory = malloc(FILLED);
		if (!memory || write_file(FULL "/cgroup.procs", "0"))
			_exit(1);
		for (i = 0; i < THREADS; i++)
			if (pthread_create(&thread, NULL, attack, NULL))
				_exit(1);
		memset(memory, 1, FILLED);
		/* Keeps the compiler from leaving out memory that is never read. */
		__asm__ volatile("" : : "r" (memory) : "memory");
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	close(ready[0]);
}

/* Returns how often the cgroup FULL was above its memory.high. */
static long long times_above_high(void)
{
	long long times = -1;
	char line[64];
	FILE *f = fopen(FULL "/memory.events", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "high %lld", &times);
	if (f)
		fclose(f);
	return times;
}

/* Opens and closes events, one of them of a cgroup, for SECONDS. */
static struct longest_calls measure_calls(struct __test_metadata *_metadata,
					  const struct event_maker *maker)
{
	struct perf_event_attr attr = event_instructions();
	double t, end = clock_seconds() + SECONDS;
	struct longest_calls longest = { 0 };
	int fd;

	do {
		ASSERT_EQ(0, open_and_close(maker, &longest));
		t = clock_seconds();
		fd = event_open_of_cgroup(maker, attr, OTHER, 0);
		clock_note_longest(&longest.open, &t);
		/* A kernel may have no cgroups in perf. */
		if (maker == &event_maker_perfmon)
			ASSERT_LE(0, fd);
		if (fd >= 0)
			close(fd);
		clock_note_longest(&longest.close, &t);
		usleep(1000);
	} while (clock_seconds() < end);
	return longest;
}

static bool is_short(double time, double perf_time)
{
	return time <= FACTOR * perf_time + FLOOR;
}

TEST_F(memory, cgroup_above_its_limit_does_not_delay_others)
{
	const struct event_maker *makers[] = { &event_maker_perf, &event_maker_perfmon };
	struct longest_calls longest[2];
	bool is_delayed = true, has_slept = false;
	long long before, times;
	int i, attempts;

	for (attempts = 0; (is_delayed || !has_slept) && attempts < ATTEMPTS; attempts++) {
		for (i = 0; i < 2; i++) {
			before = times_above_high();
			start_attacker(_metadata, self, makers[i]);
			longest[i] = measure_calls(_metadata, makers[i]);
			times = times_above_high() - before;
			ASSERT_EQ(0, waitpid(self->attacker, NULL, WNOHANG));
			end_attacker(&self->attacker);
			ASSERT_EQ(0, wait_until_idle());
			TH_LOG("%s: open %.0f ms, close %.0f ms at most; in the cgroup, %.0f ms",
			       makers[i]->name, longest[i].open * 1e3, longest[i].close * 1e3,
			       self->own->open * 1e3);
			TH_LOG("%lld times above memory.high", times);
			EXPECT_LT(0, times);
		}
		/*
		 * The memory of the module's events is charged to the cgroup, so opening them
		 * waits.
		 */
		has_slept = self->own->open > FLOOR;
		is_delayed = !is_short(longest[1].open, longest[0].open) ||
			     !is_short(longest[1].close, longest[0].close);
	}
	EXPECT_TRUE(has_slept);
	EXPECT_FALSE(is_delayed);
}

TEST_HARNESS_MAIN
