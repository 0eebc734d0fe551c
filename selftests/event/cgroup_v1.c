// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of cgroups of version 1, in the hierarchy of perf's controller, alone and together with
 * events of cgroups of version 2. A kernel without the controller has no such hierarchy: there the
 * tests expect that cgroups of version 1 are refused.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "perfs_cgroups.h"
#include "samples.h"
#include "target.h"

#define N	100000UL
#define PERIOD	10007UL
#define V1	"/tmp/cgroup1"
#define V1_A	V1 "/a"
#define V1_A_INNER	V1 "/a/in"
#define V1_B	V1 "/b"
#define V2	"/tmp/cgroup"
#define V2_A	V2 "/a"
#define V2_B	V2 "/b"
#define TARGETS	2

FIXTURE(cgroup_v1)
{
	struct target target[TARGETS];
	struct sampler sampler;
	cpu_set_t cpus;		/* the CPUs that are online */
	int cpu;		/* the first online CPU */
};

static const char *const made_cgroups[] = { V1_A_INNER, V1_A, V1_B, V2_A, V2_B };

static void move_to(struct __test_metadata *_metadata, const char *cgroup, pid_t pid)
{
	ASSERT_EQ(0, cgroup_move(cgroup, pid));
}

static void end_cgroups(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(made_cgroups); i++)
		rmdir(made_cgroups[i]);
	perfs_cgroups_end_version_1(V1);
	umount(V2);
}

FIXTURE_SETUP(cgroup_v1)
{
	unsigned int i;

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, wait_until_idle());
	mkdir(V1, 0755);
	mkdir(V2, 0755);
	/* An earlier test may have failed without removing its mounts. */
	end_cgroups();
	ASSERT_EQ(0, mount("none", V2, "cgroup2", 0, NULL));
	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, mount("none", V1, "cgroup", 0, "perf_event"));
	for (i = ARRAY_SIZE(made_cgroups); i--;)
		mkdir(made_cgroups[i], 0755);
}

FIXTURE_TEARDOWN(cgroup_v1)
{
	int i;

	sampler_close(&self->sampler);
	for (i = 0; i < TARGETS; i++)
		target_kill(&self->target[i]);
	end_cgroups();
}

/* Opens an enabled event of a cgroup. */
static int open_with(const struct event_maker *maker, struct perf_event_attr attr,
		     const char *path, int cpu)
{
	attr.disabled = 0;
	return event_open_of_cgroup(maker, attr, path, cpu);
}

static int open_cgroup(struct __test_metadata *_metadata, const char *path)
{
	int fd = open_with(&event_maker_perfmon, event_instructions(), path, -1);

	ASSERT_LE(0, fd) {
		TH_LOG("%s", path);
	}
	return fd;
}

/* Opens an event of the target's task. */
static int open_task(struct __test_metadata *_metadata, const struct target *t)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	fd = event_maker_perfmon.open(&attr, t->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	return fd;
}

/* Returns CPU 0 or 1; on a machine with one CPU, this CPU. */
static int some_cpu(int number)
{
	return number % sysconf(_SC_NPROCESSORS_ONLN);
}

TEST_F(cgroup_v1, cgroups_are_refused_without_perfs_controller)
{
	if (perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, mount("none", V1, "cgroup", 0, "none,name=test"));
	ASSERT_EQ(0, mkdir(V1_A, 0755));
	EXPECT_EQ(-EBADF, open_with(&event_maker_perfmon, event_instructions(), V1, -1));
	EXPECT_EQ(-EBADF, open_with(&event_maker_perfmon, event_instructions(), V1_A, -1));
	EXPECT_EQ(0, rmdir(V1_A));
	EXPECT_EQ(0, umount(V1));
}

/* Refused are a hierarchy without perf's controller, a file, and a directory that was removed. */
TEST_F(cgroup_v1, invalid_cgroups_are_refused)
{
	struct perf_event_attr attr = event_instructions();
	const char *other = "/tmp/cgroup1.other";
	int fd;

	if (!perfs_cgroups_exist())
		return;
	mkdir(other, 0755);
	ASSERT_EQ(0, mount("none", other, "cgroup", 0, "none,name=test"));
	EXPECT_EQ(-EBADF, open_with(&event_maker_perfmon, attr, other, -1));
	EXPECT_EQ(0, umount(other));
	fd = open(V1 "/cgroup.procs", O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBADF, event_maker_perfmon.open(&attr, fd, -1, -1, PERF_FLAG_PID_CGROUP));
	close(fd);
	fd = open(V1_B, O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, rmdir(V1_B));
	EXPECT_EQ(-ENOENT, event_maker_perfmon.open(&attr, fd, -1, -1, PERF_FLAG_PID_CGROUP));
	close(fd);
}

/* V1_A and V1_A_INNER, which is in it, have a task each, on two CPUs if there are two. */
TEST_F(cgroup_v1, nested_cgroups_are_counted)
{
	const char *const paths[] = { V1_A, V1_A_INNER, V1_B, V1 };
	int fd[ARRAY_SIZE(paths)], task[TARGETS], i;

	if (!perfs_cgroups_exist())
		return;
	for (i = 0; i < TARGETS; i++) {
		ASSERT_EQ(0, target_start(&self->target[i], some_cpu(i), false));
		move_to(_metadata, paths[i], self->target[i].pid);
	}
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++)
		fd[i] = open_cgroup(_metadata, paths[i]);
	for (i = 0; i < TARGETS; i++)
		task[i] = open_task(_metadata, &self->target[i]);
	for (i = 0; i < 10; i++) {
		const struct job job = { .n = N + 1000 * i, .pieces = 1 };

		ASSERT_EQ(0, target_start_job(&self->target[0], job));
		ASSERT_EQ(0, target_run_job(&self->target[1], job));
		ASSERT_EQ(0, target_wait_job(&self->target[0]));
		EXPECT_EQ(event_count(task[1]), event_count(fd[1]));
		EXPECT_EQ(event_count(task[0]) + event_count(task[1]), event_count(fd[0]));
		EXPECT_LE((__s64)(LOOP_INSNS * N * (i + 1)), event_count(fd[1]));
		EXPECT_EQ(0, event_count(fd[2]));
		EXPECT_LT(event_count(fd[0]), event_count(fd[3]));
	}
	for (i = 0; i < TARGETS; i++)
		close(task[i]);
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++)
		close(fd[i]);
}

/* Two tasks in two cgroups of each version, which alternate on a CPU thousands of times. */
TEST_F(cgroup_v1, each_switch_counts_for_one_cgroup_of_each_version)
{
	const struct job job = { .n = 10, .pieces = 3000, .step = STEP_PASS };
	const char *const paths[] = { V1_A, V1_B, V2_A, V2_B };
	int cgroup[ARRAY_SIZE(paths)], task[TARGETS], i;

	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, target_start_ring(self->target, TARGETS, self->cpu));
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++) {
		move_to(_metadata, paths[i], self->target[i % TARGETS].pid);
		cgroup[i] = open_cgroup(_metadata, paths[i]);
	}
	for (i = 0; i < TARGETS; i++)
		task[i] = open_task(_metadata, &self->target[i]);
	for (i = 0; i < TARGETS; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], job));
	for (i = 0; i < TARGETS; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
	EXPECT_LE(3000, target_switches(&self->target[0]));
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++) {
		EXPECT_LT((__s64)(3000 * 10 * LOOP_INSNS), event_count(cgroup[i]));
		EXPECT_EQ(event_count(task[i % TARGETS]), event_count(cgroup[i])) {
			TH_LOG("%s", paths[i]);
		}
	}
	for (i = 0; i < TARGETS; i++)
		close(task[i]);
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++)
		close(cgroup[i]);
}

/*
 * Moves the task in the hierarchy of one version, while it stays where it is in the hierarchy of
 * the other version. The counts of the cgroups between which the task moves add up, and nothing is
 * missing from the count of the cgroup in which it stays.
 */
static void move_while_running(struct __test_metadata *_metadata, FIXTURE_DATA(cgroup_v1) *self,
			       const char *const between[2], const char *stays)
{
	struct target *const t = &self->target[0];
	int fd[2], kept, task, i, moves = 0, jobs = 0;

	ASSERT_EQ(0, target_start_on(t, &self->cpus, false));
	for (i = 0; i < 2; i++)
		fd[i] = open_cgroup(_metadata, between[i]);
	kept = open_cgroup(_metadata, stays);
	move_to(_metadata, between[0], t->pid);
	move_to(_metadata, stays, t->pid);
	task = open_task(_metadata, t);
	/* On a busy host a job may end before the first move. Then another job is started. */
	do {
		ASSERT_EQ(0, target_start_job(t, (struct job) { .n = 50 * N, .pieces = 1 }));
		do {
			move_to(_metadata, between[++moves % 2], t->pid);
		} while (!target_is_done(t));
		ASSERT_EQ(0, target_wait_job(t));
	} while (++jobs < 100 && (!event_count(fd[0]) || !event_count(fd[1])));
	EXPECT_EQ(event_count(task), event_count(fd[0]) + event_count(fd[1]));
	EXPECT_EQ(event_count(task), event_count(kept));
	EXPECT_LT(0, event_count(fd[0]));
	EXPECT_LT(0, event_count(fd[1]));
	TH_LOG("%d moves, %lld and %lld", moves, event_count(fd[0]), event_count(fd[1]));
	target_kill(t);
	close(task);
	close(kept);
	for (i = 0; i < 2; i++)
		close(fd[i]);
}

TEST_F(cgroup_v1, task_that_moves_while_it_runs_is_counted_once)
{
	const char *const old[] = { V1_A, V1_B }, *const new[] = { V2_A, V2_B };

	if (!perfs_cgroups_exist())
		return;
	move_while_running(_metadata, self, old, V2_A);
	move_while_running(_metadata, self, new, V1_A_INNER);
}

/* The events of one version come and go, while those of the other count. */
TEST_F(cgroup_v1, events_of_one_version_do_not_disturb_the_other)
{
	struct target *const t = &self->target[0];
	int old, new, passing, task, round;

	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, target_start_on(t, &self->cpus, false));
	move_to(_metadata, V1_A_INNER, t->pid);
	move_to(_metadata, V2_A, t->pid);
	old = open_cgroup(_metadata, V1_A);
	new = open_cgroup(_metadata, V2);
	task = open_task(_metadata, t);
	ASSERT_EQ(0, target_start_job(t, (struct job) { .n = 50 * N, .pieces = 1 }));
	for (round = 0; !target_is_done(t); round++) {
		passing = open_cgroup(_metadata, round % 2 ? V1_A_INNER : V2_A);
		close(passing);
	}
	ASSERT_EQ(0, target_wait_job(t));
	EXPECT_EQ(event_count(task), event_count(old));
	EXPECT_LE(event_count(task), event_count(new));
	/* The last event still counts after all others were closed. */
	close(new);
	ASSERT_EQ(0, target_run_job(t, (struct job) { .n = N, .pieces = 3, .step = STEP_MOVE }));
	EXPECT_EQ(event_count(task), event_count(old));
	TH_LOG("%d rounds", round);
	close(task);
	close(old);
}

TEST_F(cgroup_v1, cgroup_that_is_removed_keeps_its_count)
{
	struct target *const t = &self->target[0];
	__s64 count;
	int fd;

	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, target_start_on(t, &self->cpus, false));
	move_to(_metadata, V1_B, t->pid);
	fd = open_cgroup(_metadata, V1_B);
	ASSERT_EQ(0, target_run_job(t, (struct job) { .n = N, .pieces = 1 }));
	target_kill(t);
	count = event_count(fd);
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	ASSERT_EQ(0, rmdir(V1_B));
	loop(N);
	EXPECT_EQ(count, event_count(fd));
	EXPECT_EQ(0, event_disable(fd));
	EXPECT_EQ(0, event_enable(fd));
	/* A new cgroup with the same name is another cgroup. */
	ASSERT_EQ(0, mkdir(V1_B, 0755));
	move_to(_metadata, V1_B, getpid());
	loop(N);
	move_to(_metadata, V1, getpid());
	EXPECT_EQ(count, event_count(fd));
	close(fd);
}

static void find_foreign_pid(const struct sample *s, void *data)
{
	pid_t *pid = data;

	if (s->pid != (__u32)*pid)
		*pid = -1;
}

TEST_F(cgroup_v1, samples_are_of_the_tasks_of_the_cgroup)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct target *const t = &self->target[0];
	pid_t pid;
	__s64 count;

	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, target_start(t, self->cpu, false));
	move_to(_metadata, V1_A_INNER, t->pid);
	self->sampler.fd = open_with(&event_maker_perfmon, attr, V1_A, self->cpu);
	ASSERT_LE(0, self->sampler.fd);
	self->sampler.parts = (struct sample_parts) { .type = attr.sample_type };
	ASSERT_EQ(0, event_ring_map(&self->sampler.ring, self->sampler.fd, 4, false));
	loop(10 * PERIOD);
	ASSERT_EQ(0, target_run_job(t, (struct job) { .n = 100 * PERIOD / LOOP_INSNS, .pieces = 1 }));
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	count = event_count(self->sampler.fd);
	pid = t->pid;
	sampler_read(&self->sampler, &sums, find_foreign_pid, &pid);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(t->pid, pid);
	EXPECT_EQ((unsigned long)count / PERIOD, sums.samples + sums.lost);
	EXPECT_LE(100UL, sums.samples);
}

/*
 * Returns the difference of the counts of two jobs, by an event of @maker: the loop of the second
 * job has N more iterations.
 */
static __s64 count_added_loop(struct __test_metadata *_metadata, FIXTURE_DATA(cgroup_v1) *self,
			      const struct event_maker *maker, const char *path)
{
	struct target *const t = &self->target[0];
	__s64 count[2], before;
	int fd, i;

	ASSERT_TRUE(event_wait_until_possible(maker, NULL));
	fd = open_with(maker, event_instructions(), path, self->cpu);
	ASSERT_LE(0, fd) {
		TH_LOG("%s, %s", maker->name, path);
	}
	for (i = 0; i < 2; i++) {
		before = event_count(fd);
		ASSERT_EQ(0, target_run_job(t, (struct job) { .n = N + i * N, .pieces = 1 }));
		count[i] = event_count(fd) - before;
	}
	close(fd);
	return count[1] - count[0];
}

TEST_F(cgroup_v1, perf_counts_the_same)
{
	const char *const paths[] = { V1_A_INNER, V1_A, V1_B };
	const __s64 expected[] = { LOOP_INSNS * N, LOOP_INSNS * N, 0 };
	unsigned int i;

	if (!perfs_cgroups_exist())
		return;
	ASSERT_EQ(0, target_start(&self->target[0], self->cpu, false));
	move_to(_metadata, V1_A_INNER, self->target[0].pid);
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		EXPECT_EQ(expected[i], count_added_loop(_metadata, self, &event_maker_perfmon, paths[i]));
		EXPECT_EQ(expected[i], count_added_loop(_metadata, self, &event_maker_perf, paths[i]));
	}
}

TEST_HARNESS_MAIN
