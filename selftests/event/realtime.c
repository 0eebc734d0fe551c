// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs that go offline and come online beside a real-time program that never sleeps. The module
 * must not make hotplug wait for the program. The program runs
 * - on another CPU, where it leaves no time to other tasks;
 * - on the CPU that goes offline, where it leaves as much time as the kernel needs to take the CPU
 *   offline.
 *
 * Needs three CPUs.
 */
#include <sched.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "samples.h"
#include "spinner.h"

#define PRIORITY	50
#define ROUNDS		3
#define N		100000UL

/* A period so long that it does not end while an event is open. */
#define SAMPLED	1000000007UL

/*
 * The limit for the longest time with events of the module: FACTOR times the longest time with
 * events of perf, and FLOOR seconds. The host is busy, and the kernel itself needs turns on the
 * CPUs.
 */
#define FACTOR		3
#define FLOOR		2.0
#define ATTEMPTS	10

/* The events: of this task, inherited; and of each CPU, sampled. */
#define EVENTS	4

FIXTURE(realtime)
{
	struct spinner spinner;
	int home, cpu;		/* a CPU that stays online, and one that goes offline */
	int online;		/* the file "online" of @cpu */
	int third;		/* another CPU */
	int event[EVENTS];
};

FIXTURE_VARIANT(realtime)
{
	bool on_that_cpu;	/* the program is on the CPU that goes offline */
	enum spinner_limits limits;
};

FIXTURE_VARIANT_ADD(realtime, on_another_cpu) { false, SPINNER_TAKES_ALL };
FIXTURE_VARIANT_ADD(realtime, on_that_cpu) { true, SPINNER_LEAVES_A_SHARE };

FIXTURE_SETUP(realtime)
{
	cpu_set_t cpus;
	int i;

	SKIP_WITHOUT_PMU();
	for (i = 0; i < EVENTS; i++)
		self->event[i] = -1;
	ASSERT_EQ(0, cpus_online(&cpus));
	FIND_CPU_TO_SWITCH(self);
	CPU_CLR(self->home, &cpus);
	CPU_CLR(self->cpu, &cpus);
	self->third = cpu_next(&cpus, -1);
	if (self->third < 0)
		SKIP(return, "there are two CPUs");
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(realtime)
{
	int i;

	if (self->spinner.pid)
		spinner_stop(&self->spinner);
	for (i = 0; i < EVENTS; i++)
		close(self->event[i]);
	/* If the CPU is online, as it should be, this call fails with EINVAL. */
	cpu_set_online(self->online, "1");
	close(self->online);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
}

/* Opens the events, enabled. */
static void open_events(struct __test_metadata *_metadata, FIXTURE_DATA(realtime) *self,
			const struct event_maker *maker)
{
	const int cpus[] = { self->home, self->cpu, self->third };
	struct perf_event_attr attr = event_instructions();
	int i;

	attr.disabled = 0;
	attr.inherit = 1;
	self->event[0] = maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->event[0]);
	for (i = 0; i < 3; i++) {
		attr = event_every(SAMPLED);
		attr.disabled = 0;
		self->event[1 + i] = maker->open(&attr, -1, cpus[i], -1, 0);
		ASSERT_LE(0, self->event[1 + i]);
	}
}

/* Returns the longest time to take the CPU offline or online, with the events of a maker. */
static double longest_cpu_switch(struct __test_metadata *_metadata, FIXTURE_DATA(realtime) *self,
				 const FIXTURE_VARIANT(realtime) *variant,
				 const struct event_maker *maker)
{
	const int spins_on = variant->on_that_cpu ? self->cpu : self->third;
	double before, longest = 0;
	cpu_set_t there;
	int i, j;

	CPU_ZERO(&there);
	CPU_SET(spins_on, &there);
	open_events(_metadata, self, maker);
	ASSERT_EQ(0, spinner_start(&self->spinner, spins_on, PRIORITY, variant->limits));
	/* When the CPU goes offline, the program moves to this CPU. */
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO,
					&(struct sched_param){ .sched_priority = PRIORITY + 1 }));
	for (i = 0; i < ROUNDS; i++) {
		for (j = 0; j < 2; j++) {
			before = clock_seconds();
			ASSERT_EQ(0, cpu_set_online(self->online, j ? "1" : "0"));
			if (clock_seconds() - before > longest)
				longest = clock_seconds() - before;
		}
		ASSERT_EQ(0, sched_setaffinity(self->spinner.pid, sizeof(there), &there));
	}
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_loop_count_running(self->event[0], N));
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }));
	EXPECT_TRUE(spinner_stop(&self->spinner)) {
		TH_LOG("%s: hotplug waited for the real-time program", maker->name);
	}
	for (i = 0; i < EVENTS; i++) {
		close(self->event[i]);
		self->event[i] = -1;
	}
	TH_LOG("%s: a CPU goes offline or online in %.0f ms at most", maker->name, longest * 1e3);
	return longest;
}

TEST_F_TIMEOUT(realtime, hotplug_does_not_wait_for_the_program, 600)
{
	const struct event_maker *makers[] = { &event_maker_perf, &event_maker_perfmon };
	bool is_delayed = true;
	double longest[2];
	int i, attempts;

	for (attempts = 0; is_delayed && attempts < ATTEMPTS; attempts++) {
		for (i = 0; i < 2; i++) {
			longest[i] = longest_cpu_switch(_metadata, self, variant, makers[i]);
			ASSERT_EQ(0, wait_until_idle());
		}
		is_delayed = longest[1] > FACTOR * longest[0] + FLOOR;
	}
	EXPECT_FALSE(is_delayed);
}

TEST_HARNESS_MAIN
