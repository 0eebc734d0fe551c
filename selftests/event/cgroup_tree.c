// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random trees of cgroups, in which a random tree of tasks runs: tasks fork, move, exit and are
 * killed. All cgroups are counted, and are removed before the counts are read. The counts are known
 * in advance.
 *
 * ROUNDS and SEED in the environment set the number of trees and the random numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "tree.h"

#define ROOT		"/tmp/cgroup"
#define ATTACKER	ROOT "/attacker"
#define MAX_CGROUPS	8
#define MAX_CPUS	8

/* A cgroup: a node of the tree. Children have higher numbers than their parent. */
struct node {
	int parent;		/* index of the parent, or -1 */
	char path[128];
	int procs;		/* descriptor of its file cgroup.procs */
	int fds[MAX_CPUS];	/* its events: one for all CPUs, or one for each */
	int events;
	__u64 expected;		/* instructions by which the loops in it and in its children exceed the shortest ones */
	__s64 least;		/* the count with the shortest loops */
};

FIXTURE(cgroup_tree)
{
	cpu_set_t cpus;
	struct rng random;
	struct node node[MAX_CGROUPS];
	int count;
	pid_t other;		/* PID of the process that disturbs */
	int online;		/* the file of the CPU that goes offline, or -1 */
};

FIXTURE_VARIANT(cgroup_tree)
{
	const char *parameters;	/* module parameters, or NULL */
	void (*disturb)(int online);	/* the function of the process that disturbs, or NULL */
	bool takes_cpus_offline;
};

static int open_event(const char *path, int cpu)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	return event_open_of_cgroup(&event_maker_perfmon, attr, path, cpu);
}

/*
 * Ends this process, which disturbs the test, if a call has failed. The test checks that the
 * process still runs.
 */
static void must_not_fail(int err)
{
	if (err < 0 && err != -EBUSY)
		_exit(1);
}

static void take_cpu_offline_and_back(int online)
{
	for (;;) {
		must_not_fail(cpu_set_online(online, "0"));
		usleep(10000);
		must_not_fail(cpu_set_online(online, "1"));
		/*
		 * Pauses, because moves and forks wait while a CPU goes offline or online.
		 */
		usleep(500000);
	}
}

/* Makes, enters, counts, leaves and removes cgroups. */
static void make_and_remove_cgroups(int online)
{
	int event;

	(void)online;
	for (;;) {
		must_not_fail(mkdir(ATTACKER, 0755) ? -errno : 0);
		must_not_fail(mkdir(ATTACKER "/in", 0755) ? -errno : 0);
		event = open_event(ATTACKER "/in", -1);
		must_not_fail(event);
		must_not_fail(write_file(ATTACKER "/in/cgroup.procs", "0"));
		loop(1000);
		must_not_fail(write_file(ROOT "/cgroup.procs", "0"));
		must_not_fail(rmdir(ATTACKER "/in") ? -errno : 0);
		must_not_fail(rmdir(ATTACKER) ? -errno : 0);
		close(event);
		/* Pauses, because the tree's moves need the same locks. */
		usleep(20000);
	}
}

/* Opens a thousand events of two cgroups, and moves from one cgroup to the other. */
static void move_between_cgroups_with_events(int online)
{
	enum { EVENTS = 500, MOVES = 50 };
	const struct rlimit files = { 2 * EVENTS + 100, 2 * EVENTS + 100 };
	static int fd[2][EVENTS];
	int i;

	(void)online;
	if (setrlimit(RLIMIT_NOFILE, &files))
		return;
	for (;;) {
		mkdir(ATTACKER, 0755);
		mkdir(ATTACKER "/in", 0755);
		for (i = 0; i < EVENTS; i++) {
			fd[0][i] = open_event(ATTACKER, -1);
			fd[1][i] = open_event(ATTACKER "/in", -1);
		}
		for (i = 0; i < MOVES; i++) {
			write_file(ATTACKER "/in/cgroup.procs", "0");
			loop(1000);
			write_file(ATTACKER "/cgroup.procs", "0");
			loop(1000);
		}
		write_file(ROOT "/cgroup.procs", "0");
		for (i = 0; i < EVENTS; i++) {
			close(fd[0][i]);
			close(fd[1][i]);
		}
		rmdir(ATTACKER "/in");
		rmdir(ATTACKER);
		/* Pauses, because the tree's moves need the same locks. */
		usleep(20000);
	}
}

FIXTURE_VARIANT_ADD(cgroup_tree, alone) { NULL, NULL, false };
FIXTURE_VARIANT_ADD(cgroup_tree, overflows) { "period_bits=16", NULL, false };
FIXTURE_VARIANT_ADD(cgroup_tree, hotplug) { NULL, take_cpu_offline_and_back, true };
FIXTURE_VARIANT_ADD(cgroup_tree, attacker) { NULL, make_and_remove_cgroups, false };
FIXTURE_VARIANT_ADD(cgroup_tree, mover) { NULL, move_between_cgroups_with_events, false };

/* Removes the tree's cgroups, the inner ones first. */
static void remove_cgroups(FIXTURE_DATA(cgroup_tree) *self)
{
	int i;

	for (i = self->count; i--;)
		rmdir(self->node[i].path);
}

static void close_all(FIXTURE_DATA(cgroup_tree) *self)
{
	int i, k;

	for (i = 0; i < self->count; i++) {
		close(self->node[i].procs);
		for (k = 0; k < self->node[i].events; k++)
			close(self->node[i].fds[k]);
	}
	self->count = 0;
}

FIXTURE_SETUP(cgroup_tree)
{
	int home, cpu;

	SKIP_WITHOUT_PMU();
	self->online = -1;
	if (variant->parameters)
		ASSERT_EQ(0, module_reload(variant->parameters));
	ASSERT_EQ(0, wait_until_idle());
	self->random = rng_seed(env_number("SEED", 1));
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, cgroups_mount(ROOT));
	/* On a machine with a single CPU, no CPU can go offline. */
	if (variant->takes_cpus_offline && cpu_find_hotpluggable(&home, &cpu, &self->online))
		return;
	if (variant->disturb) {
		self->other = fork();
		ASSERT_LE(0, self->other);
		if (!self->other) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			variant->disturb(self->online);
		}
	}
}

FIXTURE_TEARDOWN(cgroup_tree)
{
	if (self->other > 0) {
		EXPECT_EQ(0, waitpid(self->other, NULL, WNOHANG)) {
			TH_LOG("the process that disturbs has ended");
		}
		kill(self->other, SIGKILL);
		waitpid(self->other, NULL, 0);
	}
	if (self->online >= 0) {
		cpu_set_online(self->online, "1");
		close(self->online);
	}
	remove_cgroups(self);
	close_all(self);
	rmdir(ATTACKER "/in");
	rmdir(ATTACKER);
	umount(ROOT);
	if (variant->parameters && module_reload(""))
		TH_LOG("the module can't be loaded again");
}

/* Makes a tree, and opens the events of each of its cgroups. */
static void make_tree(struct __test_metadata *_metadata, FIXTURE_DATA(cgroup_tree) *self)
{
	const int count = 1 + rng_below(&self->random, MAX_CGROUPS);
	char path[160];
	struct node *n;
	int i, cpu;

	for (i = 0; i < count; i++) {
		n = &self->node[i];
		*n = (struct node) { .parent = i ? (int)rng_below(&self->random, i + 1) - 1 : -1 };
		snprintf(n->path, sizeof(n->path), "%s/%d",
			 n->parent < 0 ? ROOT : self->node[n->parent].path, i);
		ASSERT_EQ(0, mkdir(n->path, 0755));
		self->count++;
		snprintf(path, sizeof(path), "%s/cgroup.procs", n->path);
		n->procs = open(path, O_WRONLY | O_CLOEXEC);
		ASSERT_LE(0, n->procs);
		/* An event of an offline CPU can't be opened. */
		if (rng_once_in(&self->random, 2) || cpu_ids() > MAX_CPUS || self->online >= 0) {
			n->fds[n->events++] = open_event(n->path, -1);
		} else {
			for_each_cpu_in(cpu, &self->cpus)
				n->fds[n->events++] = open_event(n->path, cpu);
		}
		for (cpu = 0; cpu < n->events; cpu++)
			ASSERT_LE(0, n->fds[cpu]);
	}
}

/*
 * Makes the tree of tasks, and sets the counts that are expected of the cgroups. Returns the number
 * of instructions by which all loops exceed the shortest ones.
 */
static __u64 make_tasks(FIXTURE_DATA(cgroup_tree) *self)
{
	__u64 all = tree_make(&self->random, &self->cpus), own[MAX_CGROUPS];
	int procs[MAX_CGROUPS], i, outer;

	for (i = 0; i < self->count; i++)
		procs[i] = self->node[i].procs;
	tree_use_cgroups(&self->random, procs, self->count, own);
	for (i = 0; i < self->count; i++)
		for (outer = i; outer >= 0; outer = self->node[outer].parent)
			self->node[outer].expected += own[i];
	return all;
}

static __s64 count_of(const struct node *n)
{
	__s64 sum = 0;
	int i;

	for (i = 0; i < n->events; i++)
		sum += event_count(n->fds[i]);
	return sum;
}

TEST_F_TIMEOUT(cgroup_tree, counts_of_random_trees_are_exact, 36000)
{
	/* If another process disturbs the tree, the tree takes seconds. */
	const __u64 rounds = env_number("ROUNDS", variant->disturb ? 4 : 15);
	__u64 round, all, tasks = 0, cgroups = 0;
	__s64 least, sum;
	int i;

	for (round = 0; round < rounds && !_metadata->exit_code; round++) {
		make_tree(_metadata, self);
		all = make_tasks(self);
		tasks += tree_tasks();
		cgroups += self->count;
		least = tree_run_and_count(&event_maker_perfmon, true);
		ASSERT_LE(0, least);
		for (i = 0; i < self->count; i++)
			self->node[i].least = count_of(&self->node[i]);
		sum = tree_run_and_count(&event_maker_perfmon, false);
		EXPECT_EQ(least + (__s64)all, sum);
		remove_cgroups(self);
		for (i = 0; i < self->count; i++)
			EXPECT_EQ(2 * self->node[i].least + (__s64)self->node[i].expected,
				  count_of(&self->node[i])) {
				TH_LOG("tree %llu, cgroup %s of %d", round, self->node[i].path,
				       self->count);
			}
		close_all(self);
	}
	TH_LOG("%llu trees, %llu cgroups, %llu tasks", round, cgroups, tasks);
}

TEST_HARNESS_MAIN
