// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples with the call stack (PERF_SAMPLE_BRANCH_CALL_STACK): the calls of a recursion of
 * known depth, also of tasks that share a CPU. Samples must have no calls that returned while
 * the event was disabled, and no calls of another program.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branch_records.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "samples.h"

#define DEPTH	(branch_records()->depth)
#define PERIOD	10007UL
#define N	400000UL

FIXTURE(event)
{
	struct sampler sampler;
};

#include "event_fixture.h"

/* Returns attributes of an event with a sample each @period, with branches of @kind. */
static struct perf_event_attr with_calls(__u64 period, __u64 kind)
{
	struct perf_event_attr attr = event_every(period);

	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_CALL_STACK | kind;
	return attr;
}

FIXTURE_SETUP(event)
{
	struct perf_event_attr attr = with_calls(PERIOD, PERF_SAMPLE_BRANCH_USER);

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, pin_to_first_cpu());
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 7));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* The work of the deepest function. */
struct leaf_job {
	void (*call)(const struct leaf_job *leaf);
	unsigned long n;
	int fd;
};

static void loop_in_leaf(const struct leaf_job *leaf)
{
	labelled_loop(leaf->n);
	/* Keeps the compiler from making a tail call. */
	__asm__ volatile("" : : : "memory");
}

/* Calls itself @depth times. */
static __attribute__((noinline, noclone)) void nest(unsigned int depth, const struct leaf_job *leaf)
{
	if (depth)
		nest(depth - 1, leaf);
	else
		leaf->call(leaf);
	/* Keeps the compiler from making a tail call. */
	__asm__ volatile("" : : : "memory");
}

/* The calls of nest() in samples within labelled_loop(). */
struct call_findings {
	unsigned int depth;	/* expected calls */
	unsigned long samples, wrong;
};

static unsigned int calls_of_nest(const struct sample *sample)
{
	unsigned int i, n = 0;

	for (i = 0; i < sample->branch_count; i++)
		n += sample->branches[i].to == (uintptr_t)nest;
	return n;
}

static void check_sample(const struct sample *sample, void *data)
{
	struct call_findings *t = data;

	if (!in_labelled_loop(sample->ip))
		return;
	t->samples++;
	t->wrong += calls_of_nest(sample) != t->depth;
}

/* Reads the samples. Expects @depth calls of nest() in each sample within the loop. */
static void expect_depth(struct __test_metadata *_metadata, struct sampler *s, unsigned int depth,
			 unsigned long samples)
{
	struct call_findings check = { .depth = depth };
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	sampler_read(s, &sums, check_sample, &check);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_LE(samples, check.samples);
	EXPECT_EQ(0UL, check.wrong) {
		TH_LOG("of %lu samples", check.samples);
	}
}

TEST_F(event, sample_has_each_call_that_has_not_returned)
{
	/* Two more calls are between nest() and the loop. */
	const unsigned int depths[] = { 0, 1, 7, DEPTH - 4 };
	const struct leaf_job leaf = { .call = loop_in_leaf, .n = N };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		nest(depths[i], &leaf);
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		expect_depth(_metadata, &self->sampler, depths[i] + 1, 2 * N / PERIOD - 1);
	}
}

TEST_F(event, call_stack_keeps_the_innermost_calls)
{
	const struct leaf_job leaf = { .call = loop_in_leaf, .n = N };

	ASSERT_EQ(0, event_enable(self->sampler.fd));
	nest(3 * DEPTH, &leaf);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	expect_depth(_metadata, &self->sampler, DEPTH - 2, 2 * N / PERIOD - 1);
}

/* Another task with calls takes the CPU from time to time. */
TEST_F(event, calls_outlast_a_switch)
{
	const struct leaf_job leaf = { .call = loop_in_leaf, .n = 100 * N };
	const struct leaf_job other = { .call = loop_in_leaf, .n = 1 };
	struct perf_event_attr attr = with_calls(10 * PERIOD, PERF_SAMPLE_BRANCH_USER);
	struct rusage before, after;
	int status, tries = 0;
	pid_t pid;

	sampler_close(&self->sampler);
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 7));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (;;)
			nest(DEPTH, &other);
	}
	getrusage(RUSAGE_SELF, &before);
	do {
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		nest(9, &leaf);
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		getrusage(RUSAGE_SELF, &after);
		expect_depth(_metadata, &self->sampler, 10, 2 * 10 * N / PERIOD - 1);
	} while (after.ru_nivcsw <= before.ru_nivcsw + 3 && ++tries < 100);
	EXPECT_LT(before.ru_nivcsw + 3, after.ru_nivcsw);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
}

static void ignore_trap(int signal)
{
	(void)signal;
}

/* Raises a debug exception, which disables the branch records. */
static void trap_in_leaf(const struct leaf_job *leaf)
{
	(void)leaf;
	__asm__ volatile(".byte 0xf1");
}

/* The functions return after the records were disabled, and then the task is switched out. */
TEST_F(event, calls_that_returned_after_a_debug_exception_are_not_shown)
{
	const struct leaf_job leaf = { .call = trap_in_leaf };
	int i;

	/* perf's samples have the calls that returned. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_NE(SIG_ERR, signal(SIGTRAP, ignore_trap));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	for (i = 0; i < 10; i++) {
		nest(12, &leaf);
		usleep(1000);
		labelled_loop(N / 10);
	}
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	expect_depth(_metadata, &self->sampler, 0, 2 * N / PERIOD / 2);
}

static void disable_in_leaf(const struct leaf_job *leaf)
{
	event_disable(leaf->fd);
}

/* The deepest function disables the event, and then all functions of the recursion return. */
TEST_F(event, calls_that_returned_while_disabled_are_not_shown)
{
	const struct leaf_job leaf = { .call = disable_in_leaf, .fd = self->sampler.fd };

	/* perf's samples have the calls that returned. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	nest(12, &leaf);
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	expect_depth(_metadata, &self->sampler, 0, 2 * N / PERIOD - 1);
}

static void execute(const struct leaf_job *leaf)
{
	(void)leaf;
	execlp("pmctl_loop", "pmctl_loop", "1000000", NULL);
	_exit(127);
}

static void check_other_program(const struct sample *sample, void *data)
{
	struct call_findings *t = data;

	/*
	 * Leaves out the first sample: it may be of the old program, which has no calls at that
	 * moment.
	 */
	if (t->samples++)
		t->wrong += calls_of_nest(sample) != 0;
}

TEST_F(event, new_program_starts_without_calls)
{
	struct perf_event_attr attr = with_calls(PERIOD, PERF_SAMPLE_BRANCH_USER);
	struct call_findings check = { .depth = 0 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	const struct leaf_job leaf = { .call = execute };
	int status, pipes[2];
	char byte;
	pid_t pid;

	/* perf keeps the calls of the old program. */
	if (variant->maker == &event_maker_perf)
		return;
	sampler_close(&self->sampler);
	ASSERT_EQ(0, pipe(pipes));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* Executes the new program once the parent has opened the event. */
		if (read(pipes[0], &byte, 1) == 1)
			nest(11, &leaf);
		_exit(127);
	}
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, pid, -1, 7));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	ASSERT_EQ(1, write(pipes[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	sampler_read(&self->sampler, &sums, check_other_program, &check);
	EXPECT_LE(2000000 / PERIOD, check.samples);
	EXPECT_EQ(0UL, check.wrong);
	close(pipes[0]);
	close(pipes[1]);
}

/* Combinations with call stacks that are refused, and the errors of perf and the module. */
static const struct refused_type {
	const char *what;
	__u64 kinds;
	int perf, perfmon;
	bool of_cpu, kernel;
} refusals[] = {
	{ "with other branches", PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
	  -EINVAL, -EINVAL, false, false },
	{ "of the kernel", PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL,
	  0, -EOPNOTSUPP, false, true },
	{ "of all that is counted", 0, 0, -EOPNOTSUPP, false, true },
	/* perf accepts this combination, and shows the calls since the last context switch. */
	{ "of all tasks", PERF_SAMPLE_BRANCH_USER, 0, -EOPNOTSUPP, true, false },
};

TEST_F(event, call_stack_needs_a_task_and_user_mode)
{
	const bool is_perf = variant->maker == &event_maker_perf;
	const struct refused_type *r;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct perf_event_attr attr;
		int fd;

		r = &refusals[i];
		attr = with_calls(PERIOD, r->kinds);
		attr.exclude_kernel = !r->kernel;
		fd = variant->maker->open(&attr, r->of_cpu ? -1 : 0, r->of_cpu ? 0 : -1, -1, 0);
		EXPECT_EQ(is_perf ? r->perf : r->perfmon, fd < 0 ? fd : 0) {
			TH_LOG("%s: %s", variant->maker->name, r->what);
		}
		if (fd >= 0)
			close(fd);
	}
}

TEST_HARNESS_MAIN
