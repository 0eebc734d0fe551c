// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings that are mapped, unmapped, shared, overwritten and abandoned at random moments, while their
 * events are sampled at short periods and their tasks fork and exit; and call chains of stacks
 * that change while they are read. In the end all counters and memory are free.
 *
 * SECONDS and SEED in the environment set the length and the random numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "frames.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "samples.h"

#define USERS		3	/* processes that use events and rings */
#define EVENTS		6	/* the most events of each process */
#define MAPPINGS	8
#define PAGE		4096UL

/*
 * The module is loaded with the default limits. Without limits the machine would do nothing but
 * take samples.
 */
#define LIMITS	"perf_event_max_sample_rate=100000 perf_cpu_time_max_percent=25"

/* Shared by all processes. */
struct shared_results {
	bool stop;
	unsigned long opened, mapped, shared, records;
	int wrong;		/* an errno that the call must not have */
	const char *call;	/* name of that call */
};

FIXTURE(ring_stress)
{
	struct leak_check leaks;
	struct shared_results *shared;
	pid_t user[USERS];
	struct rng random;
	__u64 seconds;
	cpu_set_t cpus;
};

FIXTURE_SETUP(ring_stress)
{
	SKIP_WITHOUT_PMU();
	self->random = rng_seed(env_number("SEED", 1));
	self->seconds = env_number("SECONDS", 6);
	self->shared = map_shared(_metadata, sizeof(*self->shared));
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, module_reload(LIMITS));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
}

FIXTURE_TEARDOWN(ring_stress)
{
	int i;

	for (i = 0; i < USERS; i++) {
		if (self->user[i] > 0) {
			kill(self->user[i], SIGKILL);
			waitpid(self->user[i], NULL, 0);
		}
	}
	if (module_reload(""))
		TH_LOG("the module can't be loaded again");
}

/* The state of one process. */
struct ring_user {
	struct rng r;
	struct shared_results *s;
	const cpu_set_t *cpus;
	int fd[EVENTS];
	struct mapping {
		unsigned char *start;
		size_t size;
		bool writable;
	} mapping[MAPPINGS];
};

/* Notes an errno that is not one of @reasons. */
static void note_if_wrong(struct ring_user *u, const char *call, int result, const int *reasons)
{
	if (result >= 0)
		return;
	for (; *reasons; reasons++)
		if (result == -*reasons)
			return;
	if (!__atomic_exchange_n(&u->s->wrong, -result, __ATOMIC_RELAXED))
		u->s->call = call;
}

static const int open_reasons[] = { EBUSY, EINVAL, 0 };
static const int map_reasons[] = { EBUSY, EINVAL, 0 };
static const int output_reasons[] = { EINVAL, 0 };
static const int no_reasons[] = { 0 };

static const __u64 periods[] = { 1, 2, 31, 97, 1009, 10007, 1000003 };

static __u64 random_period(struct rng *r)
{
	return periods[rng_below(r, ARRAY_SIZE(periods))];
}

static struct perf_event_attr random_attr(struct rng *r)
{
	const __u64 parts = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			    PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ID | PERF_SAMPLE_CPU |
			    PERF_SAMPLE_PERIOD | PERF_SAMPLE_IDENTIFIER |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR;
	struct perf_event_attr attr = event_instructions();

	attr.config = rng_once_in(r, 2) ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS :
					  PERF_COUNT_HW_INSTRUCTIONS;
	attr.disabled = rng_once_in(r, 4);
	attr.exclude_kernel = rng_once_in(r, 2);
	attr.sample_period = random_period(r);
	attr.sample_type = rng_below(r, PERF_SAMPLE_MAX) & parts;
	attr.sample_regs_user = 1 + rng_below(r, 0xfff);
	attr.sample_regs_intr = 1 + rng_below(r, 0xfff);
	attr.sample_max_stack = rng_below(r, 128);
	attr.freq = rng_once_in(r, 4);
	if (attr.freq)
		attr.sample_freq = 1 + rng_below(r, 20000);
	attr.sample_id_all = rng_once_in(r, 2);
	attr.inherit = rng_once_in(r, 3);
	attr.comm = rng_once_in(r, 2);
	attr.task = rng_once_in(r, 2);
	attr.context_switch = rng_once_in(r, 4);
	attr.write_backward = rng_once_in(r, 8);
	attr.watermark = rng_once_in(r, 2);
	attr.wakeup_events = rng_below(r, 1000);
	attr.read_format = rng_once_in(r, 2) ? PERF_FORMAT_LOST : 0;
	return attr;
}

/* Opens an event of the process on one CPU or on any CPU, or an event of all tasks on a CPU. */
static void open_one(struct ring_user *u, int *fd)
{
	struct perf_event_attr attr = random_attr(&u->r);
	int cpu = cpu_next(u->cpus, -1), pid = rng_once_in(&u->r, 6) ? -1 : 0;
	int next = cpu_next(u->cpus, cpu);

	if (next >= 0 && rng_once_in(&u->r, 2))
		cpu = next;
	if (pid == 0 && rng_once_in(&u->r, 2))
		cpu = -1;
	*fd = event_maker_perfmon.open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	note_if_wrong(u, "PERFMON_EVENT_OPEN", *fd, open_reasons);
	if (*fd >= 0)
		__atomic_add_fetch(&u->s->opened, 1, __ATOMIC_RELAXED);
	else
		*fd = -1;
}

static void map_one(struct ring_user *u, struct mapping *m, int fd)
{
	size_t pages = rng_once_in(&u->r, 6) ? rng_below(&u->r, 9) :
					       1UL << rng_below(&u->r, 5);
	void *p;

	m->size = (pages + 1) * PAGE;
	m->writable = !rng_once_in(&u->r, 3);
	p = mmap(NULL, m->size, PROT_READ | (m->writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		note_if_wrong(u, "mmap", -errno, map_reasons);
		return;
	}
	m->start = p;
	__atomic_add_fetch(&u->s->mapped, 1, __ATOMIC_RELAXED);
}

/* Unmaps all of a mapping, or a part at its beginning or end. */
static void unmap_one(struct ring_user *u, struct mapping *m)
{
	size_t part = rng_below(&u->r, m->size / PAGE) * PAGE;

	switch (part ? rng_below(&u->r, 4) : 0) {
	case 1:
		munmap(m->start, part);
		m->start += part;
		m->size -= part;
		break;
	case 2:
		munmap(m->start + m->size - part, part);
		m->size -= part;
		break;
	default:
		munmap(m->start, m->size);
		m->start = NULL;
	}
}

/* Reads a mapping as a complete ring, or writes random data to it. */
static void use_mapping(struct ring_user *u, struct mapping *m)
{
	struct event_ring ring = {
		.page = (void *)m->start,
		.data = m->start + PAGE,
		.size = m->size - PAGE,
	};
	static struct event_record record;
	unsigned int i;

	if (!m->writable || m->size < 2 * PAGE)
		return;
	switch (rng_below(&u->r, 6)) {
	case 0:
		ring.page->data_tail = rng_below(&u->r, ~0ULL);
		break;
	case 1:
		ring.page->data_head = rng_below(&u->r, ~0ULL);
		break;
	case 2:
		memset(m->start, rng_below(&u->r, 256), m->size);
		break;
	default:
		if (ring.size & (ring.size - 1))
			return;
		ring.page->data_tail = ring.page->data_head;
		loop(1 + rng_below(&u->r, 5000));
		for (i = 0; i < 100 && event_ring_next(&ring, &record); i++)
			__atomic_add_fetch(&u->s->records, 1, __ATOMIC_RELAXED);
	}
}

/* Makes a call of an event. @other: another event for SET_OUTPUT, or -1. */
static void use_event(struct ring_user *u, int fd, int other)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	__u64 period = random_period(&u->r), values[4];
	int err = 0;

	switch (rng_below(&u->r, 11)) {
	case 0:
		err = event_enable(fd);
		break;
	case 1:
		err = event_disable(fd);
		break;
	case 2:
		err = event_reset(fd);
		break;
	case 3:
		if (read(fd, values, sizeof(values)) < 0)
			err = -errno;
		break;
	case 4:
		if (poll(&p, 1, 0) < 0)
			err = -errno;
		break;
	case 5:
		if (fcntl(fd, F_SETOWN, getpid()) ||
		    fcntl(fd, F_SETFL, rng_once_in(&u->r, 2) ? O_ASYNC : 0))
			err = -errno;
		break;
	case 6:
		note_if_wrong(u, "PERIOD", event_ioctl(fd, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period),
		      output_reasons);
		break;
	case 7:
		note_if_wrong(u, "PAUSE_OUTPUT",
		      event_ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, rng_below(&u->r, 2)),
		      output_reasons);
		break;
	default:
		err = event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, other);
		note_if_wrong(u, "SET_OUTPUT", err, output_reasons);
		if (!err && other >= 0)
			__atomic_add_fetch(&u->s->shared, 1, __ATOMIC_RELAXED);
		return;
	}
	note_if_wrong(u, "a call", err, no_reasons);
}

/* Forks a child that has the descriptors, but no mapping. */
static void fork_one(struct ring_user *u)
{
	int i;

	switch (fork()) {
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "child");
		for (i = 0; i < 5; i++) {
			int fd = u->fd[rng_below(&u->r, EVENTS)];

			if (fd >= 0)
				use_event(u, fd, u->fd[rng_below(&u->r, EVENTS)]);
			loop(1 + rng_below(&u->r, 5000));
		}
		if (rng_once_in(&u->r, 2))
			execlp("pmctl_loop", "pmctl_loop", "1000", NULL);
		_exit(0);
	case -1:
		note_if_wrong(u, "fork", -errno, no_reasons);
	}
}

static void run_user(struct ring_user *u)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	for (i = 0; i < EVENTS; i++)
		u->fd[i] = -1;
	while (!__atomic_load_n(&u->s->stop, __ATOMIC_RELAXED)) {
		int *fd = &u->fd[rng_below(&u->r, EVENTS)];
		struct mapping *m = &u->mapping[rng_below(&u->r, MAPPINGS)];

		if (*fd < 0) {
			open_one(u, fd);
			continue;
		}
		switch (rng_below(&u->r, 12)) {
		case 0:
			close(*fd);
			*fd = -1;
			break;
		case 1:
			fork_one(u);
			break;
		case 2:
			pin_to_cpu(cpu_next(u->cpus, (int)rng_below(&u->r, 2) - 1));
			break;
		case 3 ... 6:
			if (m->start)
				use_mapping(u, m);
			else
				map_one(u, m, *fd);
			break;
		case 7:
			if (m->start)
				unmap_one(u, m);
			break;
		default:
			use_event(u, *fd, u->fd[rng_below(&u->r, EVENTS)]);
		}
		loop(1 + rng_below(&u->r, 2000));
	}
	/* exit(2) closes the mappings and some events. */
	_exit(0);
}

static void start_user(FIXTURE_DATA(ring_stress) *self, int i)
{
	static struct ring_user u;

	u.r = rng_seed(rng_below(&self->random, 1 << 20));
	u.s = self->shared;
	u.cpus = &self->cpus;
	self->user[i] = fork();
	if (!self->user[i])
		run_user(&u);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static void expect_as_before(struct __test_metadata *_metadata, FIXTURE_DATA(ring_stress) *self)
{
	__s64 least;
	int fd;

	ASSERT_EQ(0, wait_until_idle());
	fd = event_open_instructions(&event_maker_perfmon, 0);
	ASSERT_LE(0, fd);
	least = event_loop_count(fd, 1);
	EXPECT_EQ(least + LOOP_INSNS * 99999, event_loop_count(fd, 100000));
	close(fd);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(ring_stress, rings_are_mapped_and_unmapped_at_random, 36000)
{
	struct shared_results *s = self->shared;
	time_t end = now() + self->seconds;
	int i;

	for (i = 0; i < USERS; i++)
		start_user(self, i);
	/* On a slow machine the test continues until a sample was recorded. */
	while (now() < end || (!s->records && now() < end + 20 * (time_t)self->seconds)) {
		usleep(rng_below(&self->random, 1000000));
		/* Kills a process, perhaps in the middle of a call. */
		i = rng_below(&self->random, USERS);
		kill(self->user[i], SIGKILL);
		waitpid(self->user[i], NULL, 0);
		start_user(self, i);
	}
	__atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < USERS; i++) {
		waitpid(self->user[i], NULL, 0);
		self->user[i] = 0;
	}
	TH_LOG("%lu events, %lu rings, %lu shared, %lu records", s->opened, s->mapped,
	       s->shared, s->records);
	EXPECT_EQ(0, s->wrong) {
		TH_LOG("%s: %s", s->call, strerror(s->wrong));
	}
	EXPECT_LT(0UL, s->mapped);
	EXPECT_LT(0UL, s->records);
	expect_as_before(_metadata, self);
}

struct chain_findings {
	unsigned long chain_count, wrong, longest;
};

static void check_chain(const struct sample *s, void *data)
{
	struct chain_findings *c = data;

	c->chain_count++;
	c->wrong += s->chain_length > 127 + 2;
	if (s->chain_length > c->longest)
		c->longest = s->chain_length;
}

/* Chains of the program, and of the kernel that it calls. */
TEST_F_TIMEOUT(ring_stress, stack_changes_while_it_is_read, 36000)
{
	struct frame *frames = frames_map();
	struct frames_changer changer;
	struct perf_event_attr attr = event_every(997);
	static struct sampler samplers[2];
	struct chain_findings chains = { .chain_count = 0 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 nowhere;
	time_t end;
	int i, k;

	/* Reloads the module, without limits of the sample rate. */
	ASSERT_EQ(0, module_reload(""));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_NE(NULL, frames);
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	for (i = 0; i < 2; i++) {
		attr.config = i ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS : PERF_COUNT_HW_INSTRUCTIONS;
		attr.exclude_kernel = !i;
		attr.exclude_user = i;
		/*
		 * The second event has a longer period: it also counts the instructions of PMIs in
		 * the kernel, of which the debug kernel executes many more.
		 */
		attr.sample_period = i ? 300007 : 997;
		ASSERT_EQ(0, sampler_open(&samplers[i], &event_maker_perfmon, &attr, 0, -1, 8));
		ASSERT_EQ(0, event_enable(samplers[i].fd));
	}
	ASSERT_EQ(0, frames_changer_begin(&changer, frames));
	end = now() + self->seconds;
	do {
		for (k = 0; k < 20; k++) {
			nowhere = frames_without_memory[rng_below(&self->random, FRAMES_NOWHERE)];
			frame_loop(k % 4 ? frames + k % 8 : (void *)(uintptr_t)nowhere, 20000);
			syscall(SYS_getppid);
		}
		for (i = 0; i < 2; i++)
			sampler_read(&samplers[i], &sums, check_chain, &chains);
	} while (now() < end);
	ASSERT_EQ(0, frames_changer_end(&changer));
	for (i = 0; i < 2; i++)
		sampler_close(&samplers[i]);
	frames_unmap(frames);
	TH_LOG("%lu chains, longest %lu", chains.chain_count, chains.longest);
	EXPECT_LT(100UL, chains.chain_count);
	EXPECT_EQ(0UL, chains.wrong);
	EXPECT_LT(2UL, chains.longest);
	expect_as_before(_metadata, self);
}

TEST_HARNESS_MAIN
