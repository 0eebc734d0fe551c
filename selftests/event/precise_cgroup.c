// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples of cgroups: only tasks of the cgroup are sampled, and each sample has its task,
 * while programs of several cgroups share a CPU.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "perfs_cgroups.h"
#include "samples.h"

#define N	100000UL
#define ROOT	"/tmp/cgroup"
#define A	ROOT "/a"
#define INNER	A "/inner"
#define B	ROOT "/b"

FIXTURE(event)
{
	struct sampler samplers[2];
	int cpu;	/* the first CPU, where all tasks of the test stay */
};

#include "event_fixture.h"
#include "sample_fixture.h"
#include "precise_fixture.h"

static const char *const made_cgroups[] = { INNER, A, B };

static void remove_cgroups(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(made_cgroups); i++)
		rmdir(made_cgroups[i]);
}

FIXTURE_SETUP(event)
{
	unsigned int i;

	SKIP_WITHOUT_PMU();
	if (!prepare_precise(_metadata, variant, self->samplers))
		return;
	if (variant->maker == &event_maker_perf && !perfs_cgroups_exist())
		SKIP(return, "perf can't count cgroups in this kernel");
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, cgroups_mount(ROOT));
	remove_cgroups();
	ASSERT_EQ(0, perfs_cgroups_control(ROOT, ROOT, '+'));
	for (i = ARRAY_SIZE(made_cgroups); i > 0; i--)
		ASSERT_EQ(0, mkdir(made_cgroups[i - 1], 0755));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->samplers[0]);
	cgroup_move(ROOT, 0);
	remove_cgroups();
	perfs_cgroups_control(ROOT, ROOT, '-');
	umount(ROOT);
	restore_maker(_metadata, variant);
}

/* Opens an event of cgroup A on the CPU, with its ring. */
static void open_of_cgroup(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   const FIXTURE_VARIANT(event) *variant, struct perf_event_attr attr)
{
	struct sampler *s = &self->samplers[0];

	s->parts = (struct sample_parts) { .type = attr.sample_type };
	s->fd = event_open_of_cgroup(variant->maker, attr, A, self->cpu);
	ASSERT_LE(0, s->fd) {
		TH_LOG("a precise event of a cgroup can't be opened: %s", strerror(-s->fd));
	}
	ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, ORDER, false));
}

/* The loops of two programs. */
DEFINE_LOOP(first)
DEFINE_LOOP(second)

#define TURNS	1000

/* Forks a child that, after a byte to @start_pipe, moves to a cgroup, executes its loop and yields often. */
static pid_t fork_program(const char *cgroup, bool runs_second_loop, int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int i;

	if (pid)
		return pid;
	if (cgroup_move(cgroup, 0))
		_exit(1);
	for (i = 0; i < TURNS; i++) {
		if (runs_second_loop)
			second_loop(20 * N / TURNS);
		else
			first_loop(10 * N / TURNS);
		sched_yield();
	}
	_exit(0);
}

/* The numbers of samples of two programs. Index 1 is the program with the second loop. */
struct programs {
	pid_t pid[2];
	unsigned long in_loop[2], of_program[2];
	unsigned long wrong;	/* samples of another task, or of the other program's loop */
};

static void note_sample(const struct sample *s, void *data)
{
	struct programs *p = data;
	bool in_first = is_between(s->ip, first_begin, first_end);
	bool in_second = is_between(s->ip, second_begin, second_end);
	int i = s->pid == (__u32)p->pid[1];

	p->wrong += s->pid != (__u32)p->pid[i] || s->tid != s->pid || (i ? in_first : in_second);
	p->of_program[i]++;
	p->in_loop[i] += in_first || in_second;
}

/* Samples cgroup A while the first program runs in it, and the second one in @other on the same CPU. */
static void share_cpu(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		      const char *other, struct programs *p)
{
	int start_pipe[2], status, i;

	*p = (struct programs) { .wrong = 0 };
	for (i = 0; i < 2; i++) {
		p->pid[i] = fork_program(i ? other : A, i, &start_pipe[i]);
		ASSERT_LT(0, p->pid[i]);
	}
	ASSERT_EQ(0, event_enable(self->samplers[0].fd));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(p->pid[i], waitpid(p->pid[i], &status, 0));
		EXPECT_EQ(0, status);
		close(start_pipe[i]);
	}
	ASSERT_EQ(0, event_disable(self->samplers[0].fd));
}

/* Expects that a program has the samples of a loop with @rounds rounds. */
static void expect_loop(struct __test_metadata *_metadata, const struct programs *p, int i,
			unsigned long rounds)
{
	/* A turn may have a sample fewer than its length suggests. */
	EXPECT_LE(LOOP_INSNS * rounds / PERIOD, p->in_loop[i] + TURNS);
	EXPECT_GE(LOOP_INSNS * rounds / PERIOD + TURNS, p->in_loop[i]);
}

TEST_F(event, samples_show_no_program_of_another_cgroup)
{
	struct sampler *s = &self->samplers[0];
	struct programs p;

	open_of_cgroup(_metadata, self, variant, precise_every(PERIOD));
	share_cpu(_metadata, self, B, &p);
	expect_samples(_metadata, variant, s, PERIOD, note_sample, &p);
	expect_loop(_metadata, &p, 0, 10 * N);
	EXPECT_EQ(0UL, p.of_program[1]);
	EXPECT_EQ(0UL, p.wrong);
}

/*
 * At a switch between a cgroup and a cgroup inside of it, the window of the outer cgroup's event
 * stays open.
 */
TEST_F(event, samples_of_inner_cgroups_have_their_task)
{
	struct sampler *s = &self->samplers[0];
	struct programs p;

	open_of_cgroup(_metadata, self, variant, precise_every(PERIOD));
	share_cpu(_metadata, self, INNER, &p);
	expect_samples(_metadata, variant, s, PERIOD, note_sample, &p);
	expect_loop(_metadata, &p, 0, 10 * N);
	expect_loop(_metadata, &p, 1, 20 * N);
	EXPECT_EQ(0UL, p.wrong);
}

TEST_F(event, samples_of_the_kernel_show_no_other_task)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->samplers[0];
	struct programs p;

	/* Tests only the module: in perf, a sample that is late at a switch gets the next task. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	open_of_cgroup(_metadata, self, variant, attr);
	share_cpu(_metadata, self, B, &p);
	sampler_read(s, &sums, note_sample, &p);
	expect_periods(_metadata, s, PERIOD, sums.samples, sums.throttled);
	EXPECT_LT(p.in_loop[0], p.of_program[0]);
	EXPECT_EQ(0UL, p.of_program[1]);
	EXPECT_EQ(0UL, p.wrong);
	EXPECT_FALSE(sums.malformed);
}

/* A task leaves the cgroup while it runs. */
TEST_F(event, samples_end_when_the_task_leaves_the_cgroup)
{
	struct sampler *s = &self->samplers[0];
	struct programs p = { .pid = { getpid() } };

	open_of_cgroup(_metadata, self, variant, precise_every(PERIOD));
	ASSERT_EQ(0, cgroup_move(A, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	first_loop(N);
	ASSERT_EQ(0, cgroup_move(B, 0));
	second_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, PERIOD, note_sample, &p);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, p.in_loop[0] + 1);
	EXPECT_EQ(0UL, p.wrong);
}

/* The samples of a cgroup on all CPUs would need one ring for each CPU. */
TEST_F(event, samples_of_a_cgroup_need_a_cpu)
{
	if (variant->maker == &event_maker_perf)
		return;
	EXPECT_EQ(-EOPNOTSUPP, event_open_of_cgroup(variant->maker, precise_every(PERIOD), A, -1));
}

TEST_HARNESS_MAIN
