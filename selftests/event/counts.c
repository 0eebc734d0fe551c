// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts in records: samples with the result of read(2) (PERF_SAMPLE_READ), and the count of
 * an exiting task (PERF_RECORD_READ).
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"

#define PERIOD		50021UL
#define PERIODS		100
#define CHILDREN	4

/* The largest number of events that are counted after an overflow until the counter is stopped. */
#define SKID		200

FIXTURE(event)
{
	struct sampler sampler;
	int sibling;
	int cpu;	/* the first CPU */
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	self->sibling = -1;
	prepare_maker(_metadata, variant);
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	if (self->sibling >= 0)
		close(self->sibling);
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Returns attributes of an event whose samples have counts in this format. */
static struct perf_event_attr every_period_with_counts(__u64 read_format)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = read_format;
	return attr;
}

/* Reads the first count of a group. */
static __s64 read_first(const struct sampler *s)
{
	__s64 words[2];

	return read(s->fd, words, sizeof(words)) == sizeof(words) ? words[1] : -errno;
}

/* The expected counts in the samples of one task, and the counts in its last sample. */
struct count_findings {
	pid_t tid;		/* samples of other tasks are ignored */
	__u64 read_format, id, sibling_id;
	unsigned long samples, wrong;
	__u64 count, sibling, enabled;	/* values of the last sample */
};

static void check_sample(const struct sample *s, void *data)
{
	struct count_findings *t = data;
	const __u64 *word = s->counts;
	__u64 running = 0, enabled = 0, count = 0, due = (t->samples + 1) * PERIOD;

	if (t->tid && s->tid != (__u32)t->tid)
		return;
	if (t->read_format & PERF_FORMAT_GROUP)
		t->wrong += *word++ != (t->sibling_id ? 2 : 1);
	else
		count = *word++;
	if (t->read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		enabled = *word++;
	if (t->read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		running = *word++;
	if (t->read_format & PERF_FORMAT_GROUP)
		count = *word++;
	if (t->read_format & PERF_FORMAT_ID)
		t->wrong += *word++ != t->id;
	if (t->read_format & PERF_FORMAT_LOST)
		t->wrong += !!*word++;
	t->wrong += count < due || count > due + SKID;
	t->wrong += enabled && running && enabled != running;
	t->wrong += enabled && enabled <= t->enabled;
	if (t->sibling_id) {
		/* There is about one branch for LOOP_INSNS instructions. */
		__u64 sibling = *word++;

		t->wrong += t->samples && (sibling - t->sibling < PERIOD / LOOP_INSNS - SKID ||
					   sibling - t->sibling > PERIOD / LOOP_INSNS + SKID);
		t->sibling = sibling;
		if (t->read_format & PERF_FORMAT_ID)
			t->wrong += *word++ != t->sibling_id;
	}
	t->samples++;
	t->count = count;
	t->enabled = enabled;
}

/* Samples a loop of this task. Expects PERIODS samples with the right counts. */
static void sample_loop(struct __test_metadata *_metadata, struct sampler *s,
			struct count_findings *check)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	check->id = event_id(s->fd);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop((PERIODS * PERIOD + PERIOD / 2) / LOOP_INSNS);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_sample, check);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ((unsigned long)PERIODS, check->samples);
	EXPECT_EQ(0UL, check->wrong) {
		TH_LOG("read_format %#llx, the last count %llu", check->read_format, check->count);
	}
}

TEST_F(event, samples_have_the_count)
{
	const __u64 all = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
			  PERF_FORMAT_ID | PERF_FORMAT_GROUP | PERF_FORMAT_LOST;
	__u64 format;

	for (format = 0; format <= all; format++) {
		struct perf_event_attr attr = every_period_with_counts(format);
		struct count_findings check = { .read_format = format };

		ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 5));
		sample_loop(_metadata, &self->sampler, &check);
		sampler_close(&self->sampler);
	}
}

/* Samples the leader of the group, then its sibling. */
TEST_F(event, samples_have_the_counts_of_a_group)
{
	const __u64 format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED;
	struct perf_event_attr attr = every_period_with_counts(format);
	struct count_findings check = { .read_format = format };
	struct perf_event_attr branches = event_instructions();

	branches.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	branches.disabled = 0;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	self->sibling = variant->maker->open(&branches, 0, -1, self->sampler.fd, 0);
	ASSERT_LE(0, self->sibling);
	check.sibling_id = event_id(self->sibling);
	sample_loop(_metadata, &self->sampler, &check);
}

/* Checks the number of events in the counts of a group's sample. */
static void check_member_count(const struct sample *s, void *data)
{
	__u64 *wrong = data;

	*wrong += s->counts[0] != 3;
}

/* The sibling is sampled, too. The samples of the sibling have only its own count. */
TEST_F(event, group_counts_are_complete_beside_a_sampled_sibling)
{
	struct perf_event_attr attr = every_period_with_counts(PERF_FORMAT_GROUP);
	struct perf_event_attr sampled = every_period_with_counts(0);
	struct perf_event_attr counted = event_instructions();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 wrong = 0;
	int last;

	sampled.sample_period = 20011;
	sampled.disabled = counted.disabled = 0;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	self->sibling = variant->maker->open(&sampled, 0, -1, self->sampler.fd, 0);
	ASSERT_LE(0, self->sibling);
	last = variant->maker->open(&counted, 0, -1, self->sampler.fd, 0);
	ASSERT_LE(0, last);
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(PERIODS * PERIOD / LOOP_INSNS);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &sums, check_member_count, &wrong);
	EXPECT_LE((unsigned long)PERIODS, sums.samples);
	EXPECT_EQ(0ULL, wrong);
	close(last);
}

/* The handler counts its own instructions, and reads the counter more than once. */
TEST(counts_of_the_kernel_stay_plausible)
{
	static const __u64 periods[] = { 100, 400, 1201 };
	unsigned int i, n;

	/* Reloads the module with Linux's default limit of the time of samples. */
	ASSERT_EQ(0, module_reload("perf_cpu_time_max_percent=25"));
	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		struct perf_event_attr attr = every_period_with_counts(PERF_FORMAT_GROUP);
		struct sampler s;

		attr.sample_period = periods[i];
		attr.exclude_kernel = 0;
		ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, 0, -1, 7));
		ASSERT_EQ(0, event_enable(s.fd));
		for (n = 0; n < 20000; n++)
			getppid();
		ASSERT_EQ(0, event_disable(s.fd));
		EXPECT_LT(0, read_first(&s));
		EXPECT_GT(1LL << 32, read_first(&s)) {
			TH_LOG("period %llu: %#llx", periods[i], read_first(&s));
		}
		sampler_close(&s);
	}
	EXPECT_EQ(0, module_reload(""));
}

/* The samples of each thread have the thread's own count. */
TEST_F(event, samples_of_inheriting_tasks_have_their_own_counts)
{
	struct perf_event_attr attr = every_period_with_counts(0);
	struct count_findings check[2] = { { .tid = getpid() }, { .tid = 0 } };
	int status;
	pid_t pid;

	attr.inherit = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, self->cpu, 7));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(20 * PERIOD / LOOP_INSNS);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		labelled_loop(30 * PERIOD / LOOP_INSNS);
		_exit(0);
	}
	check[1].tid = pid;
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	labelled_loop(20 * PERIOD / LOOP_INSNS);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	while (event_ring_next(&self->sampler.ring, &self->sampler.record)) {
		struct sample s;

		if (self->sampler.record.header.type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(sample_parse(&self->sampler.record, &self->sampler.parts, &s));
		check_sample(&s, &check[0]);
		check_sample(&s, &check[1]);
	}
	EXPECT_LE(40UL, check[0].samples);
	EXPECT_LE(30UL, check[1].samples);
	EXPECT_EQ(0UL, check[0].wrong);
	EXPECT_EQ(0UL, check[1].wrong);
}

/* The children execute different multiples of STEP instructions. */
#define STEP		(10 * PERIOD)

/* The contents of a task's PERF_RECORD_READ. */
struct exit_record {
	unsigned int records;
	__u64 count, enabled;
};

/* Children on alternating CPUs: each has one record for each event that it inherits. */
TEST_F(event, exiting_task_records_its_count)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler *s = &self->sampler;
	struct exit_record ended[CHILDREN] = { { 0 } };
	__u64 around = 0;	/* instructions of a child around its loop */
	pid_t pid[CHILDREN];
	int i, status;

	attr.inherit = 1;
	attr.inherit_stat = 1;
	attr.sample_id_all = 1;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_IDENTIFIER;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_ID;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, 3));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			loop((i + 1) * STEP / LOOP_INSNS);
			_exit(0);
		}
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	while (event_ring_next(&s->ring, &s->record)) {
		const __u64 *words = s->record.words;

		ASSERT_EQ(PERF_RECORD_READ, (int)s->record.header.type);
		/* The task that exited; count, time, id; the task that writes the record, identifier. */
		ASSERT_EQ(8 + 6 * sizeof(__u64), s->record.header.size);
		for (i = 0; i < CHILDREN; i++)
			if ((pid_t)words[0] == pid[i])
				break;
		ASSERT_NE(CHILDREN, i);
		EXPECT_EQ((__u64)pid[i] << 32 | pid[i], words[0]);
		EXPECT_EQ(words[0], words[4]);
		EXPECT_EQ(event_id(s->fd), words[3]);
		EXPECT_EQ(event_id(s->fd), words[5]);
		ended[i].records++;
		ended[i].count = words[1];
		ended[i].enabled = words[2];
	}
	for (i = 0; i < CHILDREN; i++) {
		/*
		 * No record is right, too: the task may have had the parent's own event, which
		 * writes no record.
		 */
		if (variant->maker->children_swap_periods && !ended[i].records)
			continue;
		EXPECT_EQ(1U, ended[i].records);
		EXPECT_NE(0ULL, ended[i].enabled);
		/* perf may exchange the counts of parent and child. */
		if (variant->maker->children_swap_periods)
			continue;
		EXPECT_LE((i + 1) * STEP, ended[i].count);
		if (!around)
			around = ended[i].count - (i + 1) * STEP;
		EXPECT_EQ((i + 1) * STEP + around, ended[i].count);
		EXPECT_GE((i + 1) * STEP + 10000, ended[i].count);
	}
}

/*
 * With remove_on_exec the event ends for a child that executes a program: the record has the child's
 * count until then.
 */
TEST_F(event, exec_that_ends_the_event_records_the_count)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler *s = &self->sampler;
	int status;
	pid_t pid;

	attr.inherit = 1;
	attr.inherit_stat = 1;
	attr.remove_on_exec = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, 3));
	ASSERT_EQ(0, event_enable(s->fd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		loop(STEP / LOOP_INSNS);
		execlp("pmctl_loop", "pmctl_loop", "1000000", NULL);
		_exit(127);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, event_disable(s->fd));
	/*
	 * With perf there may be no record: the child may have had the parent's own event, which
	 * writes none.
	 */
	if (!event_ring_next(&s->ring, &s->record)) {
		EXPECT_TRUE(variant->maker->children_swap_periods);
		return;
	}
	EXPECT_EQ(PERF_RECORD_READ, (int)s->record.header.type);
	EXPECT_EQ((__u64)pid << 32 | pid, s->record.words[0]);
	/*
	 * perf exchanges the events of parent and child. In some runs its record had the parent's
	 * count, 188 instructions.
	 */
	if (!variant->maker->children_swap_periods) {
		EXPECT_LE(STEP, s->record.words[1]);
		EXPECT_GT(STEP + 100000, s->record.words[1]);
	}
	EXPECT_FALSE(event_ring_next(&s->ring, &s->record));
}

/* With an event for each CPU, an exiting task writes its count on each CPU into that CPU's ring. */
TEST_F(event, exiting_task_records_its_count_on_each_cpu)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler *s = &self->sampler;
	cpu_set_t cpus;
	int status, other;
	pid_t pid;

	ASSERT_EQ(0, cpus_online(&cpus));
	other = cpu_next(&cpus, self->cpu);
	/* There is no record with one CPU, or if the child may have the parent's own event. */
	if (other < 0 || variant->maker->children_swap_periods)
		return;
	attr.inherit = 1;
	attr.inherit_stat = 1;
	ASSERT_EQ(0, pin_to_cpu(other));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, 3));
	ASSERT_EQ(0, event_enable(s->fd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (pin_to_cpu(self->cpu))
			_exit(1);
		loop(STEP / LOOP_INSNS);
		_exit(!!pin_to_cpu(other));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
	EXPECT_EQ(PERF_RECORD_READ, (int)s->record.header.type);
	EXPECT_EQ((__u64)pid << 32 | pid, s->record.words[0]);
	/* The task was counted nowhere else, so it has the whole count of the event. */
	EXPECT_EQ((__u64)event_count(s->fd), s->record.words[1]);
	EXPECT_LE(STEP, s->record.words[1]);
	EXPECT_FALSE(event_ring_next(&s->ring, &s->record));
}

#define EVENTS_ON_EACH_CPU	32

/*
 * The events are opened in the order of `perf record -e a,b`: the first event on all CPUs, then the
 * second. An exiting task calls each CPU only once for all its records there, and not once for each
 * event.
 */
TEST_F(event, exiting_task_calls_a_cpu_once_for_several_records)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler samplers[2] = { { .fd = -1 }, { .fd = -1 } };
	int fds[2 * EVENTS_ON_EACH_CPU], status, other, i, n = 0;
	unsigned long records = 0;
	long long calls;
	cpu_set_t cpus;
	pid_t busy, pid;

	ASSERT_EQ(0, cpus_online(&cpus));
	other = cpu_next(&cpus, self->cpu);
	if (other < 0 || variant->maker->children_swap_periods)
		return;
	/* The CPU has to be busy, because an idle CPU may be called without an interrupt. */
	busy = fork();
	if (!busy) {
		if (pin_to_cpu(other))
			_exit(1);
		for (;;)
			loop(STEP);
	}
	ASSERT_LT(0, busy);
	attr.inherit = 1;
	attr.inherit_stat = 1;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, sampler_open(&samplers[i], variant->maker, &attr, 0,
					  i ? other : self->cpu, 3));
	for (n = 0; n < 2 * EVENTS_ON_EACH_CPU; n++) {
		fds[n] = variant->maker->open(&attr, 0, n % 2 ? other : self->cpu,
					      samplers[n % 2].fd,
					      PERF_FLAG_FD_OUTPUT | PERF_FLAG_FD_NO_GROUP);
		ASSERT_LE(0, fds[n]);
	}
	calls = cpu_interrupts_of("CAL", other);
	pid = fork();
	if (!pid)
		_exit(0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	calls = cpu_interrupts_of("CAL", other) - calls;
	for (i = 0; i < 2; i++)
		while (event_ring_next(&samplers[i].ring, &samplers[i].record))
			records += samplers[i].record.header.type == PERF_RECORD_READ;
	EXPECT_EQ(2UL + 2 * EVENTS_ON_EACH_CPU, records);
	EXPECT_GT(EVENTS_ON_EACH_CPU / 2, calls);
	kill(busy, SIGKILL);
	waitpid(busy, NULL, 0);
	while (n)
		close(fds[--n]);
	for (i = 0; i < 2; i++)
		sampler_close(&samplers[i]);
}

/* Returns the time for which this thread has run, in nanoseconds. */
static __u64 run_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* The test reads two events one by one: each record has the event's own time, as in read(2). */
TEST_F(event, exit_record_of_a_sibling_has_its_own_time)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler *s = &self->sampler;
	__u64 enabled[2] = { 0, 0 }, *alone = map_shared(_metadata, sizeof(*alone));
	int status;
	pid_t pid;

	/* The child may have the parent's own event, which writes no record. */
	if (variant->maker->children_swap_periods)
		return;
	attr.inherit = 1;
	attr.inherit_stat = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_ID;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, 3));
	self->sibling = variant->maker->open(&attr, 0, self->cpu, s->fd, 0);
	ASSERT_LE(0, self->sibling);
	ASSERT_EQ(0, event_ioctl(self->sibling, PERF_EVENT_IOC_SET_OUTPUT, s->fd));
	ASSERT_EQ(0, event_enable(s->fd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		*alone = run_time();
		loop(100 * STEP);
		*alone = run_time() - *alone;
		status = event_enable(self->sibling);
		loop(STEP);
		_exit(-status);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	while (event_ring_next(&s->ring, &s->record)) {
		ASSERT_EQ(PERF_RECORD_READ, (int)s->record.header.type);
		/* The task that exited; count, time, id. */
		enabled[s->record.words[3] == event_id(self->sibling)] = s->record.words[2];
	}
	EXPECT_LT(0ULL, enabled[1]);
	/* The clocks of both times may differ a little. */
	ASSERT_LT(0ULL, *alone);
	EXPECT_LT(enabled[1] + *alone / 2, enabled[0]);
}

TEST_HARNESS_MAIN
