// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples of a whole CPU: each sample has the task that executed the instruction, although
 * the processor's records do not name the task.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "fixture.h"
#include "loop.h"
#include "module.h"
#include "samples.h"
#include "target.h"

#define N	100000UL

FIXTURE(event)
{
	struct target target;
	struct sampler samplers[2];
	int cpu;	/* the first CPU */
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"
#include "sample_fixture.h"
#include "precise_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	if (!prepare_precise(_metadata, variant, self->samplers))
		return;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	sampler_close(&self->samplers[0]);
	sampler_close(&self->samplers[1]);
	restore_maker(_metadata, variant);
}

/* Samples CPU @cpu, from now on. */
static void begin_samples(struct __test_metadata *_metadata,
			  const FIXTURE_VARIANT(event) *variant, struct sampler *s,
			  struct perf_event_attr attr, int cpu)
{
	int err = sampler_open(s, variant->maker, &attr, -1, cpu, ORDER);

	ASSERT_EQ(0, err) {
		TH_LOG("%s: a sampled event of CPU %d can't be opened: %s", variant->maker->name,
		       cpu, strerror(-err));
	}
	ASSERT_EQ(0, event_enable(s->fd));
}

/* Loops of four programs. */
DEFINE_LOOP(first)
DEFINE_LOOP(second)
DEFINE_LOOP(third)
DEFINE_LOOP(fourth)

#define PROGRAMS	4

static const struct {
	void (*run)(unsigned long n);
	const char *begin, *end;
} loops[PROGRAMS] = {
	{ first_loop, first_begin, first_end },
	{ second_loop, second_begin, second_end },
	{ third_loop, third_begin, third_end },
	{ fourth_loop, fourth_begin, fourth_end },
};

/* The samples of each program's loop. */
struct programs {
	__u32 tid[PROGRAMS];
	unsigned long samples[PROGRAMS];
	unsigned long wrong;	/* samples with the ids of another task, or of the kernel */
};

static void check_owner(const struct sample *s, void *data)
{
	struct programs *p = data;
	int i;

	p->wrong += s->ip >> 63;
	for (i = 0; i < PROGRAMS; i++) {
		if (!is_between(s->ip, loops[i].begin, loops[i].end))
			continue;
		p->samples[i]++;
		p->wrong += s->tid != p->tid[i] || s->pid != p->tid[i];
	}
}

#define TURNS	200

/* Forks a child that executes its loop after a byte to @start_pipe, and yields often. */
static pid_t fork_program(int i, int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int turn;

	if (pid)
		return pid;
	for (turn = 0; turn < TURNS; turn++) {
		loops[i].run((i + 1) * 10 * N / TURNS);
		sched_yield();
	}
	_exit(0);
}

/* Samples a CPU that @count programs share. */
static void share_cpu(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		      const FIXTURE_VARIANT(event) *variant, int count)
{
	struct programs programs = { .wrong = 0 };
	struct sampler *s = &self->samplers[0];
	int start_pipe[PROGRAMS], i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < count; i++) {
		programs.tid[i] = fork_program(i, &start_pipe[i]);
		ASSERT_LT(0, (int)programs.tid[i]);
	}
	begin_samples(_metadata, variant, s, precise_every(PERIOD), self->cpu);
	for (i = 0; i < count; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < count; i++) {
		ASSERT_EQ((pid_t)programs.tid[i], waitpid(programs.tid[i], NULL, 0));
		close(start_pipe[i]);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, PERIOD, check_owner, &programs);
	EXPECT_EQ(0UL, programs.wrong);
	for (i = 0; i < count; i++) {
		unsigned long expected = (i + 1) * 10 * LOOP_INSNS * N / PERIOD;

		/*
		 * Each turn of a program may have one sample more or fewer than its length
		 * suggests.
		 */
		EXPECT_LE(expected, programs.samples[i] + TURNS);
		EXPECT_GE(expected + TURNS, programs.samples[i]);
	}
}

TEST_F(event, samples_of_two_programs_have_their_ids)
{
	share_cpu(_metadata, self, variant, 2);
}

TEST_F(event, samples_of_four_programs_have_their_ids)
{
	share_cpu(_metadata, self, variant, 4);
}

static const __u64 periods[] = { 2, 101, PERIOD, 100003 };

TEST_F(event, each_sample_is_at_the_predicted_instruction)
{
	struct sampler *s = &self->samplers[0];
	unsigned int i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		__u64 period = periods[i];
		/* The loop has at most as many samples as the ring has room for. */
		unsigned long n = period < 101 ? 1000 * period : period < PERIOD ? N : 20 * N;

		begin_samples(_metadata, variant, s, precise_every(period), self->cpu);
		labelled_loop(n);
		ASSERT_EQ(0, event_disable(s->fd));
		check_places(_metadata, variant, s, period, gettid(), LOOP_INSNS * n);
		sampler_close(s);
	}
}

/* Samples with a frequency also belong to the right task, and their periods add up. */
TEST_F(event, samples_with_a_frequency_have_their_ids)
{
	struct perf_event_attr attr = precise_every(20000);
	struct programs programs = { .wrong = 0 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->samplers[0];
	__s64 count;
	int start_pipe[2], i;
	pid_t ended;

	attr.freq = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < 2; i++) {
		programs.tid[i] = fork_program(i, &start_pipe[i]);
		ASSERT_LT(0, (int)programs.tid[i]);
	}
	begin_samples(_metadata, variant, s, attr, self->cpu);
	/*
	 * The programs run until the period fits the frequency. The ring is read during the run,
	 * since a slow host takes more samples.
	 */
	for (i = 0; i < 100; i++) {
		labelled_loop(N);
		sampler_read(s, &sums, check_owner, &programs);
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		do {
			usleep(1000);
			sampler_read(s, &sums, check_owner, &programs);
			ended = waitpid(programs.tid[i], NULL, WNOHANG);
		} while (!ended);
		ASSERT_EQ((pid_t)programs.tid[i], ended);
		close(start_pipe[i]);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	count = event_count(s->fd);
	sampler_read(s, &sums, check_owner, &programs);
	EXPECT_EQ(0UL, programs.wrong);
	EXPECT_LT(0UL, programs.samples[0]);
	EXPECT_LT(0UL, programs.samples[1]);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_TRUE(sums.ordered);
	EXPECT_LE((__s64)sums.periods, count);
}

TEST_F(event, reads_while_it_counts_keep_the_samples_exact)
{
	struct sampler *s = &self->samplers[0];
	__s64 last = 0;
	int i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	begin_samples(_metadata, variant, s, precise_every(101), self->cpu);
	for (i = 0; i < 100; i++) {
		__s64 count;

		labelled_loop(1000);
		count = event_count(s->fd);
		EXPECT_LE(last + (__s64)LOOP_INSNS * 1000, count);
		last = count;
	}
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, 101, NULL, NULL);
}

/* The samples of a task on each of two CPUs, between which it moves. */
struct mover {
	__u32 tid, cpu;
	unsigned long samples, wrong;
};

static void check_mover(const struct sample *s, void *data)
{
	struct mover *m = data;

	if (!in_labelled_loop(s->ip))
		return;
	m->samples++;
	m->wrong += s->tid != m->tid || s->cpu != m->cpu;
}

TEST_F(event, samples_of_a_moving_task_have_its_ids_on_each_cpu)
{
	struct job job = { .n = 5000, .pieces = 500, .step = STEP_MOVE };
	struct mover movers[2];
	struct target *t = &self->target;
	unsigned long samples = 0;
	cpu_set_t cpus;
	int cpu, i, count = 0;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, target_start(t, -1, false));
	for_each_cpu_in(cpu, &cpus) {
		if (count == 2)
			break;
		movers[count] = (struct mover) { .tid = t->tid, .cpu = cpu };
		begin_samples(_metadata, variant, &self->samplers[count++], precise_every(PERIOD),
			      cpu);
	}
	ASSERT_EQ(0, target_run_job(t, job));
	for (i = 0; i < count; i++) {
		struct sampler *s = &self->samplers[i];

		ASSERT_EQ(0, event_disable(s->fd));
		expect_samples(_metadata, variant, s, PERIOD, check_mover, &movers[i]);
		EXPECT_EQ(0UL, movers[i].wrong);
		EXPECT_LT(0UL, movers[i].samples);
		samples += movers[i].samples;
	}
	if (CPU_COUNT(&cpus) <= 2)
		EXPECT_LE(LOOP_INSNS * job.n * job.pieces / PERIOD, samples + job.pieces);
}

#define CHILDREN	10

/* The beginning and the end of children, and the samples of their loops. */
struct child {
	__u32 tid;
	bool begun, ended;
	unsigned long samples, outside;	/* @outside: before the beginning, or after the end */
	unsigned long switches;		/* with each, a sample more or less may be in the loop */
};

static struct child *child_of(struct child *children, __u32 tid)
{
	int i;

	for (i = 0; i < CHILDREN; i++) {
		if (children[i].tid == tid)
			return &children[i];
	}
	return NULL;
}

static void follow_child(struct sampler *s, struct child *children)
{
	__u32 type = s->record.header.type;
	struct sample sample;
	struct child *child;

	if (type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT) {
		child = child_of(children, (__u32)s->record.words[1]);
		if (child)
			*(type == PERF_RECORD_FORK ? &child->begun : &child->ended) = true;
		return;
	}
	if (type != PERF_RECORD_SAMPLE || !sample_parse(&s->record, &s->parts, &sample))
		return;
	child = child_of(children, sample.tid);
	if (!child)
		return;
	child->samples += in_labelled_loop(sample.ip);
	child->outside += !child->begun || child->ended;
}

/* The samples of a task stand between the records of its beginning and of its end. */
TEST_F(event, samples_of_children_come_before_their_end)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct child children[CHILDREN] = { { .tid = 0 } };
	struct sampler *s = &self->samplers[0];
	struct rusage usage;
	int i;

	/* Tests only the module: perf's samples may come later. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.task = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	begin_samples(_metadata, variant, s, attr, self->cpu);
	for (i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			labelled_loop(N);
			/* Every other child is killed. */
			if (i % 2)
				kill(getpid(), SIGKILL);
			_exit(0);
		}
		children[i].tid = pid;
		ASSERT_EQ(pid, wait4(pid, NULL, 0, &usage));
		children[i].switches = usage.ru_nvcsw + usage.ru_nivcsw;
	}
	ASSERT_EQ(0, event_disable(s->fd));
	while (!event_ring_is_empty(&s->ring)) {
		ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
		follow_child(s, children);
	}
	for (i = 0; i < CHILDREN; i++) {
		EXPECT_TRUE(children[i].begun);
		EXPECT_TRUE(children[i].ended);
		EXPECT_EQ(0UL, children[i].outside);
		EXPECT_LE(LOOP_INSNS * N / PERIOD, children[i].samples + 1 + children[i].switches);
		EXPECT_GE(LOOP_INSNS * N / PERIOD + 1 + children[i].switches, children[i].samples);
	}
}

/* In the ring, the record of a mapping comes after the samples that were taken before it. */
TEST_F(event, samples_and_records_of_mappings_are_in_order)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	unsigned long mappings = 0, samples[2] = { 0, 0 }, displaced = 0;
	struct sample sample;
	void *area;
	int fd;

	/* Tests only the module: perf's samples may come later. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.mmap = 1;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	begin_samples(_metadata, variant, s, attr, self->cpu);
	first_loop(N);
	area = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	second_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	EXPECT_NE(MAP_FAILED, area);
	close(fd);
	while (!event_ring_is_empty(&s->ring)) {
		ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
		if (s->record.header.type == PERF_RECORD_MMAP) {
			mappings += s->record.words[1] == (uintptr_t)area;
			continue;
		}
		if (s->record.header.type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
		if (is_between(sample.ip, first_begin, first_end)) {
			samples[0]++;
			displaced += mappings;
		}
		if (is_between(sample.ip, second_begin, second_end)) {
			samples[1]++;
			displaced += !mappings;
		}
	}
	EXPECT_EQ(1UL, mappings);
	EXPECT_EQ(0UL, displaced);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples[0] + 1);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples[1] + 1);
}

/* Samples of both modes: those of the kernel are marked as such. */
TEST_F(event, kernel_is_sampled_with_permission)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	unsigned long samples = 0, kernel = 0, wrong = 0, interrupts, throttled = 0;
	int i;

	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	interrupts = all_interrupts();
	begin_samples(_metadata, variant, s, attr, self->cpu);
	for (i = 0; i < 1000; i++)
		sched_yield();
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	interrupts = all_interrupts() - interrupts;
	while (!event_ring_is_empty(&s->ring)) {
		struct sample sample;
		__u16 mode;

		ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
		throttled += s->record.header.type == PERF_RECORD_THROTTLE;
		if (s->record.header.type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
		mode = s->record.header.misc & PERF_RECORD_MISC_CPUMODE_MASK;
		samples++;
		kernel += sample.ip >> 63;
		wrong += mode != (sample.ip >> 63 ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
		wrong += in_labelled_loop(sample.ip) && sample.tid != (__u32)gettid();
	}
	EXPECT_EQ(0UL, wrong);
	EXPECT_LT(0UL, kernel);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples - kernel + 1 + interrupts);
	expect_periods(_metadata, s, PERIOD, samples, throttled);
}

/* A CPU goes offline without leaving samples behind, and works as before when it is back. */
TEST_F(event, samples_survive_cpu_hotplug)
{
	struct { int home, cpu, online; } cpus, *c = &cpus;
	struct mover mover = { .tid = gettid() };
	struct sampler *s = &self->samplers[0];
	int i;

	/* Tests only the module: perf's events of a CPU end when the CPU goes offline. */
	if (variant->maker == &event_maker_perf)
		return;
	FIND_CPU_TO_SWITCH(c);
	mover.cpu = c->cpu;
	begin_samples(_metadata, variant, s, precise_every(PERIOD), c->cpu);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pin_to_cpu(c->cpu));
		labelled_loop(N);
		ASSERT_EQ(0, pin_to_cpu(c->home));
		EXPECT_EQ(0, cpu_set_online(c->online, "0"));
		EXPECT_EQ(0, cpu_set_online(c->online, "1"));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, PERIOD, check_mover, &mover);
	EXPECT_EQ(0UL, mover.wrong);
	EXPECT_LE(3 * LOOP_INSNS * N / PERIOD, mover.samples + 3);
	EXPECT_GE(3 * LOOP_INSNS * N / PERIOD + 3, mover.samples);
	close(c->online);
}

/* An event of a CPU, beside an event of a task that leaves the CPU and comes back */
TEST_F(event, an_event_of_a_task_has_its_own_samples_beside)
{
	struct job job = { .n = 5000, .pieces = 200, .step = STEP_YIELD };
	struct sampler *of_cpu = &self->samplers[0], *of_task = &self->samplers[1];
	struct target *t = &self->target;
	struct mover mover = { .cpu = self->cpu };
	struct places p = { .period = 997 };

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, target_start(t, self->cpu, false));
	mover.tid = t->tid;
	p.tid = t->tid;
	begin_samples(_metadata, variant, of_cpu, precise_every(PERIOD), self->cpu);
	open_sampler(_metadata, variant, of_task, precise_every(997), t->tid);
	ASSERT_EQ(0, event_enable(of_task->fd));
	ASSERT_EQ(0, target_run_job(t, job));
	ASSERT_EQ(0, event_disable(of_task->fd));
	ASSERT_EQ(0, event_disable(of_cpu->fd));
	expect_samples(_metadata, variant, of_cpu, PERIOD, check_mover, &mover);
	expect_samples(_metadata, variant, of_task, 997, check_place, &p);
	EXPECT_EQ(0UL, mover.wrong);
	EXPECT_EQ(0UL, p.wrong);
	EXPECT_LE(LOOP_INSNS * job.n * job.pieces / PERIOD, mover.samples + job.pieces);
	EXPECT_LE(LOOP_INSNS * job.n * job.pieces / 997, p.inside + 1);
}

#define TRACING	"/sys/kernel/tracing/"

/* Begins to count how often Linux perf takes the records of a buffer. */
static int watch_perfs_handler(void)
{
	/* Formats 3 and 4 have different functions; a kernel has both. */
	int err = write_file(TRACING "kprobe_events",
			     "p:precise/format3 intel_pmu_drain_pebs_nhm\n"
			     "p:precise/format4 intel_pmu_drain_pebs_icl\n");

	return err ? err : write_file(TRACING "events/precise/enable", "1");
}

/* Ends watch_perfs_handler(). Returns the number, or a negative errno. */
static long watched_in_perfs_handler(void)
{
	FILE *profile = fopen(TRACING "kprobe_profile", "re");
	unsigned long hits, missed;
	long sum = 0;
	int probes = 0;

	if (!profile)
		return -errno;
	for (; fscanf(profile, " %*s %lu %lu", &hits, &missed) == 2; probes++)
		sum += hits + missed;
	fclose(profile);
	write_file(TRACING "events/precise/enable", "0");
	write_file(TRACING "kprobe_events", "\n");
	return probes == 2 ? sum : -EIO;
}

/*
 * Forks a child that, after a byte to @start_pipe, executes a few instructions and yields, again
 * and again.
 */
static pid_t fork_yielding(int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int turn;

	if (pid)
		return pid;
	for (turn = 0; turn < TURNS; turn++) {
		labelled_loop(20);
		sched_yield();
	}
	_exit(0);
}

/*
 * Expects a sample for each @period of the count; fewer samples are allowed if samples were
 * throttled.
 */
static void expect_unthrottled(struct __test_metadata *_metadata, struct sampler *s,
			       unsigned long period)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__s64 count = event_count(s->fd);

	sampler_read(s, &sums, NULL, NULL);
	EXPECT_LT(0UL, sums.samples);
	/* The last LOST record is missing if the event ends while it is throttled. */
	if (!sums.throttled)
		EXPECT_EQ(count / period, sums.samples);
}

/*
 * With a place-holder, perf's handler runs after the module's handler in the same NMI, and would
 * take the buffer's interrupt and its records for its own. Late samples need an interrupt soon, and
 * samples of the kernel continue in perf's handler.
 */
TEST_F(event, late_samples_leave_no_interrupt_to_perf)
{
	struct perf_event_attr kernel_attr = precise_every(256);
	struct sampler *of_kernel = &self->samplers[0], *of_task = &self->samplers[1];
	int start_pipe[2], i;
	pid_t pid[2];

	if (variant->maker == &event_maker_perf)
		return;
	kernel_attr.exclude_kernel = 0;
	kernel_attr.exclude_user = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < 2; i++) {
		pid[i] = fork_yielding(&start_pipe[i]);
		ASSERT_LT(0, pid[i]);
	}
	ASSERT_EQ(0, watch_perfs_handler());
	begin_samples(_metadata, variant, of_kernel, kernel_attr, self->cpu);
	/*
	 * The period is so short that at many switches only one instruction is left to the next
	 * sample.
	 */
	open_sampler(_metadata, variant, of_task, precise_every(11), pid[0]);
	ASSERT_EQ(0, event_enable(of_task->fd));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], NULL, 0));
		close(start_pipe[i]);
	}
	ASSERT_EQ(0, event_disable(of_task->fd));
	ASSERT_EQ(0, event_disable(of_kernel->fd));
	EXPECT_EQ(0L, watched_in_perfs_handler());
	expect_unthrottled(_metadata, of_task, 11);
	expect_unthrottled(_metadata, of_kernel, 256);
}

/*
 * While the module reads the buffer, no counter may write to it, even if an interrupt of another
 * event comes meanwhile. With a place-holder, perf's handler follows in such an interrupt, and
 * enables the counters at its end. The test has two counters of the same instructions, one of them
 * with a long period, and so with hardly any records. Both are paused at the same moments, so their
 * counts are equal unless a record was overwritten.
 */
TEST_F(event, interrupts_while_the_buffer_is_read_lose_no_record)
{
	struct perf_event_attr attr = precise_every(300), interrupting_attr = event_every(1009);
	struct perf_event_attr long_attr = precise_every(1000000000);
	struct sampler *s = &self->samplers[0], *interrupting = &self->samplers[1];
	__s64 count;
	int fd, i;

	/*
	 * Tests only a module with place-holders: without one, perf's handler does nothing, and the
	 * counts differ at each read by the interrupts between the ends of the two windows
	 * (known-issues).
	 */
	if (variant->maker == &event_maker_perf || !module_has_place_holder())
		return;
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	long_attr.exclude_kernel = 0;
	long_attr.exclude_user = 1;
	interrupting_attr.exclude_kernel = 0;
	interrupting_attr.exclude_user = 1;
	interrupting_attr.precise_ip = 0;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, -1, self->cpu, ORDER));
	fd = variant->maker->open(&long_attr, -1, self->cpu, s->fd, 0);
	ASSERT_LE(0, fd);
	begin_samples(_metadata, variant, interrupting, interrupting_attr, self->cpu);
	ASSERT_EQ(0, ioctl(s->fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP));
	for (i = 0; i < 10 * TURNS; i++) {
		event_count(s->fd);
		sched_yield();
	}
	ASSERT_EQ(0, ioctl(s->fd, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP));
	ASSERT_EQ(0, event_disable(interrupting->fd));
	count = event_count(s->fd);
	/* One event is enabled some instructions before the other whenever their windows open. */
	EXPECT_GT(count / 1000, llabs(count - event_count(fd)));
	close(fd);
}

TEST_HARNESS_MAIN
