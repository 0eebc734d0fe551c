// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups of events of a cgroup, their read formats and times, compared with perf's on a CPU. Without
 * CONFIG_CGROUP_PERF perf has no such events, and its variant is left out.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroups.h"
#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "perfs_cgroups.h"
#include "read_format.h"
#include "target.h"

#define MEMBERS	3
#define N	100000UL
#define PIECES	5
#define ROOT	"/tmp/cgroup"
#define A	ROOT "/a"
#define B	ROOT "/b"

FIXTURE(event)
{
	struct target target;	/* a task in A */
	cpu_set_t cpus;		/* the CPUs that are online */
	int cpu;		/* the CPU of the target and of this task */
	int fd[MEMBERS];	/* the first is the leader */
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

static void move_to_a(struct __test_metadata *_metadata, const struct target *t)
{
	ASSERT_EQ(0, cgroup_move(A, t->pid));
}

/* Ends a test with perf if the kernel's perf has no events of cgroups. */
#define RETURN_WITHOUT_CGROUPS() do {						\
	if (variant->maker == &event_maker_perf && !perfs_cgroups_exist())	\
		return;								\
} while (0)

FIXTURE_SETUP(event)
{
	int i;

	SKIP_WITHOUT_PMU();
	for (i = 0; i < MEMBERS; i++)
		self->fd[i] = -1;
	prepare_maker(_metadata, variant);
	ASSERT_TRUE(event_wait_until_possible(variant->maker, NULL));
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, cgroups_mount(ROOT));
	ASSERT_EQ(0, perfs_cgroups_control(ROOT, ROOT, '+'));
	mkdir(A, 0755);
	mkdir(B, 0755);
	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
	move_to_a(_metadata, &self->target);
}

FIXTURE_TEARDOWN(event)
{
	int i;

	for (i = 0; i < MEMBERS; i++)
		close(self->fd[i]);
	target_kill(&self->target);
	rmdir(A);
	rmdir(B);
	perfs_cgroups_control(ROOT, ROOT, '-');
	umount(ROOT);
	restore_maker(_metadata, variant);
}

/* Opens an event of a cgroup in the group of descriptor @group, or alone. */
static int open_event_of(const struct event_maker *maker, struct perf_event_attr attr, const char *path,
			 int cpu, int group)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

	fd = maker->open(&attr, dir, cpu, group, PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC);
	close(dir);
	return fd;
}

/* Opens a group of instructions of the cgroup A, whose leader is disabled. */
static void open_group(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		       const FIXTURE_VARIANT(event) *variant, __u64 format, int cpu, int members)
{
	struct perf_event_attr attr = event_instructions();
	int i;

	attr.read_format = format;
	for (i = 0; i < members; i++) {
		attr.disabled = !i;
		self->fd[i] = open_event_of(variant->maker, attr, A, cpu, i ? self->fd[0] : -1);
		ASSERT_LE(0, self->fd[i]) {
			TH_LOG("%s: read_format %#llx, member %d: %s", variant->maker->name, format,
			       i, strerror(-self->fd[i]));
		}
	}
}

static void close_group(FIXTURE_DATA(event) *self)
{
	int i;

	for (i = 0; i < MEMBERS; i++) {
		close(self->fd[i]);
		self->fd[i] = -1;
	}
}

static void run_loops(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self, unsigned long n,
		      enum step step)
{
	const struct job job = { .n = n, .pieces = PIECES, .step = step };

	ASSERT_EQ(0, target_run_job(&self->target, job));
}

/* Expects that all members have the same count, which has each instruction of the loops. */
static void expect_exact_group(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			       enum step step)
{
	const __u64 format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | TIMES;
	struct read_result first, second;
	int i;

	run_loops(_metadata, self, 1, step);
	first = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	run_loops(_metadata, self, N, step);
	second = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	for (i = 0; i < MEMBERS; i++) {
		EXPECT_EQ(first.value[0], first.value[i]);
		EXPECT_EQ(2 * first.value[0] + LOOP_INSNS * (N - 1) * PIECES, second.value[i]);
		EXPECT_EQ(event_id(self->fd[i]), second.id[i]);
	}
	EXPECT_EQ(second.enabled, second.running);
}

TEST_F(event, group_of_a_cgroup_counts_as_a_unit)
{
	const __u64 format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | TIMES;
	struct read_result before, after;
	int i;

	RETURN_WITHOUT_CGROUPS();
	open_group(_metadata, self, variant, format, self->cpu, MEMBERS);
	run_loops(_metadata, self, N, STEP_NONE);
	for (i = 0; i < MEMBERS; i++)
		EXPECT_EQ(0ULL, read_and_check(_metadata, self->fd[0], format, MEMBERS).value[i]);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	expect_exact_group(_metadata, self, STEP_NONE);
	/* While the leader is disabled, neither the counts nor the times of the group grow. */
	ASSERT_EQ(0, event_disable(self->fd[0]));
	before = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	run_loops(_metadata, self, N, STEP_NONE);
	after = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	for (i = 0; i < MEMBERS; i++)
		EXPECT_EQ(before.value[i], after.value[i]);
	EXPECT_EQ(before.enabled, after.enabled);
	EXPECT_EQ(before.running, after.running);
	/* The ioctl of a member is for all members. */
	ASSERT_EQ(0, event_ioctl(self->fd[1], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP));
	after = read_and_check(_metadata, self->fd[0], format, MEMBERS);
	for (i = 0; i < MEMBERS; i++)
		EXPECT_EQ(0ULL, after.value[i]);
	ASSERT_EQ(0, event_ioctl(self->fd[1], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP));
	expect_exact_group(_metadata, self, STEP_NONE);
}

/* perf refuses an event of a cgroup on all CPUs. */
TEST_F(event, group_on_all_cpus_follows_the_tasks)
{
	const __u64 format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | TIMES;

	RETURN_WITHOUT_CGROUPS();
	if (variant->maker == &event_maker_perf) {
		EXPECT_EQ(-EINVAL, open_event_of(variant->maker, event_instructions(), A, -1, -1));
		return;
	}
	target_kill(&self->target);
	ASSERT_EQ(0, target_start_on(&self->target, &self->cpus, false));
	move_to_a(_metadata, &self->target);
	open_group(_metadata, self, variant, format, -1, MEMBERS);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	expect_exact_group(_metadata, self, STEP_MOVE);
}

TEST_F(event, every_read_format_has_its_members)
{
	const __u64 loops = LOOP_INSNS * N * PIECES;
	struct read_result r;
	int members, member, i;
	__u64 format;

	RETURN_WITHOUT_CGROUPS();
	for (format = 0; format < PERF_FORMAT_MAX; format++) {
		for (members = 1; members <= MEMBERS; members += MEMBERS - 1) {
			open_group(_metadata, self, variant, format, self->cpu, members);
			ASSERT_EQ(0, event_enable(self->fd[0]));
			run_loops(_metadata, self, N, STEP_NONE);
			for (member = 0; member < members; member++) {
				r = read_and_check(_metadata, self->fd[member], format, members);
				for (i = 0; i < (int)r.nr; i++) {
					EXPECT_LE(loops, r.value[i]);
					EXPECT_GE(loops + PIECES * CALL_OVERHEAD, r.value[i]);
					EXPECT_EQ(r.value[0], r.value[i]);
					EXPECT_EQ(0ULL, r.lost[i]);
					if (format & PERF_FORMAT_ID)
						EXPECT_EQ(event_id(self->fd[r.nr > 1 ? i : member]),
							  r.id[i]);
				}
				if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
					EXPECT_LT(0ULL, r.enabled);
				if ((format & TIMES) == TIMES)
					EXPECT_EQ(r.enabled, r.running);
			}
			close_group(self);
		}
	}
}

/* The times do not include time in which no task of the cgroup runs on the CPU. */
TEST_F(event, times_grow_while_a_task_of_the_cgroup_runs)
{
	struct read_result r[2];
	__u64 begin;
	int i;

	RETURN_WITHOUT_CGROUPS();
	open_group(_metadata, self, variant, TIMES, self->cpu, 1);
	begin = clock_ns();
	ASSERT_EQ(0, event_enable(self->fd[0]));
	run_loops(_metadata, self, N, STEP_NONE);
	r[0] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_LT(0ULL, r[0].running);
	EXPECT_GE(clock_ns() - begin, r[0].running);
	loop(10 * N);
	usleep(20000);
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(r[0].value[0], r[1].value[0]);
	EXPECT_EQ(r[0].running, r[1].running);
	EXPECT_EQ(r[0].enabled, r[1].enabled);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(r[i].enabled, r[i].running);
	ASSERT_EQ(0, event_disable(self->fd[0]));
	run_loops(_metadata, self, N, STEP_NONE);
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(r[0].running, r[1].running);
	EXPECT_EQ(r[0].enabled, r[1].enabled);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	run_loops(_metadata, self, N, STEP_NONE);
	r[1] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_LT(r[0].running, r[1].running);
	/* RESET zeroes the count, not the times. */
	ASSERT_EQ(0, event_reset(self->fd[0]));
	r[0] = read_and_check(_metadata, self->fd[0], TIMES, 1);
	EXPECT_EQ(0ULL, r[0].value[0]);
	EXPECT_EQ(r[1].running, r[0].running);
}

/* Siblings of another cgroup, of another CPU, and of a task are refused. */
TEST_F(event, members_of_a_group_have_the_same_cgroup_and_cpu)
{
	const struct perf_event_attr attr = event_instructions();
	const int other = cpu_next(&self->cpus, self->cpu);
	struct perf_event_attr task = attr;

	RETURN_WITHOUT_CGROUPS();
	open_group(_metadata, self, variant, 0, self->cpu, 2);
	EXPECT_EQ(-EINVAL, open_event_of(variant->maker, attr, B, self->cpu, self->fd[0]));
	EXPECT_EQ(-EINVAL, variant->maker->open(&task, 0, -1, self->fd[0], 0));
	EXPECT_EQ(-EINVAL, open_event_of(variant->maker, attr, A, self->cpu, self->fd[1]));
	if (other >= 0)
		EXPECT_EQ(-EINVAL, open_event_of(variant->maker, attr, A, other, self->fd[0]));
	/* The refused calls have changed nothing. */
	ASSERT_EQ(0, event_enable(self->fd[0]));
	run_loops(_metadata, self, N, STEP_NONE);
	EXPECT_LE((__s64)(LOOP_INSNS * N * PIECES), event_count(self->fd[0]));
	EXPECT_EQ(event_count(self->fd[0]), event_count(self->fd[1]));
}

/* The siblings continue as single events of the cgroup. */
TEST_F(event, siblings_outlive_a_closed_leader)
{
	__s64 count;
	int i;

	RETURN_WITHOUT_CGROUPS();
	open_group(_metadata, self, variant, 0, self->cpu, MEMBERS);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	run_loops(_metadata, self, N, STEP_NONE);
	count = event_count(self->fd[0]);
	EXPECT_LE((__s64)(LOOP_INSNS * N * PIECES), count);
	close(self->fd[0]);
	self->fd[0] = -1;
	for (i = 1; i < MEMBERS; i++)
		EXPECT_EQ(count, event_count(self->fd[i]));
	run_loops(_metadata, self, N, STEP_NONE);
	for (i = 1; i < MEMBERS; i++)
		EXPECT_EQ(2 * count, event_count(self->fd[i]));
	ASSERT_EQ(0, event_disable(self->fd[1]));
	run_loops(_metadata, self, N, STEP_NONE);
	EXPECT_EQ(2 * count, event_count(self->fd[1]));
	EXPECT_EQ(3 * count, event_count(self->fd[2]));
}

TEST_HARNESS_MAIN
