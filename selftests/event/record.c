// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records of events in the life of tasks: new names, new tasks, exits and context switches.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define PROGRAM		"/usr/lib/perfmon/pmctl_loop"
#define ORDER		5

/* The size of the trailer of each record, which has ALL_TRAILER_PARTS. */
#define TRAILER_SIZE	(6 * 8)

FIXTURE(event)
{
	struct target target[2];
	struct sampler sampler;
	int cpu;	/* the first CPU */
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target[0]);
	target_kill(&self->target[1]);
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Attributes of an event that counts, without samples. */
static struct perf_event_attr recording_attr(void)
{
	struct perf_event_attr attr = event_instructions();

	attr.sample_type = ALL_TRAILER_PARTS;
	attr.sample_id_all = 1;
	return attr;
}

/* A record of fork or exit, which has two tasks. */
struct task_record {
	struct perf_event_header header;
	__u32 pid, ppid, tid, ptid;
	__u64 time;
};

struct comm_record {
	struct perf_event_header header;
	__u32 pid, tid;
	char name[];
};

/* Reads the next record. Expects this type and the trailer. */
static const void *next_record(struct __test_metadata *_metadata, struct sampler *s, __u32 kind,
			pid_t tid, struct sample *end)
{
	__u64 id = event_id(s->fd);

	ASSERT_TRUE(event_ring_next(&s->ring, &s->record)) {
		TH_LOG("no record of type %u", kind);
	}
	EXPECT_EQ(kind, s->record.header.type);
	ASSERT_TRUE(sample_parse_trailer(&s->record, ALL_TRAILER_PARTS, end));
	EXPECT_EQ((__u32)tid, end->tid);
	EXPECT_EQ(id, end->id);
	EXPECT_EQ(id, end->stream_id);
	EXPECT_EQ(id, end->identifier);
	EXPECT_NE(0ULL, end->time);
	return &s->record;
}

static void expect_no_more(struct __test_metadata *_metadata, struct sampler *s)
{
	EXPECT_FALSE(event_ring_next(&s->ring, &s->record)) {
		TH_LOG("unexpected record of type %u", s->record.header.type);
	}
}

static void expect_name(struct __test_metadata *_metadata, struct sampler *s, pid_t pid,
			const char *name, __u16 misc)
{
	struct sample end;
	const struct comm_record *n = next_record(_metadata, s, PERF_RECORD_COMM, pid, &end);
	size_t room = (strlen(name) + 8) / 8 * 8;

	EXPECT_EQ(misc, n->header.misc);
	EXPECT_EQ(sizeof(*n) + room + TRAILER_SIZE, n->header.size);
	EXPECT_EQ((__u32)pid, n->pid);
	EXPECT_EQ((__u32)pid, n->tid);
	EXPECT_EQ((__u32)pid, end.pid);
	EXPECT_STREQ(name, n->name);
}

/* With the terminating 0, each name takes one or two words. */
static const char *const names[] = { "a", "sevench", "eightchr", "fifteen_letters", "" };

TEST_F(event, new_name_is_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	unsigned int i;

	attr.comm = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		ASSERT_EQ(0, prctl(PR_SET_NAME, names[i]));
		expect_name(_metadata, s, getpid(), names[i], 0);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "unseen"));
	expect_no_more(_metadata, s);
}

/* A thread that waits until a byte is written to the pipe `end`. */
struct waiting_thread {
	pid_t tid;
	int end[2];
};

static void *wait_for_byte(void *data)
{
	struct waiting_thread *thread = data;
	char byte;

	__atomic_store_n(&thread->tid, gettid(), __ATOMIC_RELEASE);
	return read(thread->end[0], &byte, 1) == 1 ? data : NULL;
}

/* A program may name its threads from another thread. The trailer says which thread that is. */
TEST_F(event, name_given_by_another_thread_is_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct waiting_thread waiting = {};
	struct sampler *s = &self->sampler;
	const struct comm_record *n;
	struct sample end;
	pthread_t thread;
	char path[64];

	ASSERT_EQ(0, pipe(waiting.end));
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_byte, &waiting));
	while (!__atomic_load_n(&waiting.tid, __ATOMIC_ACQUIRE))
		sched_yield();
	attr.comm = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", waiting.tid);
	ASSERT_EQ(0, write_file(path, "worker"));
	n = next_record(_metadata, s, PERF_RECORD_COMM, gettid(), &end);
	EXPECT_EQ(0, n->header.misc);
	EXPECT_EQ((__u32)getpid(), n->pid);
	EXPECT_EQ((__u32)waiting.tid, n->tid);
	EXPECT_STREQ("worker", n->name);
	expect_no_more(_metadata, s);
	ASSERT_EQ(1, write(waiting.end[1], "", 1));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	close(waiting.end[0]);
	close(waiting.end[1]);
}

TEST_F(event, records_have_no_trailer_without_sample_id_all)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;

	attr.comm = 1;
	attr.sample_id_all = 0;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "short"));
	ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
	EXPECT_EQ((__u32)PERF_RECORD_COMM, s->record.header.type);
	EXPECT_EQ(sizeof(struct comm_record) + 8, s->record.header.size);
	expect_no_more(_metadata, s);
}

/* The name of the program that enables the event by exec is recorded. */
TEST_F(event, name_of_an_executed_program_is_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	const struct task_record *r;
	struct sample end;
	int start_pipe, status;
	pid_t pid;

	attr.comm = 1;
	attr.task = 1;
	attr.enable_on_exec = 1;
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_NAME, "unseen");
		execl(PROGRAM, PROGRAM, "1000", NULL);
		_exit(127);
	}
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, pid, -1, ORDER));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	expect_name(_metadata, s, pid, "pmctl_loop", PERF_RECORD_MISC_COMM_EXEC);
	r = next_record(_metadata, s, PERF_RECORD_EXIT, pid, &end);
	EXPECT_EQ((__u32)pid, r->pid);
	EXPECT_EQ((__u32)pid, r->tid);
	EXPECT_EQ((__u32)getpid(), r->ppid);
	EXPECT_EQ((__u32)getpid(), r->ptid);
	EXPECT_EQ(sizeof(*r) + TRAILER_SIZE, r->header.size);
	expect_no_more(_metadata, s);
	EXPECT_LT(1000, event_count(s->fd));
}

static void *store_tid(void *tid)
{
	*(pid_t *)tid = gettid();
	return NULL;
}

TEST_F(event, new_tasks_are_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	const struct task_record *r;
	struct sample end;
	pthread_t thread;
	__u64 last = 0;
	pid_t tid;

	attr.task = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, pthread_create(&thread, NULL, store_tid, &tid));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	r = next_record(_metadata, s, PERF_RECORD_FORK, gettid(), &end);
	EXPECT_EQ((__u32)getpid(), r->pid);
	EXPECT_EQ((__u32)tid, r->tid);
	EXPECT_EQ((__u32)getpid(), r->ppid);
	EXPECT_EQ((__u32)gettid(), r->ptid);
	EXPECT_LT(last, r->time);
	last = r->time;
	tid = fork();
	ASSERT_LE(0, tid);
	if (!tid)
		_exit(0);
	ASSERT_EQ(tid, waitpid(tid, NULL, 0));
	r = next_record(_metadata, s, PERF_RECORD_FORK, gettid(), &end);
	EXPECT_EQ((__u32)tid, r->pid);
	EXPECT_EQ((__u32)tid, r->tid);
	EXPECT_EQ((__u32)getpid(), r->ppid);
	EXPECT_EQ((__u32)gettid(), r->ptid);
	EXPECT_LT(last, r->time);
	EXPECT_EQ(sizeof(*r) + TRAILER_SIZE, r->header.size);
	expect_no_more(_metadata, s);
}

/* Reads the rings of all CPUs, since inheriting tasks write to the ring of their CPU. */
TEST_F(event, exits_of_inheriting_tasks_are_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	unsigned int exits = 0, forks = 0, i;
	pid_t pid;

	attr.task = 1;
	attr.inherit = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, self->cpu, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 5; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(0);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	}
	while (event_ring_next(&s->ring, &s->record)) {
		exits += s->record.header.type == PERF_RECORD_EXIT;
		forks += s->record.header.type == PERF_RECORD_FORK;
	}
	EXPECT_EQ(5U, exits);
	EXPECT_EQ(5U, forks);
}

/* Switches out and in alternate: the event is enabled and disabled while the task sleeps. */
TEST_F(event, switches_of_a_task_are_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	const struct perf_event_header *h;
	long out = 0, in = 0, before, after;
	int i;

	attr.context_switch = 1;
	ASSERT_EQ(0, target_start_ring(self->target, 2, self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, self->target[0].tid, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	before = target_switches(&self->target[0]);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], (struct job) { 1000, 50, STEP_PASS }));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
	ASSERT_EQ(0, event_disable(s->fd));
	after = target_switches(&self->target[0]);
	while (event_ring_next(&s->ring, &s->record)) {
		struct sample end;

		h = &s->record.header;
		ASSERT_EQ((__u32)PERF_RECORD_SWITCH, h->type);
		ASSERT_EQ(sizeof(*h) + TRAILER_SIZE, h->size);
		ASSERT_TRUE(sample_parse_trailer(&s->record, ALL_TRAILER_PARTS, &end));
		EXPECT_EQ((__u32)self->target[0].tid, end.tid);
		EXPECT_EQ((__u32)self->cpu, end.cpu);
		out += !!(h->misc & PERF_RECORD_MISC_SWITCH_OUT);
		in += !(h->misc & PERF_RECORD_MISC_SWITCH_OUT);
		EXPECT_EQ(h->misc & PERF_RECORD_MISC_SWITCH_OUT ? out : out + 1, in);
	}
	EXPECT_LE(50, out);
	EXPECT_EQ(after - before, out);
	EXPECT_EQ(out, in);
}

/*
 * Reads the SWITCH records of a ring. Counts the switches away from a task that could run on
 * (preemptions), and the switches away from a task that sleeps.
 */
static void count_switches_out(struct __test_metadata *_metadata, struct sampler *s,
			       unsigned long *runnable, unsigned long *asleep)
{
	*runnable = *asleep = 0;
	while (event_ring_next(&s->ring, &s->record)) {
		__u16 misc = s->record.header.misc;

		ASSERT_EQ((__u32)PERF_RECORD_SWITCH, s->record.header.type);
		if (misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) {
			EXPECT_TRUE(misc & PERF_RECORD_MISC_SWITCH_OUT);
			++*runnable;
		} else if (misc & PERF_RECORD_MISC_SWITCH_OUT) {
			++*asleep;
		}
	}
}

#define SLEEPS	10

/*
 * When the time slice of a program ends, in user mode or in the kernel, the switch counts as a
 * preemption, and not as a sleep.
 */
TEST_F(event, switches_of_a_busy_task_are_preemptions)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	unsigned long runnable, asleep;
	struct rusage before, begin, end, after;
	pid_t busy;
	int i;

	attr.context_switch = 1;
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	busy = fork();
	ASSERT_LE(0, busy);
	if (!busy) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	/*
	 * The event has recorded each switch between `begin` and `end`, and maybe others between `before`
	 * and `after`: the calls that enable and disable it may wait for another CPU.
	 */
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &before));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &begin));
	do {
		loop(1000);
		ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &end));
	} while (end.ru_nivcsw < begin.ru_nivcsw + 5);
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &after));
	count_switches_out(_metadata, s, &runnable, &asleep);
	EXPECT_LE(5UL, runnable);
	EXPECT_GE((unsigned long)(after.ru_nvcsw - before.ru_nvcsw), asleep);
	kill(busy, SIGKILL);
	ASSERT_EQ(busy, waitpid(busy, NULL, 0));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &before));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &begin));
	for (i = 0; i < SLEEPS; i++)
		usleep(1000);
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &end));
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &after));
	count_switches_out(_metadata, s, &runnable, &asleep);
	EXPECT_LT(0UL, asleep);
	EXPECT_LE((unsigned long)(end.ru_nvcsw - begin.ru_nvcsw), asleep);
	EXPECT_GE((unsigned long)(after.ru_nvcsw - before.ru_nvcsw), asleep);
}

/* Records of a CPU contain the task that is switched to or from. */
TEST_F(event, switches_of_a_cpu_are_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	struct {
		struct perf_event_header header;
		__u32 pid, tid;
	} const *r = (const void *)&s->record;
	unsigned long out = 0, in = 0, wrong = 0;
	__u32 running = 0;
	int i;

	attr.context_switch = 1;
	ASSERT_EQ(0, target_start_ring(self->target, 2, self->cpu));
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, -1, self->cpu, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], (struct job) { 1000, 50, STEP_PASS }));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
	ASSERT_EQ(0, event_disable(s->fd));
	while (event_ring_next(&s->ring, &s->record)) {
		struct sample end;

		ASSERT_EQ((__u32)PERF_RECORD_SWITCH_CPU_WIDE, r->header.type);
		ASSERT_EQ(sizeof(*r) + TRAILER_SIZE, r->header.size);
		ASSERT_TRUE(sample_parse_trailer(&s->record, ALL_TRAILER_PARTS, &end));
		if (r->header.misc & PERF_RECORD_MISC_SWITCH_OUT) {
			wrong += out && end.tid != running;
			running = r->tid;
			out++;
		} else {
			wrong += out && end.tid != running;
			running = end.tid;
			in++;
		}
	}
	EXPECT_LE(100UL, out);
	EXPECT_GE(1UL, out > in ? out - in : in - out);
	EXPECT_EQ(0UL, wrong);
}

TEST_HARNESS_MAIN
