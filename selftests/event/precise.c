// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples, which the processor takes itself. There is one sample for each period in the
 * count, at exactly the instruction of the overflow, while tasks move, switch and exit.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "module.h"
#include "msr.h"
#include "samples.h"
#include "target.h"

#define N	100000UL

#define MSR_PEBS_ENABLE		0x3f1
#define MSR_PEBS_DATA_CFG	0x3f2
#define MSR_IA32_DS_AREA	0x600

FIXTURE(event)
{
	struct target targets[2];
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
	target_kill(&self->targets[0]);
	target_kill(&self->targets[1]);
	sampler_close(&self->samplers[0]);
	sampler_close(&self->samplers[1]);
	restore_maker(_metadata, variant);
}

static const __u64 periods[] = {
	2, 3, 4, 5, 7, 16, 31, 97, 101, 256, PERIOD, 4096, 10007, 65537, 100003, 1000003,
};

/* Samples loops with each of the periods plus @longer events. Returns the number of samples. */
static unsigned long sample_all_periods(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
					const FIXTURE_VARIANT(event) *variant, __u64 longer)
{
	struct sampler *s = &self->samplers[0];
	unsigned long samples = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		__u64 period = periods[i] + longer;
		/* The ring has room for the samples, and they are too few to be throttled. */
		unsigned long n = period < 97 ? 1000 * period : period < PERIOD ? N : 20 * N;

		sample_loop(_metadata, variant, s, precise_every(period), n);
		samples += check_places(_metadata, variant, s, period, gettid(), LOOP_INSNS * n);
		sampler_close(s);
	}
	return samples;
}

/* With SAMPLES in the environment, loops are sampled until there are that many samples. */
TEST_F_TIMEOUT(event, each_sample_is_at_the_predicted_instruction, 36000)
{
	unsigned long wanted = env_number("SAMPLES", 1), samples = 0, more;
	__u64 longer;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (longer = 0; samples < wanted; longer++) {
		more = sample_all_periods(_metadata, self, variant, longer);
		ASSERT_LT(0UL, more);
		samples += more;
	}
	if (wanted > 1)
		TH_LOG("%lu samples", samples);
}

TEST_F(event, precise_level_1_does_the_same)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];

	attr.precise_ip = 1;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	check_places(_metadata, variant, s, PERIOD, gettid(), LOOP_INSNS * N);
}

/* All parts that precise samples can have. */
TEST_F(event, samples_have_all_parts)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sample sample;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	attr.sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID;
	if (!env_number("MERGED", 0))
		attr.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ((unsigned long)event_count(s->fd) / PERIOD, sums.samples);
	EXPECT_TRUE(sums.ordered);
	EXPECT_FALSE(sums.malformed);
	ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
	EXPECT_EQ(event_id(s->fd), sample.identifier);
	EXPECT_EQ(sample.identifier, sample.id);
	EXPECT_EQ(sample.identifier, sample.stream_id);
	EXPECT_EQ((__u32)getpid(), sample.pid);
	EXPECT_EQ((__u32)self->cpu, sample.cpu);
	EXPECT_EQ(PERIOD, sample.period);
	/* The event is instructions, so its samples have no access to memory. */
	EXPECT_EQ(0ULL, sample.addr);
	EXPECT_EQ(0ULL, sample.weight);
	EXPECT_EQ(0ULL, sample.data_src & (PERF_MEM_S(OP, LOAD) | PERF_MEM_S(OP, STORE)));
}

TEST_F(event, a_read_while_it_counts_is_exact)
{
	struct sampler *s = &self->samplers[0];
	__s64 first;
	int i;

	open_sampler(_metadata, variant, s, precise_every(101), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	first = event_loop_count_running(s->fd, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), first);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	for (i = 0; i < 5; i++)
		ASSERT_EQ(first, event_loop_count_running(s->fd, N));
	EXPECT_EQ(0, (int)s->ring.page->cap_user_rdpmc);
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, 101, NULL, NULL);
}

/* IA32_DEBUGCTL: a PMI freezes the counters */
#define FREEZE_COUNTERS	(1ULL << 12)

/*
 * Other software has set the bit that lets a PMI freeze the counters. The module lets them go on
 * again, even after the interrupt of a full buffer, which comes without an overflow of a counter.
 */
TEST_F(event, counters_go_on_after_the_interrupt_of_a_full_buffer)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler *s = &self->samplers[0];
	int cpu = pin_to_first_cpu(), fd;
	__u64 debugctl;
	__s64 one;

	/* perf's counters do not go on. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_LE(0, cpu);
	open_sampler(_metadata, variant, s, precise_every(PERIOD), 0);
	attr.disabled = 0;
	fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, msr_read(cpu, MSR_IA32_DEBUGCTL, &debugctl));
	ASSERT_EQ(0, msr_write(cpu, MSR_IA32_DEBUGCTL, debugctl | FREEZE_COUNTERS));
	one = event_loop_count_running(fd, 1);
	EXPECT_EQ((__s64)(LOOP_INSNS * (N - 1)), event_loop_count_running(fd, N) - one);
	ASSERT_EQ(0, msr_write(cpu, MSR_IA32_DEBUGCTL, debugctl));
	close(fd);
}

/* Lost samples are in LOST records, and in the count of lost samples. */
TEST_F(event, samples_without_room_are_reported_as_lost)
{
	struct perf_event_attr attr = precise_every(101);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 values[2];
	int i;

	attr.read_format = PERF_FORMAT_LOST;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, 0));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N);
		ASSERT_EQ(0, event_disable(s->fd));
		sampler_read(s, &sums, NULL, NULL);
	}
	/* Takes one more sample, which is preceded by a LOST record. */
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(101);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	EXPECT_LT(0UL, sums.lost);
	EXPECT_EQ(values[1], sums.lost);
	EXPECT_EQ((unsigned long)values[0] / 101, sums.samples + sums.lost);
	EXPECT_FALSE(sums.malformed);
}

/* Loops of two programs. */
DEFINE_LOOP(first)
DEFINE_LOOP(second)

/*
 * A ring that overwrites has the newest samples, even if more samples come at once than it has room
 * for.
 */
TEST_F(event, newest_samples_overwrite_the_oldest)
{
	struct perf_event_attr attr = precise_every(101);
	struct sampler *s = &self->samplers[0];
	unsigned long size, newest, i;
	struct sample sample;
	__u64 values[2], head;

	attr.read_format = PERF_FORMAT_LOST;
	s->parts = (struct sample_parts) { .type = attr.sample_type };
	s->fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, event_ring_map(&s->ring, s->fd, 0, true));
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	first_loop(N / 10);
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	EXPECT_EQ(0ULL, values[1]);
	head = s->ring.page->data_head;
	ASSERT_LT(101ULL, values[0]);
	/* The head includes the bytes of all samples, also of those that are overwritten. */
	size = head / (values[0] / 101);
	EXPECT_EQ(values[0] / 101 * size, head);
	/*
	 * The page has room for about a hundred samples, and the second loop has about two
	 * thousand.
	 */
	for (newest = 0, i = 1; i <= 4096 / size; i++) {
		ASSERT_TRUE(event_ring_at(&s->ring, head - i * size, &s->record));
		ASSERT_EQ(size, s->record.header.size);
		ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
		newest += is_between(sample.ip, first_begin, first_end);
	}
	/* Some samples are of the calls after the loop. */
	EXPECT_LE(4096 / size - 10, newest);
}

struct program_samples {
	bool runs_second_loop;
	__u32 tid;
	unsigned long own, leaked;
};

static void check_owner(const struct sample *s, void *data)
{
	struct program_samples *w = data;
	bool in_first = is_between(s->ip, first_begin, first_end);
	bool in_second = is_between(s->ip, second_begin, second_end);

	w->own += w->runs_second_loop ? in_second : in_first;
	w->leaked += w->runs_second_loop ? in_first : in_second;
	w->leaked += s->ip >> 63 || s->tid != w->tid;
}

#define TURNS	1000

/* Forks a child that executes one of the loops after a byte to @start_pipe, and yields often. */
static pid_t fork_loop(bool runs_second_loop, int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int i;

	if (pid)
		return pid;
	for (i = 0; i < TURNS; i++) {
		if (runs_second_loop)
			second_loop(3 * N / TURNS * 10);
		else
			first_loop(N / TURNS * 10);
		sched_yield();
	}
	_exit(0);
}

/* Two sampled programs share a CPU. The ring of one has no address of the other. */
TEST_F(event, programs_on_one_cpu_see_their_own_addresses_alone)
{
	const __u64 each[2] = { 997, PERIOD };
	struct program_samples program_samples[2] = {
		{ .runs_second_loop = false }, { .runs_second_loop = true }
	};
	pid_t pid[2];
	int start_pipe[2], i;

	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < 2; i++) {
		pid[i] = fork_loop(i, &start_pipe[i]);
		ASSERT_LT(0, pid[i]);
		program_samples[i].tid = pid[i];
		open_sampler(_metadata, variant, &self->samplers[i], precise_every(each[i]), pid[i]);
		ASSERT_EQ(0, event_enable(self->samplers[i].fd));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], NULL, 0));
		close(start_pipe[i]);
	}
	for (i = 0; i < 2; i++) {
		expect_samples(_metadata, variant, &self->samplers[i], each[i], check_owner,
			       &program_samples[i]);
		EXPECT_EQ(0UL, program_samples[i].leaked);
		EXPECT_LE((i ? 3 : 1) * 10 * LOOP_INSNS * N / each[i], program_samples[i].own + TURNS);
	}
}

TEST_F(event, moving_task_keeps_its_samples)
{
	struct job job = { .n = 1000, .pieces = 500, .step = STEP_MOVE };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->samplers[0];
	struct target *t = &self->targets[0];

	ASSERT_EQ(0, target_start(t, -1, false));
	open_sampler(_metadata, variant, s, precise_every(211), t->tid);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_run_job(t, job));
	ASSERT_EQ(0, event_disable(s->fd));
	if (variant->maker == &event_maker_perf) {
		/* If a sample of perf's is late, the following samples are late, too. */
		sampler_read(s, &sums, NULL, NULL);
		EXPECT_GE((unsigned long)event_count(s->fd) / 211, sums.samples);
		return;
	}
	expect_samples(_metadata, variant, s, 211, NULL, NULL);
}

TEST_F(event, killed_task_leaves_all_its_samples)
{
	struct job job = { .n = 500 * N, .pieces = 1000 };
	struct sampler *s = &self->samplers[0];
	struct target *t = &self->targets[0];

	ASSERT_EQ(0, target_start(t, self->cpu, false));
	open_sampler(_metadata, variant, s, precise_every(100003), t->tid);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_start_job(t, job));
	while (event_count(s->fd) < 10 * 100003)
		usleep(1000);
	target_kill(t);
	EXPECT_LT(0, expect_samples(_metadata, variant, s, 100003, NULL, NULL));
}

/* The number of samples of each task. */
struct tasks {
	__u32 tid[4];
	unsigned long samples[4], others;
};

static void count_task_sample(const struct sample *s, void *data)
{
	struct tasks *t = data;
	int i;

	for (i = 0; i < 4; i++) {
		if (s->tid == t->tid[i]) {
			t->samples[i]++;
			return;
		}
	}
	t->others++;
}

/* The ring of an inherited event is for one CPU. */
TEST_F(event, inheriting_children_have_their_own_samples)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct tasks tasks = { .tid = { gettid() } };
	/*
	 * If contexts are swapped, a task continues after each switch with the rest of another
	 * task's period, and may have one sample fewer.
	 */
	unsigned long swaps[4] = { thread_switches() };
	struct rusage usage;
	int i;

	attr.inherit = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 1; i < 4; i++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			labelled_loop(i * N);
			_exit(0);
		}
		tasks.tid[i] = pid;
	}
	labelled_loop(N);
	for (i = 1; i < 4; i++) {
		ASSERT_EQ((pid_t)tasks.tid[i], wait4(tasks.tid[i], NULL, 0, &usage));
		swaps[i] = usage.ru_nvcsw + usage.ru_nivcsw;
	}
	ASSERT_EQ(0, event_disable(s->fd));
	swaps[0] = thread_switches() - swaps[0];
	sampler_read(s, &sums, count_task_sample, &tasks);
	EXPECT_EQ(0UL, tasks.others);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	for (i = 0; i < 4; i++) {
		unsigned long missing = variant->maker->children_swap_periods ? 1 + swaps[i] : 0;

		EXPECT_LE((i ? i : 1) * LOOP_INSNS * N / PERIOD, tasks.samples[i] + missing);
	}
	/* Each task has a rest of less than a period. */
	EXPECT_GE(event_count(s->fd), (__s64)(sums.samples * PERIOD));
	EXPECT_LE(event_count(s->fd), (__s64)((sums.samples + 4) * PERIOD));
}

/* Distances between the counts of the leader and of its sibling in the leader's samples. */
struct count_comparison {
	unsigned long samples;
	__u64 max_distance;
};

static void compare_counts(const struct sample *s, void *data)
{
	struct count_comparison *c = data;
	__u64 distance;

	/* The number of values, the leader's value, and the sibling's value. */
	if (s->count_words != 3)
		return;
	c->samples++;
	distance = s->counts[1] > s->counts[2] ? s->counts[1] - s->counts[2] :
					      s->counts[2] - s->counts[1];
	if (distance > c->max_distance)
		c->max_distance = distance;
}

TEST_F(event, samples_of_the_group_have_the_precise_count)
{
	struct perf_event_attr leader = event_every(10007), member = precise_every(101);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct count_comparison comparison = { .samples = 0 };
	int fd;

	/* perf does not collect precise samples of groups in its large buffers. */
	if (variant->maker == &event_maker_perf)
		return;
	leader.sample_type |= PERF_SAMPLE_READ;
	leader.read_format = PERF_FORMAT_GROUP;
	member.read_format = PERF_FORMAT_GROUP;
	member.disabled = 0;
	open_sampler(_metadata, variant, s, leader, 0);
	fd = variant->maker->open(&member, 0, -1, s->fd, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(10 * N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, compare_counts, &comparison);
	EXPECT_LE(10 * LOOP_INSNS * N / 10007, comparison.samples);
	EXPECT_EQ(0ULL, comparison.max_distance);
	EXPECT_EQ(0UL, sums.lost);
	close(fd);
}

TEST_F(event, samples_are_throttled_only_between_throttle_records)
{
	struct throttling t = { .throttled = false };
	struct perf_event_attr attr = precise_every(2);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 count[2];
	int i;

	/*
	 * Tests only the module with its default limits: perf's limits are lifted, and the other
	 * variant sets parameters of its own.
	 */
	if (variant->maker == &event_maker_perf || variant->parameters)
		return;
	ASSERT_EQ(0, module_reload("perf_event_max_sample_rate=1250"));
	attr.read_format = PERF_FORMAT_LOST;
	open_sampler(_metadata, variant, s, attr, 0);
	/* On a busy host a tick has few instructions, and so few interrupts. */
	for (i = 0; i < 200 || (!t.times && i < 5000); i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(N);
		ASSERT_EQ(0, event_disable(s->fd));
		read_throttling(_metadata, s, &t, &sums);
	}
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	TH_LOG("throttled %lu times, %lu samples, %lu lost", t.times, sums.samples, sums.lost);
	EXPECT_EQ(0UL, t.wrong);
	EXPECT_LT(0UL, t.times);
	EXPECT_LT(0UL, sums.samples);
	EXPECT_LT(0UL, sums.lost);
	/*
	 * LOST records also have the number of lost THROTTLE records. A sample may be due and not
	 * taken yet.
	 */
	ASSERT_EQ((ssize_t)sizeof(count), read(s->fd, count, sizeof(count)));
	EXPECT_GE(count[0] / 2, sums.samples + count[1]);
	EXPECT_LE(count[0] / 2 - 1, sums.samples + count[1]);
	sampler_close(s);
	EXPECT_EQ(0, module_reload(""));
}

/* Returns the NMIs of a loop with a sample every two instructions, and sets its @ticks. */
static long long nmis_of_loop(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			      const FIXTURE_VARIANT(event) *variant, const char *parameters,
			      long long *ticks)
{
	struct sampler *s = &self->samplers[0];
	long long before;

	ASSERT_EQ(0, module_reload(parameters));
	open_sampler(_metadata, variant, s, precise_every(2), 0);
	before = cpu_nmis();
	*ticks = cpu_interrupts_of("LOC", 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(50 * N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_close(s);
	*ticks = cpu_interrupts_of("LOC", 0) - *ticks;
	return cpu_nmis() - before;
}

/* While samples are throttled, the processor interrupts for none of them. */
TEST_F(event, throttled_samples_cause_no_interrupts)
{
	long long all, few, ticks;

	if (variant->maker == &event_maker_perf || variant->parameters)
		return;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	all = nmis_of_loop(_metadata, self, variant,
			   "perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0", &ticks);
	/*
	 * With the limit there is one interrupt in each tick of 4 ms. On a busy host the loop takes
	 * many ticks.
	 */
	few = nmis_of_loop(_metadata, self, variant, "perf_event_max_sample_rate=250", &ticks);
	TH_LOG("%lld NMIs without limits, %lld in %lld ticks when throttled", all, few, ticks);
	EXPECT_LT(1000, all);
	EXPECT_GT(all / 4 + 2 * ticks, few);
	EXPECT_EQ(0, module_reload(""));
}

/* Samples of both modes: those of the kernel are marked as such. */
TEST_F(event, kernel_is_sampled_with_permission)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	unsigned long samples = 0, kernel = 0, wrong = 0, inexact = 0, interrupts, throttled = 0;
	int i;

	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	open_sampler(_metadata, variant, s, attr, 0);
	interrupts = all_interrupts();
	ASSERT_EQ(0, event_enable(s->fd));
	/* Few loops: the debug kernel takes 11,000 instructions for each sample, for which the ring has room. */
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
		mode = sample.misc & PERF_RECORD_MISC_CPUMODE_MASK;
		samples++;
		kernel += sample.ip >> 63;
		wrong += mode != (sample.ip >> 63 ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
		inexact += !(sample.misc & PERF_RECORD_MISC_EXACT_IP);
	}
	EXPECT_EQ(0UL, wrong);
	EXPECT_EQ(0UL, inexact);
	EXPECT_LT(0UL, kernel);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples - kernel + 1 + interrupts);
	expect_periods(_metadata, s, PERIOD, samples, throttled);
}

TEST_F(event, new_period_applies_to_the_next_samples)
{
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 period = 10007;

	open_sampler(_metadata, variant, s, precise_every(PERIOD), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ(sums.samples * PERIOD, sums.periods);
	sums = SAMPLE_SUMS_INIT;
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ(LOOP_INSNS * N / period, sums.samples);
	EXPECT_EQ(sums.samples * period, sums.periods);
}

/*
 * The places of samples of an event with a frequency: each sample is one period of its own after
 * the last one.
 */
struct place_in_period {
	struct places p;
	unsigned long changes;
};

static void check_place_in_period(const struct sample *s, void *data)
{
	struct place_in_period *r = data;

	r->changes += r->p.period != s->period;
	r->p.period = s->period;
	check_place(s, &r->p);
}

/*
 * Executes short pieces of the loop until one more sample has come, and reads all samples. Expects
 * that the sum of their periods is the count. (Each period may be longer than the period before, as
 * the frequency asks for.)
 */
static void expect_all_counted(struct __test_metadata *_metadata, struct sampler *s,
			       struct sample_sums *sums, struct place_in_period *r)
{
	const unsigned long piece = N / 100;
	__s64 rest;

	sampler_read(s, sums, check_place_in_period, r);
	ASSERT_EQ(0, sampler_loop_until_record(s, piece));
	sampler_read(s, sums, check_place_in_period, r);
	rest = event_count(s->fd) - (__s64)sums->periods;
	EXPECT_EQ(0UL, sums->lost);
	EXPECT_LE(0, rest);
	/* The piece, and the calls around it. */
	EXPECT_GE((__s64)(LOOP_INSNS * piece + 200), rest);
}

/*
 * Returns whether the number of samples is about right. Emulated time is uneven: there are fewer
 * samples while the host has other work, and afterwards more, until the period is adjusted. With
 * EVEN, time is counted in instructions (run --icount).
 */
static bool is_right_rate(__u64 wanted, unsigned long samples)
{
	if (env_number("EVEN", 0))
		return samples >= wanted - wanted / 8 && samples <= wanted + wanted / 8;
	return samples >= wanted / 8 && samples <= wanted * 3;
}

/* If the CPU stands still, time passes without samples, and the loop is executed again. */
#define ATTEMPTS	10

/* The first period is chosen for an event that happens 10^9 times a second. */
static void sample_with_frequency(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				  const FIXTURE_VARIANT(event) *variant, __u64 config)
{
	const __u64 frequency = 1000;
	struct perf_event_attr attr = precise_every(frequency);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct place_in_period r = { .p = { .tid = gettid() } };
	__u64 read_out[3] = { 0 }, before, wanted;
	bool is_right = false;
	unsigned long samples;
	int i;

	attr.freq = 1;
	attr.config = config;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < ATTEMPTS && !is_right; i++) {
		before = read_out[2];
		samples = sums.samples;
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(500 * N);
		ASSERT_EQ(0, event_disable(s->fd));
		ASSERT_EQ((ssize_t)sizeof(read_out), read(s->fd, read_out, sizeof(read_out)));
		sampler_read(s, &sums, check_place_in_period, &r);
		wanted = (read_out[2] - before) * frequency / 1000000000;
		samples = sums.samples - samples;
		TH_LOG("%s: %lu samples, %llu wanted, %lu changes", variant->maker->name, samples,
		       wanted, r.changes);
		is_right = is_right_rate(wanted, samples);
	}
	EXPECT_TRUE(is_right);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_TRUE(sums.ordered);
	EXPECT_EQ(0UL, r.p.wrong);
	/* perf's samples have the next period. */
	if (variant->maker == &event_maker_perf)
		return;
	expect_all_counted(_metadata, s, &sums, &r);
	if (config == PERF_COUNT_HW_INSTRUCTIONS)
		EXPECT_GE(2 * i + r.p.inside / 500, r.p.displaced);
}

TEST_F(event, frequency_is_the_number_of_samples_per_second)
{
	sample_with_frequency(_metadata, self, variant, PERF_COUNT_HW_INSTRUCTIONS);
}

TEST_F(event, frequency_follows_the_rate_of_the_event)
{
	sample_with_frequency(_metadata, self, variant, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
}

TEST_F(event, new_frequencies_lose_no_events)
{
	const __u64 frequencies[] = { 1000, 100, 3000 };
	struct perf_event_attr attr = precise_every(1000);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct place_in_period r = { .p = { .tid = gettid() } };
	unsigned int i;

	/* perf starts a new period. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.freq = 1;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < 30; i++) {
		__u64 frequency = frequencies[i % ARRAY_SIZE(frequencies)];

		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&frequency));
		ASSERT_EQ(0, sampler_loop_until_record(s, 10 * N));
		sampler_read(s, &sums, check_place_in_period, &r);
	}
	expect_all_counted(_metadata, s, &sums, &r);
}

/* Samples in another event's ring count for the wake-ups that this event asks for. */
TEST_F(event, samples_wake_the_reader_of_another_ring)
{
	struct perf_event_attr owner = event_every(1UL << 30), attr = precise_every(1009);
	struct sampler *s = &self->samplers[0];
	struct pollfd polled = { .events = POLLIN };
	int fd;

	/* perf counts the samples of each event separately. */
	if (variant->maker == &event_maker_perf)
		return;
	owner.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	owner.wakeup_events = 1;
	open_sampler(_metadata, variant, s, owner, 0);
	fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->fd));
	polled.fd = s->fd;
	ASSERT_EQ(0, poll(&polled, 1, 0));
	ASSERT_EQ(0, event_enable(fd));
	labelled_loop(2000);
	ASSERT_EQ(0, event_disable(fd));
	EXPECT_FALSE(event_ring_is_empty(&s->ring));
	EXPECT_EQ(1, poll(&polled, 1, 0));
	EXPECT_EQ(POLLIN, polled.revents);
	close(fd);
}

/* A CPU that goes offline loses no samples, and its samples continue when it is online again. */
TEST_F(event, samples_survive_cpu_hotplug)
{
	struct { int home, cpu, online; } cpus, *c = &cpus;
	struct job job = { .n = 20 * N, .pieces = 20 };
	struct places p = { .period = 4999 };
	struct sampler *s = &self->samplers[0];
	struct target *t = &self->targets[0];
	int i;

	FIND_CPU_TO_SWITCH(c);
	ASSERT_EQ(0, pin_to_cpu(c->home));
	ASSERT_EQ(0, target_start(t, -1, false));
	p.tid = t->tid;
	open_sampler(_metadata, variant, s, precise_every(p.period), t->tid);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_start_job(t, job));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, cpu_set_online(c->online, "0"));
		EXPECT_EQ(0, cpu_set_online(c->online, "1"));
	}
	ASSERT_EQ(0, target_wait_job(t));
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, p.period, check_place, &p);
	EXPECT_EQ(0UL, p.wrong);
	EXPECT_LE(20 * 20 * LOOP_INSNS * N / p.period, p.inside + 1);
	/* A sample that is due at the first instruction after a switch is taken at the second. */
	EXPECT_GE(p.inside / 100, p.displaced);
	close(c->online);
}

/* Legal values that no other software writes */
static const struct { __u32 msr; __u64 value; } foreign_values[] = {
	{ MSR_IA32_DS_AREA, 0xffffc90012345000 },
	{ MSR_PEBS_DATA_CFG, 1 },	/* from format 4 on */
	{ MSR_PEBS_ENABLE, 3 },
};

TEST_F(event, registers_are_left_as_they_were)
{
	bool present[ARRAY_SIZE(foreign_values)];
	struct sampler *s = &self->samplers[0];
	__u64 before[ARRAY_SIZE(foreign_values)], after;
	unsigned int i;

	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < ARRAY_SIZE(foreign_values); i++) {
		present[i] = !msr_read(self->cpu, foreign_values[i].msr, &before[i]);
		if (present[i])
			ASSERT_EQ(0, msr_write(self->cpu, foreign_values[i].msr, foreign_values[i].value));
	}
	EXPECT_TRUE(present[0] && present[2]);
	open_sampler(_metadata, variant, s, precise_every(PERIOD), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_close(s);
	ASSERT_EQ(0, wait_until_idle());
	/* Restores PEBS_ENABLE first, because no counter may have PEBS while DS_AREA is wrong. */
	for (i = ARRAY_SIZE(foreign_values); i--; ) {
		if (!present[i])
			continue;
		ASSERT_EQ(0, msr_read(self->cpu, foreign_values[i].msr, &after));
		/*
		 * Leaves out DS_AREA with a place-holder: when perf opened this event, it wrote its
		 * own address.
		 */
		if (foreign_values[i].msr == MSR_IA32_DS_AREA && module_has_place_holder())
			continue;
		EXPECT_EQ(foreign_values[i].value, after) {
			TH_LOG("MSR %#x", foreign_values[i].msr);
		}
		ASSERT_EQ(0, msr_write(self->cpu, foreign_values[i].msr, before[i]));
	}
}

/* Attributes that the processor's samples do not support. */
static void has_address(struct perf_event_attr *a) { a->sample_type |= PERF_SAMPLE_ADDR; }
static void has_transaction(struct perf_event_attr *a) { a->sample_type |= PERF_SAMPLE_TRANSACTION; }
static void has_physical_address(struct perf_event_attr *a) { a->sample_type |= PERF_SAMPLE_PHYS_ADDR; }
static void has_period_1(struct perf_event_attr *a) { a->sample_period = 1; }
static void has_long_period(struct perf_event_attr *a) { a->sample_period = 1ULL << 31; }

static void has_no_period(struct perf_event_attr *a)
{
	a->sample_period = 0;
}

static void is_short_in_kernel(struct perf_event_attr *a)
{
	a->exclude_kernel = 0;
	a->sample_period = 255;
}

static void is_dummy(struct perf_event_attr *a)
{
	a->type = PERF_TYPE_SOFTWARE;
	a->config = PERF_COUNT_SW_DUMMY;
}

static void (*const unsupported_changes[])(struct perf_event_attr *a) = {
	has_address, has_transaction, has_physical_address, has_no_period, has_period_1, has_long_period, is_short_in_kernel,
	is_dummy,
};

TEST_F(event, unsupported_attributes_are_refused)
{
	unsigned int i;

	/*
	 * Tests only the module: perf supports these attributes, or opens events that have no
	 * samples.
	 */
	if (variant->maker == &event_maker_perf)
		return;
	for (i = 0; i < ARRAY_SIZE(unsupported_changes); i++) {
		struct perf_event_attr attr = precise_every(PERIOD);

		/*
		 * The format that merges samples supports period 1 (precise_each.c), and is the
		 * only one without an address.
		 */
		if (unsupported_changes[i] == (env_number("MERGED", 0) ? has_period_1 : has_address))
			continue;
		unsupported_changes[i](&attr);
		EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0)) {
			TH_LOG("case %u", i);
		}
	}
}

/* A failed call changes nothing. */
TEST_F(event, period_of_each_event_is_refused)
{
	struct sampler *s = &self->samplers[0];
	__u64 period = 1;

	if (variant->maker == &event_maker_perf)
		return;
	open_sampler(_metadata, variant, s, precise_every(PERIOD), 0);
	EXPECT_EQ(-EOPNOTSUPP, event_ioctl(s->fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period));
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	check_places(_metadata, variant, s, PERIOD, gettid(), LOOP_INSNS * N);
}

TEST_HARNESS_MAIN
