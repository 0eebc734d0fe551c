// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples for which the processor interrupts each time. Such samples have call chains,
 * registers and counts, wake their reader, send signals, and are limited in number. Like other
 * precise samples, each sample is at exactly the instruction of the overflow.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "frames.h"
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
#include "register_loop.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	if (!prepare_precise(_metadata, variant, self->samplers))
		return;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	sampler_close(&self->samplers[0]);
	sampler_close(&self->samplers[1]);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr with_chains(__u64 period)
{
	struct perf_event_attr attr = precise_every(period);

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	return attr;
}

static const __u64 periods[] = { 2, 3, 7, 16, 101, 256, PERIOD, 10007, 100003 };

TEST_F(event, each_sample_is_at_the_predicted_instruction)
{
	struct sampler *s = &self->samplers[0];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		__u64 period = periods[i];
		/* The ring has room for the samples, and they are too few to be throttled. */
		unsigned long n = period < 101 ? 500 * period : period < 10007 ? N : 10 * N;

		sample_loop(_metadata, variant, s, with_chains(period), n);
		check_places(_metadata, variant, s, period, gettid(), LOOP_INSNS * n);
		sampler_close(s);
	}
}

/* Returns the NMIs and the samples of a loop. */
static long long nmis_of_loop(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			      const FIXTURE_VARIANT(event) *variant, struct perf_event_attr attr,
			      unsigned long *samples)
{
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	long long nmis;

	open_sampler(_metadata, variant, s, attr, 0);
	nmis = cpu_nmis();
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	nmis = cpu_nmis() - nmis;
	sampler_read(s, &sums, NULL, NULL);
	sampler_close(s);
	*samples = sums.samples;
	return nmis;
}

/*
 * While an event runs, it gets a ring whose reader is woken for each sample. From then on each
 * sample has an interrupt. (perf decides this when the event is opened.)
 */
TEST_F(event, a_new_ring_has_each_sample_at_once)
{
	struct perf_event_attr attr = precise_every(PERIOD), waking = event_instructions();
	struct sampler *s = &self->samplers[0];
	__u64 head;
	int fd;

	if (variant->maker == &event_maker_perf)
		return;
	attr.disabled = 0;
	fd = event_maker_perfmon.open(&attr, -1, self->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	waking.wakeup_events = 1;
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &waking, -1, self->cpu, 5));
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->fd));
	head = __atomic_load_n(&s->ring.page->data_head, __ATOMIC_RELAXED);
	labelled_loop(10 * PERIOD);
	EXPECT_NE(head, __atomic_load_n(&s->ring.page->data_head, __ATOMIC_RELAXED));
	close(fd);
}

TEST_F(event, only_samples_that_need_an_interrupt_have_one)
{
	unsigned long samples;
	long long nmis;

	/*
	 * Not for the variant `overflows`, whose counters also overflow between samples, which
	 * causes further NMIs.
	 */
	if (variant->parameters)
		return;
	nmis = nmis_of_loop(_metadata, self, variant, with_chains(PERIOD), &samples);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples);
	EXPECT_LE(samples, (unsigned long)nmis);
	nmis = nmis_of_loop(_metadata, self, variant, precise_every(PERIOD), &samples);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, samples);
	EXPECT_GT(samples / 4, (unsigned long)nmis);
}

#define MADE_UP	3	/* frames of frame_loop() */

struct chain_counts {
	unsigned long samples, wrong;
	bool is_exact;		/* the first address is that of the sample */
};

static void check_chain(const struct sample *s, void *data)
{
	struct chain_counts *c = data;
	int i;

	if (!is_between(s->ip, frame_loop_begin, frame_loop_end))
		return;
	c->samples++;
	if (s->chain_length != 2 + MADE_UP || s->chain[0] != PERF_CONTEXT_USER) {
		c->wrong++;
		return;
	}
	c->wrong += c->is_exact ? s->chain[1] != s->ip :
				  !is_between(s->chain[1], frame_loop_begin, frame_loop_end);
	for (i = 0; i < MADE_UP; i++)
		c->wrong += s->chain[2 + i] != FRAME_ADDRESS(i);
}

TEST_F(event, chains_have_the_address_and_its_callers)
{
	/* perf's chains begin with the address of the interrupt. */
	struct chain_counts c = { .is_exact = variant->maker != &event_maker_perf };
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct frame *frames = frames_map();
	int i;

	ASSERT_NE(NULL, frames);
	for (i = 0; i < MADE_UP; i++)
		frames[FRAMES - MADE_UP + i].address = FRAME_ADDRESS(i);
	open_sampler(_metadata, variant, s, with_chains(PERIOD), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	frame_loop(frames + FRAMES - MADE_UP, N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_chain, &c);
	EXPECT_LE(LOOP_INSNS * N / PERIOD - 1, c.samples);
	EXPECT_EQ(0UL, c.wrong);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	frames_unmap(frames);
}

#define CX	2	/* PERF_REG_X86_CX */
#define EVEN	1000UL	/* a period in whole rounds of register_loop() */

struct rounds {
	unsigned long samples, wrong, displaced;
	unsigned long absent;	/* samples without registers */
	__u64 last;
};

static void check_rounds(struct rounds *r, __u64 abi, const __u64 *values)
{
	int i, word = 0;
	__u64 rounds = 0;

	r->samples++;
	if (abi == PERF_SAMPLE_REGS_ABI_NONE) {
		r->absent++;
		return;
	}
	if (abi != ABI) {
		r->wrong++;
		return;
	}
	/*
	 * Does not check the instruction pointer, the flags and the stack pointer: the test
	 * event_registers does.
	 */
	for (i = 0; i < 64; i++) {
		if (!(REGISTERS & 1ULL << i))
			continue;
		if (i == CX)
			rounds = values[word];
		else if (i < 7 || i > 15)
			r->wrong += values[word] != (__u64)VALUE + i;
		word++;
	}
	r->displaced += r->last && r->last - rounds != EVEN / LOOP_INSNS;
	r->last = rounds;
}

static void check_user_registers(const struct sample *s, void *data)
{
	if (is_between(s->ip, register_loop_begin, register_loop_end))
		check_rounds(data, s->user_abi, s->user_registers);
}

static void check_registers(const struct sample *s, void *data)
{
	if (is_between(s->ip, register_loop_begin, register_loop_end))
		check_rounds(data, s->abi, s->registers);
}

static void expect_rounds(struct __test_metadata *_metadata, struct sampler *s,
			  void (*check)(const struct sample *s, void *data))
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct rounds r = { .samples = 0 };

	ASSERT_EQ(0, event_enable(s->fd));
	register_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check, &r);
	EXPECT_LE(LOOP_INSNS * N / EVEN - 1, r.samples);
	EXPECT_EQ(0UL, r.wrong);
	/*
	 * The interrupt may come up to SKID instructions late (pmu-skid). It may then interrupt the
	 * kernel while the kernel saves the program's registers.
	 */
	EXPECT_GE(env_number("SKID", 0) ? 2 + r.samples / 50 : 0, r.absent);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	/* After a switch, a sample may be late. */
	EXPECT_GE(2UL, r.displaced);
}

TEST_F(event, registers_of_the_program_are_those_of_the_instruction)
{
	struct perf_event_attr attr = precise_every(EVEN);
	struct sampler *s = &self->samplers[0];

	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = REGISTERS;
	open_sampler(_metadata, variant, s, attr, 0);
	expect_rounds(_metadata, s, check_user_registers);
}

TEST_F(event, registers_of_the_record_are_those_of_the_instruction)
{
	struct perf_event_attr attr = precise_every(EVEN);
	struct sampler *s = &self->samplers[0];

	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTERS;
	open_sampler(_metadata, variant, s, attr, 0);
	expect_rounds(_metadata, s, check_registers);
}

/* RSP and RIP, for sample_regs_user */
#define REGISTERS_SP_IP	(1ULL << 7 | 1ULL << 8)

/* Counts the samples whose registers have an address of the kernel. */
static void check_addresses(const struct sample *s, void *data)
{
	unsigned long *kernel = data;

	if (s->user_abi)
		*kernel += s->user_registers[0] >> 63 || s->user_registers[1] >> 63;
}

/* A record after SYSCALL has the kernel's registers, which no sample may show as the program's. */
TEST_F(event, registers_of_the_program_have_no_address_of_the_kernel)
{
	struct perf_event_attr attr = precise_every(EVEN);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long kernel = 0;
	int i;

	if (variant->maker == &event_maker_perf)
		return;
	attr.sample_period = 17;
	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = REGISTERS_SP_IP;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		getppid();
		getppid();
		ASSERT_EQ(0, event_disable(s->fd));
	}
	sampler_read(s, &sums, check_addresses, &kernel);
	EXPECT_LT(500UL, sums.samples + sums.lost);
	EXPECT_EQ(0UL, kernel);
}

/* The counts of a precise leader and of a member that counts the same. */
struct counts {
	__u64 period, last, max_distance;
	unsigned long samples, early;
};

static void check_counts(const struct sample *s, void *data)
{
	struct counts *c = data;
	__u64 distance;

	/* The number of values, the leader's value, and the member's value. */
	if (s->count_words != 3)
		return;
	c->samples++;
	distance = s->counts[1] > s->counts[2] ? s->counts[1] - s->counts[2] :
					      s->counts[2] - s->counts[1];
	if (distance > c->max_distance)
		c->max_distance = distance;
	/* A sample comes when its last event was counted. */
	c->early += s->counts[1] < c->samples * c->period;
}

TEST_F(event, samples_have_the_counts_of_their_group)
{
	struct perf_event_attr leader = precise_every(PERIOD), member = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct counts counts = { .period = PERIOD };
	struct sampler *s = &self->samplers[0];
	int fd;

	leader.sample_type |= PERF_SAMPLE_READ;
	leader.read_format = PERF_FORMAT_GROUP;
	member.read_format = PERF_FORMAT_GROUP;
	member.sample_period = 0;
	member.disabled = 0;
	open_sampler(_metadata, variant, s, leader, 0);
	fd = variant->maker->open(&member, 0, -1, s->fd, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_counts, &counts);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, counts.samples);
	close(fd);
	/* perf's count of the leader is that of the previous sample. */
	if (variant->maker == &event_maker_perf)
		return;
	EXPECT_EQ(0UL, counts.early);
	EXPECT_EQ(0ULL, counts.max_distance);
}

/* Samples of both kinds are in one buffer of the processor. */
TEST_F(event, samples_without_an_interrupt_are_exact_beside)
{
	struct sampler *single = &self->samplers[0], *large = &self->samplers[1];
	unsigned long n = 5 * N;

	open_sampler(_metadata, variant, single, with_chains(PERIOD), 0);
	open_sampler(_metadata, variant, large, precise_every(997), 0);
	ASSERT_EQ(0, event_enable(large->fd));
	ASSERT_EQ(0, event_enable(single->fd));
	labelled_loop(n);
	ASSERT_EQ(0, event_disable(single->fd));
	ASSERT_EQ(0, event_disable(large->fd));
	check_places(_metadata, variant, single, PERIOD, gettid(), LOOP_INSNS * n);
	/* The other event also counts the calls for this one, so only its number of samples is known. */
	expect_samples(_metadata, variant, large, 997, NULL, NULL);
}

TEST_F(event, a_read_while_it_counts_is_exact)
{
	struct sampler *s = &self->samplers[0];
	__s64 first;
	int i;

	open_sampler(_metadata, variant, s, with_chains(101), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	first = event_loop_count_running(s->fd, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), first);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	for (i = 0; i < 5; i++)
		ASSERT_EQ(first, event_loop_count_running(s->fd, N));
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, 101, NULL, NULL);
}

/* Number of signals at overflows, and number of signals that said that no more signals follow. */
static int signals, last_signals;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	signals++;
	last_signals += info->si_code == POLL_HUP;
}

static void send_signals(struct __test_metadata *_metadata, int fd)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	ASSERT_EQ(0, sigaction(SIGRTMIN, &action, NULL));
	signals = 0;
	last_signals = 0;
	ASSERT_EQ(0, fcntl(fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(fd, F_SETSIG, SIGRTMIN));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_ASYNC));
}

TEST_F(event, refresh_limits_the_samples_of_an_event_that_needed_no_interrupts)
{
	struct sampler *s = &self->samplers[0];
	struct places p = { .period = 10007, .tid = gettid() };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int round;

	open_sampler(_metadata, variant, s, precise_every(p.period), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_place, &p);
	EXPECT_LE(LOOP_INSNS * N / p.period, sums.samples);
	/*
	 * perf limits the number of interrupts for full buffers instead of the number of samples.
	 */
	if (variant->maker == &event_maker_perf)
		return;
	send_signals(_metadata, s->fd);
	for (round = 1; round <= 10; round++) {
		sums = SAMPLE_SUMS_INIT;
		ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_REFRESH, round));
		labelled_loop(2 * N);
		sampler_read(s, &sums, check_place, &p);
		EXPECT_EQ((unsigned long)round, sums.samples);
		EXPECT_EQ(round, signals);
		EXPECT_EQ(1, last_signals);
		EXPECT_EQ(0UL, sums.lost);
		EXPECT_TRUE(sums.ordered);
		signals = 0;
		last_signals = 0;
	}
	EXPECT_EQ(0UL, p.wrong);
}

TEST_F(event, an_event_that_gets_signals_while_it_counts_loses_no_sample)
{
	struct sampler *s = &self->samplers[0];
	__u64 before;

	/* perf's signals come with the interrupts for full buffers. */
	if (variant->maker == &event_maker_perf)
		return;
	open_sampler(_metadata, variant, s, precise_every(10007), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	send_signals(_metadata, s->fd);
	before = __atomic_load_n(&s->ring.page->data_head, __ATOMIC_ACQUIRE);
	EXPECT_LT(0ULL, before);
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	EXPECT_LE((int)(LOOP_INSNS * N / 10007), signals);
	EXPECT_GE((int)(LOOP_INSNS * N / 10007 + 1), signals);
	EXPECT_EQ(0, last_signals);
	check_places(_metadata, variant, s, 10007, gettid(), LOOP_INSNS * 2 * N);
}

/* Returns the events that poll(2) reports now. */
static int poll_now(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) < 0 ? -errno : p.revents;
}

TEST_F(event, reader_is_woken_by_each_sample_while_the_event_counts)
{
	struct perf_event_attr attr = precise_every(10 * PERIOD);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int i;

	attr.wakeup_events = 1;
	open_sampler(_metadata, variant, s, attr, 0);
	EXPECT_EQ(0, poll_now(s->fd));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 20; i++) {
		labelled_loop(10 * PERIOD / LOOP_INSNS + 1);
		EXPECT_EQ(POLLIN, poll_now(s->fd));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_EQ((unsigned long)event_count(s->fd) / (10 * PERIOD), sums.samples);
}

/*
 * The event that owns a ring says when the ring's reader is woken, whichever event has written the
 * sample. perf wakes it when the processor's buffer is full.
 */
TEST_F(event, reader_is_woken_by_each_sample_of_another_event)
{
	struct perf_event_attr attr = precise_every(10 * PERIOD);
	struct sampler *ring = &self->samplers[0], *s = &self->samplers[1];
	int i;

	if (variant->maker == &event_maker_perf)
		return;
	attr.wakeup_events = 1;
	open_sampler(_metadata, variant, ring, attr, 0);
	attr.wakeup_events = 0;
	s->fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, event_ioctl(s->fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 20; i++) {
		labelled_loop(10 * PERIOD / LOOP_INSNS + 1);
		EXPECT_EQ(POLLIN, poll_now(ring->fd));
	}
	ASSERT_EQ(0, event_disable(s->fd));
}

/* An overwritten ring has the newest samples at any moment. */
TEST_F(event, overwritten_ring_has_the_newest_samples)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	__u64 *data, head, last = 0, words, at;
	unsigned long samples = 0, outside = 0;
	int i, fd;
	char *pages;

	/* perf throttles some of these samples. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.write_backward = 1;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	pages = mmap(NULL, 2 * 4096, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, pages);
	data = (__u64 *)(pages + 4096);
	ASSERT_EQ(0, event_enable(fd));
	for (i = 0; i < 20; i++) {
		labelled_loop(N / 10);
		head = __atomic_load_n(&((struct perf_event_mmap_page *)pages)->data_head,
				       __ATOMIC_ACQUIRE);
		/* Each piece of the loop has 19 samples, and makes no system call. */
		EXPECT_GE(last - 19 * 48, head) {
			TH_LOG("piece %d: from %lld to %lld", i, (long long)last, (long long)head);
		}
		last = head;
	}
	ASSERT_EQ(0, event_disable(fd));
	/*
	 * Reads from the newest record to older records. Samples of the call DISABLE may have
	 * replaced the oldest of them.
	 */
	for (words = 0; words < 400; words += data[at] >> 51) {
		at = (last / 8 + words) % 512;
		ASSERT_NE(0ULL, data[at] >> 51);
		if ((__u32)data[at] != PERF_RECORD_SAMPLE)
			continue;
		samples++;
		outside += !in_labelled_loop(data[(at + 1) % 512]);
	}
	EXPECT_LE(60UL, samples);
	EXPECT_GE(10UL, outside);
	munmap(pages, 2 * 4096);
	close(fd);
}

/* Loops of two programs. */
DEFINE_LOOP(first)
DEFINE_LOOP(second)

struct programs {
	__u32 tid[2];
	unsigned long samples[2], wrong;
};

static void check_owner(const struct sample *s, void *data)
{
	struct programs *p = data;
	bool in_first = is_between(s->ip, first_begin, first_end);
	bool in_second = is_between(s->ip, second_begin, second_end);

	p->wrong += s->ip >> 63;
	if (in_first || in_second) {
		p->samples[in_second]++;
		p->wrong += s->tid != p->tid[in_second];
		p->wrong += s->chain_length < 2 || s->chain[0] != PERF_CONTEXT_USER;
	}
}

#define TURNS	500

/* Forks a child that executes one of the loops after a byte to @start_pipe, and yields often. */
static pid_t fork_loop(bool runs_second_loop, int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int i;

	if (pid)
		return pid;
	for (i = 0; i < TURNS; i++) {
		if (runs_second_loop)
			second_loop(10 * N / TURNS);
		else
			first_loop(10 * N / TURNS);
		sched_yield();
	}
	_exit(0);
}

/* Samples two programs on a CPU: each by its own event, or both by the CPU's event. */
static void share_cpu(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		      const FIXTURE_VARIANT(event) *variant, bool of_cpu)
{
	const __u64 each[2] = { 997, PERIOD };
	struct programs programs = { .wrong = 0 };
	int start_pipe[2], i;

	for (i = 0; i < 2; i++) {
		programs.tid[i] = fork_loop(i, &start_pipe[i]);
		ASSERT_LT(0, (int)programs.tid[i]);
	}
	for (i = 0; i < 2; i++) {
		struct perf_event_attr attr = with_chains(each[i]);

		if (of_cpu && i)
			break;
		ASSERT_EQ(0, sampler_open(&self->samplers[i], variant->maker, &attr,
					  of_cpu ? -1 : (pid_t)programs.tid[i],
					  of_cpu ? self->cpu : -1, ORDER));
		ASSERT_EQ(0, event_enable(self->samplers[i].fd));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ((pid_t)programs.tid[i], waitpid(programs.tid[i], NULL, 0));
		close(start_pipe[i]);
	}
	for (i = 0; i < 2 - of_cpu; i++) {
		ASSERT_EQ(0, event_disable(self->samplers[i].fd));
		expect_samples(_metadata, variant, &self->samplers[i], each[i], check_owner,
			       &programs);
	}
	EXPECT_EQ(0UL, programs.wrong);
	for (i = 0; i < 2; i++) {
		unsigned long expected = 10 * LOOP_INSNS * N / each[of_cpu ? 0 : i];

		EXPECT_LE(expected, programs.samples[i] + TURNS);
	}
}

TEST_F(event, programs_on_one_cpu_see_their_own_addresses_alone)
{
	/* If a sample of perf's is late, the following samples are late, too. */
	if (variant->maker == &event_maker_perf)
		return;
	share_cpu(_metadata, self, variant, false);
}

TEST_F(event, samples_of_a_cpu_have_the_ids_of_their_task)
{
	share_cpu(_metadata, self, variant, true);
}

TEST_F(event, moving_task_keeps_its_samples)
{
	struct job job = { .n = 1000, .pieces = 300, .step = STEP_MOVE };
	struct sampler *s = &self->samplers[0];
	struct target *t = &self->target;

	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, target_start(t, -1, false));
	open_sampler(_metadata, variant, s, with_chains(211), t->tid);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, target_run_job(t, job));
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples(_metadata, variant, s, 211, NULL, NULL);
}

/* Samples of both modes */
struct modes {
	unsigned long kernel, callers, wrong;
	bool is_exact;		/* the first address is that of the sample */
};

static void check_modes(const struct sample *s, void *data)
{
	struct modes *m = data;
	bool kernel = s->ip >> 63;

	m->kernel += kernel;
	if (s->chain_length < 2) {
		m->wrong++;
		return;
	}
	if (!m->is_exact)
		return;
	m->wrong += s->chain[1] != s->ip;
	m->wrong += !(s->misc & PERF_RECORD_MISC_EXACT_IP);
	m->wrong += s->chain[0] != (__u64)(kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER);
	m->callers += kernel && s->chain_length > 4;
}

TEST_F(event, kernel_is_sampled_with_permission)
{
	struct modes m = { .is_exact = variant->maker != &event_maker_perf };
	struct perf_event_attr attr = with_chains(10007);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long periods;
	__u64 values[2];
	int i;

	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 2000; i++)
		sched_yield();
	labelled_loop(5 * N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_modes, &m);
	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	periods = values[0] / 10007;
	EXPECT_LT(0UL, m.kernel);
	EXPECT_EQ(0UL, m.wrong);
	EXPECT_FALSE(sums.malformed);
	/*
	 * A sample that is due when the event is disabled is taken only after the event is enabled
	 * again, so it may be missing.
	 */
	EXPECT_LE(sums.samples + values[1], periods);
	EXPECT_GE(sums.samples + values[1] + 1, periods);
	/* On the debug kernel a handler takes almost a period. */
	if (m.is_exact) {
		EXPECT_LT(m.kernel / 2, m.callers);
		EXPECT_GE(periods / 2, values[1]);
	}
}

/*
 * Checks that each period of an event with PERF_FORMAT_LOST has a sample, or is reported as lost.
 * At most @pending samples, which are due when the event is disabled, may be neither yet.
 */
static struct sample_sums expect_samples_or_lost(struct __test_metadata *_metadata,
						 struct sampler *s, __u64 period,
						 unsigned long pending)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long periods;
	__u64 values[2];

	sampler_read(s, &sums, NULL, NULL);
	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	periods = values[0] / period;
	TH_LOG("%lu periods, %lu samples, %llu lost", periods, sums.samples, values[1]);
	EXPECT_LT(0UL, periods);
	EXPECT_LE(sums.lost, values[1]);
	EXPECT_LE(sums.samples + values[1], periods);
	EXPECT_GE(sums.samples + values[1] + pending, periods);
	return sums;
}

/*
 * The module delays samples of the kernel after an interrupt. If that is longer than a period, it
 * reports the samples between as lost.
 */
TEST_F(event, short_periods_in_the_kernel_lose_no_sample_unreported)
{
	struct perf_event_attr attr = with_chains(300);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums;
	int i;

	if (variant->maker == &event_maker_perf)
		return;
	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 200; i++)
		sched_yield();
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sums = expect_samples_or_lost(_metadata, s, 300, 50);
	EXPECT_LT(0UL, sums.samples);
}

/*
 * Each interrupt delays the kernel's samples of all events. A sample is reported
 * as lost if the next one is due before it comes.
 */
TEST_F(event, samples_that_another_event_delays_come_or_are_reported_as_lost)
{
	struct perf_event_attr attr = with_chains(10007), other_attr = event_every(2003);
	struct sampler *s = &self->samplers[0], *other = &self->samplers[1];
	int i;

	if (variant->maker == &event_maker_perf)
		return;
	attr.exclude_kernel = 0;
	attr.read_format = PERF_FORMAT_LOST;
	other_attr.exclude_kernel = 0;
	open_sampler(_metadata, variant, s, attr, 0);
	open_sampler(_metadata, variant, other, other_attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, event_enable(other->fd));
	for (i = 0; i < 2000; i++)
		sched_yield();
	ASSERT_EQ(0, event_disable(other->fd));
	ASSERT_EQ(0, event_disable(s->fd));
	expect_samples_or_lost(_metadata, s, 10007, 1);
}

TEST_F(event, frequency_changes_the_period_of_samples_with_chains)
{
	struct perf_event_attr attr = with_chains(1000);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int i;

	attr.freq = 1;
	open_sampler(_metadata, variant, s, attr, 0);
	for (i = 0; i < 100 && sums.samples <= 10; i++) {
		ASSERT_EQ(0, event_enable(s->fd));
		labelled_loop(500 * N);
		ASSERT_EQ(0, event_disable(s->fd));
		sampler_read(s, &sums, NULL, NULL);
	}
	EXPECT_LT(10UL, sums.samples);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	EXPECT_TRUE(sums.ordered);
	if (variant->maker != &event_maker_perf)
		EXPECT_LE(sums.periods, (__u64)event_count(s->fd));
}

TEST_F(event, times_are_those_of_the_clock)
{
	struct perf_event_attr attr = precise_every(PERIOD);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct timespec before, after;

	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	open_sampler(_metadata, variant, s, attr, 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	clock_gettime(CLOCK_MONOTONIC, &after);
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_LE(LOOP_INSNS * N / PERIOD, sums.samples);
	EXPECT_TRUE(sums.ordered);
	EXPECT_LE((__u64)before.tv_sec * 1000000000 + before.tv_nsec, sums.last_time);
	EXPECT_GE((__u64)after.tv_sec * 1000000000 + after.tv_nsec, sums.last_time);
}

/* Between THROTTLE and UNTHROTTLE there are no samples, and they are reported as lost. */
TEST_F(event, too_many_samples_are_throttled)
{
	struct perf_event_attr attr = with_chains(101);
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct throttling t = { .throttled = false };
	unsigned long periods;
	__u64 values[2];
	int i;

	/*
	 * perf's limits are lifted in all tests, and so are the module's in all tests but this one.
	 */
	if (variant->maker == &event_maker_perf || variant->parameters)
		return;
	ASSERT_EQ(0, module_reload("perf_event_max_sample_rate=1250"));
	attr.read_format = PERF_FORMAT_LOST;
	open_sampler(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 20 || (!t.times && i < 1000); i++) {
		labelled_loop(N);
		read_throttling(_metadata, s, &t, &sums);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	ASSERT_EQ((ssize_t)sizeof(values), read(s->fd, values, sizeof(values)));
	periods = values[0] / 101;
	TH_LOG("throttled %lu times, %lu samples, %lu lost", t.times, sums.samples, sums.lost);
	EXPECT_EQ(0UL, t.wrong);
	EXPECT_LT(0UL, t.times);
	EXPECT_LT(0UL, sums.lost);
	EXPECT_LE(sums.lost, values[1]);
	EXPECT_EQ(periods, sums.samples + values[1]);
	sampler_close(s);
	EXPECT_EQ(0, module_reload(""));
}

TEST_HARNESS_MAIN
