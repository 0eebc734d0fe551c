// SPDX-License-Identifier: GPL-2.0-only
/*
 * On a machine with place-holders, perf's events are open beside the module's: perf schedules its
 * events and the place-holder at each switch between cgroups, and between tasks that have events of
 * perf. Two tasks switch many times, and the counts of user mode are exact.
 *
 * ROUNDS in the environment is the number of context switches. The kernels that lack perf's
 * controller of cgroups have no events of cgroups: Debian's kernel has them.
 */
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "module.h"
#include "options.h"
#include "perfs_cgroups.h"
#include "target.h"

#define TASKS	2
#define ROOT	"/tmp/cgroup"

static const char *const cgroups[TASKS] = { ROOT "/0", ROOT "/1" };

FIXTURE(switches)
{
	int cpu;
	__u64 rounds;
	struct target target[TASKS];
	int fd[TASKS];		/* the module's events */
	int perf[8];		/* perf's events, which wait */
	int perfs;
	bool has_cgroups;
};

FIXTURE_SETUP(switches)
{
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(module_has_place_holder());
	self->rounds = env_number("ROUNDS", 10000);
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	self->has_cgroups = perfs_cgroups_exist();
	if (self->has_cgroups) {
		ASSERT_EQ(0, cgroups_mount(ROOT));
		for (i = 0; i < TASKS; i++)
			mkdir(cgroups[i], 0755);
		ASSERT_EQ(0, perfs_cgroups_control(ROOT, ROOT, '+'));
	}
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(switches)
{
	int i;

	for (i = 0; i < TASKS; i++)
		target_kill(&self->target[i]);
	for (i = 0; i < TASKS; i++)
		close(self->fd[i]);
	while (self->perfs)
		close(self->perf[--self->perfs]);
	if (self->has_cgroups) {
		perfs_cgroups_control(ROOT, ROOT, '-');
		for (i = 0; i < TASKS; i++)
			rmdir(cgroups[i]);
		umount(ROOT);
	}
}

/* Returns the attributes of an enabled event of perf, whose read(2) also returns the times. */
static struct perf_event_attr waiting_attr(bool pinned)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	attr.pinned = pinned;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return attr;
}

/* Keeps the descriptor of an event of perf. */
static void keep(struct __test_metadata *_metadata, FIXTURE_DATA(switches) *self, int fd)
{
	ASSERT_LE(0, fd) {
		TH_LOG("event %d of perf: %s", self->perfs, strerror(-fd));
	}
	self->perf[self->perfs++] = fd;
}

/* Opens perf's events: of the CPU, pinned and flexible, of each task and of each task's cgroup. */
static void open_perfs(struct __test_metadata *_metadata, FIXTURE_DATA(switches) *self)
{
	const struct event_maker *perf = &event_maker_perf;
	struct perf_event_attr pinned = waiting_attr(true), attr = waiting_attr(false);
	int i;

	keep(_metadata, self, perf->open(&pinned, -1, self->cpu, -1, PERF_FLAG_FD_CLOEXEC));
	keep(_metadata, self, perf->open(&attr, -1, self->cpu, -1, PERF_FLAG_FD_CLOEXEC));
	for (i = 0; i < TASKS; i++) {
		const pid_t tid = self->target[i].tid;

		keep(_metadata, self, perf->open(&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC));
		if (self->has_cgroups)
			keep(_metadata, self, event_open_of_cgroup(perf, attr, cgroups[i], self->cpu));
	}
}

/* Expects that an event of perf has not counted, and that read(2) shows this. */
static void expect_waiting(struct __test_metadata *_metadata, int fd)
{
	__u64 words[3] = {};
	const ssize_t size = read(fd, words, sizeof(words));

	/* perf_event_open(2): read(2) returns 0 for a pinned event in error state. */
	EXPECT_TRUE(size == 0 || size == sizeof(words));
	EXPECT_EQ(0ULL, words[0]);
	EXPECT_EQ(0ULL, words[2]);
}

TEST_F_TIMEOUT(switches, counts_beside_all_kinds_of_perfs_events_are_exact, 36000)
{
	/* The count of the long job is predicted from two short ones. */
	const unsigned long rounds[] = { 1000, 2000, self->rounds / TASKS };
	__s64 value[3][TASKS];
	long switches = 0;
	int i, k;

	ASSERT_EQ(0, target_start_ring(self->target, TASKS, self->cpu));
	for (i = 0; i < TASKS; i++) {
		if (self->has_cgroups)
			ASSERT_EQ(0, cgroup_move(cgroups[i], self->target[i].pid));
		self->fd[i] = event_open_instructions(&event_maker_perfmon, self->target[i].tid);
		ASSERT_LE(0, self->fd[i]);
		ASSERT_EQ(0, event_enable(self->fd[i]));
	}
	open_perfs(_metadata, self);
	for (k = 0; k < 3; k++) {
		for (i = 0; i < TASKS; i++)
			value[k][i] = event_count(self->fd[i]);
		for (i = 0; i < TASKS; i++) {
			const struct job job = { 10 + i, rounds[k], STEP_PASS };

			ASSERT_EQ(0, target_start_job(&self->target[i], job));
		}
		for (i = 0; i < TASKS; i++)
			ASSERT_EQ(0, target_wait_job(&self->target[i]));
		for (i = 0; i < TASKS; i++)
			value[k][i] = event_count(self->fd[i]) - value[k][i];
	}
	for (i = 0; i < TASKS; i++) {
		/* v(rounds) = a + b * rounds */
		const __s64 per_thousand = value[1][i] - value[0][i];

		EXPECT_EQ(0, per_thousand % 1000);
		EXPECT_EQ(value[0][i] + per_thousand / 1000 * (__s64)(rounds[2] - 1000), value[2][i]);
		EXPECT_LE((__s64)(LOOP_INSNS * (10 + i) * rounds[2]), value[2][i]);
		switches += target_switches(&self->target[i]);
	}
	TH_LOG("%ld switches beside %d events of perf", switches, self->perfs);
	EXPECT_LE(self->rounds, (__u64)switches);
	for (i = 0; i < self->perfs; i++)
		expect_waiting(_metadata, self->perf[i]);
}

TEST_HARNESS_MAIN
