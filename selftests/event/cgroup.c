// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of cgroups, which count the tasks of a cgroup and of its descendants, on one CPU or on
 * all CPUs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "rng.h"
#include "samples.h"
#include "target.h"

#define N	100000UL
#define PERIOD	10007UL
#define ROOT	"/tmp/cgroup"
#define TARGETS	3
#define MANY	100

FIXTURE(cgroup)
{
	struct target target[TARGETS];
	struct sampler sampler;
	cpu_set_t cpus;		/* the online CPUs */
	int cpu;		/* the first online CPU */
};

/* Returns the path of cgroup @number. */
static const char *cgroup_path(int number)
{
	static char path[64];

	snprintf(path, sizeof(path), ROOT "/%d", number);
	return path;
}

/* Returns the path of cgroup @number inside of cgroup @in. */
static const char *child_cgroup_path(int in, int number)
{
	static char path[64];

	snprintf(path, sizeof(path), ROOT "/%d/%d", in, number);
	return path;
}

/* Writes a number to a file of a cgroup. */
static void write_number(struct __test_metadata *_metadata, const char *cgroup, const char *file,
			 pid_t id)
{
	char path[128], number[16];

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	snprintf(number, sizeof(number), "%d", id);
	ASSERT_EQ(0, write_file(path, number)) {
		TH_LOG("%s", path);
	}
}

/* Moves a process with all its threads. */
static void move_to(struct __test_metadata *_metadata, const char *cgroup, pid_t pid)
{
	write_number(_metadata, cgroup, "cgroup.procs", pid);
}

/* Moves one thread to a cgroup of make_threaded(). */
static void move_thread_to(struct __test_metadata *_metadata, const char *cgroup, pid_t tid)
{
	write_number(_metadata, cgroup, "cgroup.threads", tid);
}

/* Makes the cgroup ROOT/0/@number, among which the threads of a process in ROOT/0 may be spread. */
static void make_threaded(struct __test_metadata *_metadata, int number)
{
	char path[128];

	ASSERT_EQ(0, mkdir(child_cgroup_path(0, number), 0755));
	snprintf(path, sizeof(path), "%s/cgroup.type", child_cgroup_path(0, number));
	ASSERT_EQ(0, write_file(path, "threaded"));
}

static void remove_cgroups(void)
{
	int i, k;

	for (i = 0; i < MANY; i++) {
		for (k = 0; k < 2; k++)
			rmdir(child_cgroup_path(i, k));
		rmdir(cgroup_path(i));
	}
}

FIXTURE_SETUP(cgroup)
{
	const struct rlimit files = { 4096, 4096 };

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, cgroups_mount(ROOT));
	remove_cgroups();
}

FIXTURE_TEARDOWN(cgroup)
{
	int i;

	sampler_close(&self->sampler);
	for (i = 0; i < TARGETS; i++)
		target_kill(&self->target[i]);
	remove_cgroups();
	umount(ROOT);
}

/* Opens an enabled event of a cgroup. */
static int open_event(struct perf_event_attr attr, const char *path, int cpu)
{
	attr.disabled = 0;
	return event_open_of_cgroup(&event_maker_perfmon, attr, path, cpu);
}

static int open_cgroup(struct __test_metadata *_metadata, const char *path, int cpu)
{
	int fd = open_event(event_instructions(), path, cpu);

	ASSERT_LE(0, fd) {
		TH_LOG("%s, CPU %d", path, cpu);
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

/* Makes the cgroup ROOT/@number, and starts a target in it on any CPU. */
static void start_targets_in(struct __test_metadata *_metadata, FIXTURE_DATA(cgroup) *self, int number)
{
	ASSERT_EQ(0, mkdir(cgroup_path(number), 0755));
	ASSERT_EQ(0, target_start_on(&self->target[number], &self->cpus, false));
	move_to(_metadata, cgroup_path(number), self->target[number].pid);
}

TEST_F(cgroup, tasks_of_a_cgroup_are_counted)
{
	__s64 before, least, count;
	int fd, task, k;

	start_targets_in(_metadata, self, 0);
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	task = open_task(_metadata, &self->target[0]);
	EXPECT_EQ(0, event_count(fd));
	ASSERT_EQ(0, target_run_job(&self->target[0], (struct job) { .n = 1, .pieces = 1 }));
	least = event_count(fd);
	EXPECT_EQ(event_count(task), least);
	for (k = 1; k <= 10; k++) {
		const enum step step = k % 2 ? STEP_NONE : STEP_MOVE;

		before = event_count(fd);
		/* The loop of this task is in another cgroup. */
		loop(N);
		ASSERT_EQ(before, event_count(fd));
		ASSERT_EQ(0, target_run_job(&self->target[0],
					(struct job) { .n = k * N, .pieces = 1, .step = step }));
		count = event_count(fd) - before;
		if (step == STEP_NONE)
			EXPECT_EQ(least + (__s64)(LOOP_INSNS * (k * N - 1)), count);
		EXPECT_EQ(event_count(task), event_count(fd));
	}
	close(task);
	close(fd);
}

/* The count on all CPUs is the sum of the counts on each. */
TEST_F(cgroup, counts_of_all_cpus_add_up)
{
	int all, per_cpu[CPU_SETSIZE], cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN), k;
	__s64 sum;

	start_targets_in(_metadata, self, 0);
	all = open_cgroup(_metadata, cgroup_path(0), -1);
	for (cpu = 0; cpu < cpus; cpu++)
		per_cpu[cpu] = open_cgroup(_metadata, cgroup_path(0), cpu);
	for (k = 0; k < 10; k++) {
		const struct job job = { .n = N, .pieces = 3, .step = STEP_MOVE };

		ASSERT_EQ(0, target_run_job(&self->target[0], job));
		for (sum = 0, cpu = 0; cpu < cpus; cpu++)
			sum += event_count(per_cpu[cpu]);
		EXPECT_EQ(event_count(all), sum);
		EXPECT_LE((__s64)((k + 1) * 3 * LOOP_INSNS * N), sum);
	}
	for (cpu = 0; cpu < cpus; cpu++)
		close(per_cpu[cpu]);
	close(all);
}

/*
 * Creates a process in the cgroup whose directory is open as @dir, and lets it execute a loop of @n
 * iterations. Returns the growth of the count of event @fd.
 */
static __s64 count_created_in(struct __test_metadata *_metadata, int dir, int fd, unsigned long n)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = dir,
	};
	const __s64 before = event_count(fd);
	const pid_t pid = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	ASSERT_LE(0, pid);
	if (!pid) {
		loop(n);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	return event_count(fd) - before;
}

/* A task that is created in another cgroup than its parent's (CLONE_INTO_CGROUP) never moves there. */
TEST_F(cgroup, task_that_is_created_in_a_cgroup_is_counted)
{
	__s64 least[2];
	int fd[2], dir, k;

	for (k = 0; k < 2; k++)
		ASSERT_EQ(0, mkdir(k ? child_cgroup_path(0, 0) : cgroup_path(0), 0755));
	dir = open(child_cgroup_path(0, 0), O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, dir);
	fd[0] = open_cgroup(_metadata, cgroup_path(0), -1);
	fd[1] = open_cgroup(_metadata, child_cgroup_path(0, 0), -1);
	for (k = 0; k < 2; k++)
		least[k] = count_created_in(_metadata, dir, fd[k], 1);
	for (k = 0; k < 10; k++)
		EXPECT_EQ(least[k % 2] + (__s64)(LOOP_INSNS * (N - 1)),
			  count_created_in(_metadata, dir, fd[k % 2], N));
	EXPECT_EQ(event_count(fd[0]), event_count(fd[1]));
	for (k = 0; k < 2; k++)
		close(fd[k]);
	close(dir);
}

/* ROOT/0 and its child ROOT/0/0, both with tasks. */
TEST_F(cgroup, cgroup_counts_its_descendants)
{
	int fd[3], task[2], i;

	start_targets_in(_metadata, self, 0);
	ASSERT_EQ(0, mkdir(child_cgroup_path(0, 0), 0755));
	ASSERT_EQ(0, target_start(&self->target[1], self->cpu, false));
	move_to(_metadata, child_cgroup_path(0, 0), self->target[1].pid);
	fd[0] = open_cgroup(_metadata, ROOT, -1);
	fd[1] = open_cgroup(_metadata, cgroup_path(0), -1);
	fd[2] = open_cgroup(_metadata, child_cgroup_path(0, 0), -1);
	for (i = 0; i < 2; i++)
		task[i] = open_task(_metadata, &self->target[i]);
	for (i = 0; i < 10; i++) {
		const struct job job = { .n = N + 1000 * i, .pieces = 1 };

		ASSERT_EQ(0, target_start_job(&self->target[0], job));
		ASSERT_EQ(0, target_run_job(&self->target[1], job));
		ASSERT_EQ(0, target_wait_job(&self->target[0]));
		EXPECT_EQ(event_count(task[1]), event_count(fd[2]));
		EXPECT_EQ(event_count(task[0]) + event_count(task[1]), event_count(fd[1]));
		EXPECT_LT(event_count(fd[1]), event_count(fd[0]));
	}
	for (i = 0; i < 2; i++)
		close(task[i]);
	for (i = 0; i < 3; i++)
		close(fd[i]);
}

/* Two tasks in two cgroups, which alternate thousands of times. */
TEST_F(cgroup, each_switch_counts_for_one_cgroup)
{
	const struct job job = { .n = 10, .pieces = 3000, .step = STEP_PASS };
	int cgroup[2], task[2], i;
	__s64 before[2];

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, mkdir(cgroup_path(i), 0755));
	ASSERT_EQ(0, target_start_ring(self->target, 2, self->cpu));
	for (i = 0; i < 2; i++) {
		move_to(_metadata, cgroup_path(i), self->target[i].pid);
		cgroup[i] = open_cgroup(_metadata, cgroup_path(i), -1);
		task[i] = open_task(_metadata, &self->target[i]);
		before[i] = event_count(cgroup[i]);
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], job));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
	EXPECT_LE(3000, target_switches(&self->target[0]));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, before[i]);
		EXPECT_EQ(event_count(task[i]), event_count(cgroup[i]));
		EXPECT_LT((__s64)(3000 * 10 * LOOP_INSNS), event_count(cgroup[i]));
		close(task[i]);
		close(cgroup[i]);
	}
}

/*
 * Returns the count after all earlier moves have taken effect. A single read is not enough: the
 * read calls a function on a CPU, and this call may overtake the call that a move has made.
 */
static __s64 count_after_moves(int fd)
{
	event_count(fd);
	return event_count(fd);
}

/*
 * Pins a target to another CPU than this task's, if there is one. On that CPU nothing switches the
 * target out, so the CPU must be told that the target has moved.
 */
static void pin_away(struct __test_metadata *_metadata, const FIXTURE_DATA(cgroup) *self,
		     const struct target *t)
{
	const int other = cpu_next(&self->cpus, self->cpu);
	cpu_set_t cpus;

	if (other < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET(other, &cpus);
	ASSERT_EQ(0, sched_setaffinity(t->tid, sizeof(cpus), &cpus));
}

/*
 * Moves the target between the cgroups ROOT/0/0 and ROOT/0/1, by @move, while it runs. The sum of
 * both counts is the count of their parent, which misses nothing. A cgroup counts nothing more
 * after the target has left it.
 */
static void expect_moves_count_once(struct __test_metadata *_metadata, FIXTURE_DATA(cgroup) *self,
				    void (*move)(struct __test_metadata *_metadata,
						 const char *cgroup, pid_t id))
{
	const struct job job = { .n = 100 * N, .pieces = 1 };
	const int both = open_cgroup(_metadata, cgroup_path(0), -1);
	struct target *const t = &self->target[0];
	int fd[2], task, i, moves = 0, jobs = 0;
	__s64 left[2] = { 0 };

	pin_away(_metadata, self, t);
	for (i = 0; i < 2; i++)
		fd[i] = open_cgroup(_metadata, child_cgroup_path(0, i), -1);
	move(_metadata, child_cgroup_path(0, 0), t->tid);
	task = open_task(_metadata, t);
	/* On a busy host a job may end before the first move. Then another job is started. */
	do {
		ASSERT_EQ(0, target_start_job(t, job));
		do {
			const int to = ++moves % 2;

			ASSERT_EQ(left[to], event_count(fd[to])) {
				TH_LOG("move %d", moves);
			}
			move(_metadata, child_cgroup_path(0, to), t->tid);
			left[!to] = count_after_moves(fd[!to]);
		} while (!target_is_done(t));
		ASSERT_EQ(0, target_wait_job(t));
	} while (++jobs < 100 && (!event_count(fd[0]) || !event_count(fd[1])));
	EXPECT_EQ(event_count(task), event_count(fd[0]) + event_count(fd[1]));
	EXPECT_EQ(event_count(task), event_count(both));
	EXPECT_LT(0, event_count(fd[0]));
	EXPECT_LT(0, event_count(fd[1]));
	TH_LOG("%d moves, %lld and %lld", moves, event_count(fd[0]), event_count(fd[1]));
	close(task);
	for (i = 0; i < 2; i++)
		close(fd[i]);
	close(both);
}

TEST_F(cgroup, task_that_moves_while_it_runs_is_counted_once)
{
	int i;

	start_targets_in(_metadata, self, 0);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, mkdir(child_cgroup_path(0, i), 0755));
	expect_moves_count_once(_metadata, self, move_to);
}

/* The other thread of the process stays where it is. */
TEST_F(cgroup, thread_that_moves_while_it_runs_is_counted_once)
{
	int i;

	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	for (i = 0; i < 2; i++)
		make_threaded(_metadata, i);
	ASSERT_EQ(0, target_start_on(&self->target[0], &self->cpus, true));
	move_to(_metadata, cgroup_path(0), self->target[0].pid);
	expect_moves_count_once(_metadata, self, move_thread_to);
}

/* After the move, this task is counted for the other cgroup. */
TEST_F(cgroup, task_that_moves_itself_counts_for_the_new_cgroup)
{
	__s64 count;
	int fd;

	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	loop(N);
	EXPECT_EQ(0, event_count(fd));
	move_to(_metadata, cgroup_path(0), getpid());
	loop(N);
	count = event_count(fd);
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	EXPECT_GT((__s64)(LOOP_INSNS * N + 10000), count);
	move_to(_metadata, ROOT, getpid());
	count = event_count(fd);
	loop(N);
	EXPECT_EQ(count, event_count(fd));
	close(fd);
}

static void *move_and_loop(void *moved)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.threads", child_cgroup_path(0, 0));
	*(int *)moved = write_file(path, "0");
	loop(N);
	return NULL;
}

/* A thread moves itself, and its process stays in the cgroup above. */
TEST_F(cgroup, thread_that_moves_itself_counts_for_the_new_cgroup)
{
	int fd[2], moved = -1;
	pthread_t thread;
	__s64 count;

	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	make_threaded(_metadata, 0);
	move_to(_metadata, cgroup_path(0), getpid());
	fd[0] = open_cgroup(_metadata, child_cgroup_path(0, 0), -1);
	fd[1] = open_cgroup(_metadata, cgroup_path(0), -1);
	loop(N);
	EXPECT_EQ(0, event_count(fd[0]));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(fd[1]));
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_and_loop, &moved));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, moved);
	count = event_count(fd[0]);
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	EXPECT_GT((__s64)(LOOP_INSNS * N + 10000), count);
	loop(N);
	EXPECT_EQ(count, event_count(fd[0]));
	EXPECT_LE((__s64)(3 * LOOP_INSNS * N), event_count(fd[1]));
	move_to(_metadata, ROOT, getpid());
	close(fd[0]);
	close(fd[1]);
}

TEST_F(cgroup, cgroup_that_is_removed_keeps_its_count)
{
	__s64 count;
	int fd;

	start_targets_in(_metadata, self, 0);
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	ASSERT_EQ(0, target_run_job(&self->target[0], (struct job) { .n = N, .pieces = 1 }));
	count = event_count(fd);
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	target_kill(&self->target[0]);
	count = event_count(fd);
	ASSERT_EQ(0, rmdir(cgroup_path(0)));
	EXPECT_EQ(count, event_count(fd));
	EXPECT_EQ(0, event_disable(fd));
	EXPECT_EQ(0, event_enable(fd));
	EXPECT_EQ(0, event_reset(fd));
	EXPECT_EQ(0, event_count(fd));
	close(fd);
	/* A new cgroup with the same name is another cgroup. */
	start_targets_in(_metadata, self, 0);
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	ASSERT_EQ(0, target_run_job(&self->target[0], (struct job) { .n = N, .pieces = 1 }));
	EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(fd));
	close(fd);
}

TEST_F(cgroup, disabled_event_counts_nothing)
{
	struct job job = { .n = N, .pieces = 1 };
	__s64 count;
	int fd;

	start_targets_in(_metadata, self, 0);
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	ASSERT_EQ(0, target_run_job(&self->target[0], job));
	ASSERT_EQ(0, event_disable(fd));
	count = event_count(fd);
	ASSERT_EQ(0, target_run_job(&self->target[0], job));
	EXPECT_EQ(count, event_count(fd));
	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, target_run_job(&self->target[0], job));
	EXPECT_EQ(2 * count, event_count(fd));
	close(fd);
}

/* All cgroups use the same two counters. */
TEST_F(cgroup, hundred_cgroups_are_exact)
{
	static int fd[MANY][2];
	struct perf_event_attr branches = event_instructions();
	__s64 least[2] = { 0 };
	long long counter = -1;
	int i, k;

	branches.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	ASSERT_EQ(0, target_start_on(&self->target[0], &self->cpus, false));
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, mkdir(cgroup_path(i), 0755));
		fd[i][0] = open_cgroup(_metadata, cgroup_path(i), -1);
		fd[i][1] = open_event(branches, cgroup_path(i), -1);
		ASSERT_LE(0, fd[i][1]);
		if (!i)
			counter = event_fdinfo_number(fd[i][1], "counter");
		EXPECT_EQ(counter, event_fdinfo_number(fd[i][1], "counter"));
	}
	for (i = 0; i < MANY; i++) {
		move_to(_metadata, cgroup_path(i), self->target[0].pid);
		ASSERT_EQ(0, target_run_job(&self->target[0],
					(struct job) { .n = 1 + 100 * i, .pieces = 1 }));
		for (k = 0; k < 2; k++)
			least[k] = i ? least[k] : event_count(fd[i][k]);
		EXPECT_EQ(least[0] + (__s64)(LOOP_INSNS * 100 * i), event_count(fd[i][0]));
		EXPECT_EQ(least[1] + (__s64)(100 * i), event_count(fd[i][1]));
	}
	for (i = 0; i < MANY; i++)
		for (k = 0; k < 2; k++)
			close(fd[i][k]);
}

static void find_foreign_pid(const struct sample *s, void *data)
{
	pid_t *pid = data;

	if (s->pid != (__u32)*pid)
		*pid = -1;
}

/* All tasks run on one CPU, because a ring has one writer. */
TEST_F(cgroup, samples_are_of_the_tasks_of_the_cgroup)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	pid_t pid;
	__s64 count;

	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	ASSERT_EQ(0, target_start(&self->target[0], self->cpu, false));
	move_to(_metadata, cgroup_path(0), self->target[0].pid);
	EXPECT_EQ(-EOPNOTSUPP, open_event(attr, cgroup_path(0), -1));
	self->sampler.fd = open_event(attr, cgroup_path(0), self->cpu);
	ASSERT_LE(0, self->sampler.fd);
	self->sampler.parts = (struct sample_parts) { .type = attr.sample_type };
	ASSERT_EQ(0, event_ring_map(&self->sampler.ring, self->sampler.fd, 4, false));
	loop(10 * PERIOD);
	ASSERT_EQ(0, target_run_job(&self->target[0], (struct job) { .n = 100 * PERIOD / LOOP_INSNS,
								  .pieces = 1 }));
	loop(10 * PERIOD);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	count = event_count(self->sampler.fd);
	pid = self->target[0].pid;
	sampler_read(&self->sampler, &sums, find_foreign_pid, &pid);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(self->target[0].pid, pid);
	EXPECT_EQ((unsigned long)count / PERIOD, sums.samples + sums.lost);
	EXPECT_LE(100UL, sums.samples);
}

TEST_F(cgroup, invalid_cgroup_events_are_refused)
{
	struct perf_event_attr attr = event_instructions(), exclusive = attr, task = attr;
	int dir, file;

	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	/* A directory that is not a cgroup, a file of a cgroup, a path that does not exist. */
	EXPECT_EQ(-EBADF, open_event(attr, "/tmp", -1));
	file = open(ROOT "/cgroup.procs", O_RDONLY);
	ASSERT_LE(0, file);
	dir = event_maker_perfmon.open(&attr, file, -1, -1, PERF_FLAG_PID_CGROUP);
	EXPECT_GT(0, dir);
	close(file);
	EXPECT_EQ(-EBADF, event_maker_perfmon.open(&attr, -1, -1, -1, PERF_FLAG_PID_CGROUP));
	EXPECT_EQ(-EINVAL, open_event(attr, cgroup_path(0), 100000));
	exclusive.exclusive = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_event(exclusive, cgroup_path(0), self->cpu));
	task.task = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_event(task, cgroup_path(0), -1));
}

/* The deepest level that can have events, and the level below it. The root has level 0. */
#define LEVELS	32

TEST_F(cgroup, cgroup_that_is_too_deep_has_no_events)
{
	struct perf_event_attr attr = event_instructions();
	char path[128] = ROOT;
	int level, fd;

	for (level = 1; level <= LEVELS + 1; level++) {
		strcat(path, "/0");
		ASSERT_EQ(0, mkdir(path, 0755));
		fd = open_event(attr, path, -1);
		if (level > LEVELS) {
			EXPECT_EQ(-EOPNOTSUPP, fd);
			continue;
		}
		EXPECT_LE(0, fd);
		close(fd);
	}
	for (level = LEVELS + 1; level; level--) {
		EXPECT_EQ(0, rmdir(path));
		path[strlen(path) - 2] = '\0';
	}
}

#define THREADS	300

static void *sleep_forever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Starts a process with THREADS threads, which sleep on a CPU. */
static pid_t start_threads(struct __test_metadata *_metadata, int cpu)
{
	pthread_t thread;
	int ready[2], i;
	char byte = 1;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin_to_cpu(cpu);
		for (i = 1; i < THREADS; i++)
			byte &= !pthread_create(&thread, NULL, sleep_forever, NULL);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		sleep_forever(NULL);
	}
	EXPECT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ(1, byte);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/*
 * While a cgroup is counted, moving a process calls each CPU of its threads only once. More calls
 * would be harmful: the kernel has interrupts off meanwhile, and any user may move a process.
 */
TEST_F(cgroup, move_of_many_threads_calls_a_cpu_once)
{
	const int last = CPU_COUNT(&self->cpus) - 1;
	int fd, cpu, last_cpu = 0;
	long before;
	pid_t pid;

	for_each_cpu_in(cpu, &self->cpus)
		last_cpu = cpu;
	ASSERT_EQ(0, mkdir(cgroup_path(0), 0755));
	ASSERT_EQ(0, mkdir(cgroup_path(1), 0755));
	fd = open_cgroup(_metadata, cgroup_path(0), -1);
	pid = start_threads(_metadata, last_cpu);
	ASSERT_EQ(0, wait_until_idle());
	before = cpu_interrupts_of("CAL", last);
	ASSERT_LE(0, before);
	move_to(_metadata, cgroup_path(1), pid);
	/*
	 * The kernel also calls the CPU to wake tasks there, but far less often than once for each
	 * thread.
	 */
	EXPECT_GT(before + THREADS / 2, cpu_interrupts_of("CAL", last)) {
		TH_LOG("%lld calls", cpu_interrupts_of("CAL", last) - before);
	}
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	close(fd);
}

/* Moves tasks, and makes and removes cgroups and events, at random. */
TEST_F(cgroup, random_moves_lose_nothing)
{
	enum { ROUNDS = 200, CGROUPS = 5 };
	struct rng rng = rng_seed(1);
	int fd[CGROUPS], task[TARGETS], all, i, round;
	bool is_open[CGROUPS] = { false };
	__s64 sum;

	for (i = 0; i < CGROUPS; i++)
		ASSERT_EQ(0, mkdir(cgroup_path(i), 0755));
	for (i = 0; i < TARGETS; i++)
		ASSERT_EQ(0, target_start_on(&self->target[i], &self->cpus, false));
	/* Only the targets are in this cgroup. */
	ASSERT_EQ(0, mkdir(cgroup_path(CGROUPS), 0755));
	all = open_cgroup(_metadata, cgroup_path(CGROUPS), -1);
	for (i = 0; i < TARGETS; i++) {
		move_to(_metadata, cgroup_path(CGROUPS), self->target[i].pid);
		task[i] = open_task(_metadata, &self->target[i]);
	}
	for (round = 0; round < ROUNDS; round++) {
		const int cgroup = rng_below(&rng, CGROUPS), t = rng_below(&rng, TARGETS);
		__s64 before = event_count(task[t]), counted = 0;

		if (is_open[cgroup]) {
			close(fd[cgroup]);
			is_open[cgroup] = false;
		} else {
			fd[cgroup] = open_cgroup(_metadata, cgroup_path(cgroup), -1);
			is_open[cgroup] = true;
		}
		move_to(_metadata, cgroup_path(cgroup), self->target[t].pid);
		if (is_open[cgroup])
			counted = event_count(fd[cgroup]);
		ASSERT_EQ(0, target_run_job(&self->target[t], (struct job) {
			.n = 1 + rng_below(&rng, N), .pieces = 2, .step = STEP_MOVE }));
		if (is_open[cgroup])
			ASSERT_EQ(event_count(task[t]) - before,
				  event_count(fd[cgroup]) - counted) {
				TH_LOG("round %d", round);
			}
		move_to(_metadata, cgroup_path(CGROUPS), self->target[t].pid);
	}
	/* `all` lacks the instructions that the targets executed in other cgroups. */
	for (sum = 0, i = 0; i < TARGETS; i++)
		sum += event_count(task[i]);
	EXPECT_LT(event_count(all), sum);
	for (i = 0; i < TARGETS; i++)
		close(task[i]);
	for (i = 0; i < CGROUPS; i++)
		if (is_open[i])
			close(fd[i]);
	close(all);
	for (i = 0; i < TARGETS; i++)
		target_kill(&self->target[i]);
}

TEST_HARNESS_MAIN
