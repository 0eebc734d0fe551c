// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system goes to sleep while all three interfaces count: PMIO, a trace, and events of tasks, of
 * CPUs and of a cgroup, with a ring and with a page for RDPMC. Threads open, map, read and close
 * other events all the time, and fork. After each sleep all of them continue.
 *
 * ROUNDS in the environment sets the length.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "event_page.h"
#include "file.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "rng.h"
#include "samples.h"
#include "system_sleep.h"
#include "trace.h"

#define ROOT	"/tmp/cgroup"
#define GROUP	ROOT "/a"

#define PAGES	64
#define RATE	997U
#define N	100000UL
#define THREADS	3

/* A period of events that the threads open. */
#define OTHER_RATE	1009U

/*
 * The maximum number of instructions in user mode that this thread executes between two readings,
 * besides its loop.
 */
#define OVERHEAD	2000

FIXTURE(suspend)
{
	struct leak_check leaks;
	struct trace trace;
	struct sampler sampler;
	struct sample_sums sums;
	struct perf_event_mmap_page *page;	/* page of the event `task` */
	int device, task, inherited, cpu_event, cgroup;
	int home;		/* the CPU of the test */
	bool stop;		/* the threads are to stop */
	unsigned long opened;	/* events that the threads have opened */
};

FIXTURE_VARIANT(suspend)
{
	struct system_sleep how;
};

FIXTURE_VARIANT_ADD(suspend, freezer) { { "freezer", "freeze", 0 } };
FIXTURE_VARIANT_ADD(suspend, devices) { { "devices", "freeze", 0 } };
FIXTURE_VARIANT_ADD(suspend, processors) { { "processors", "mem", 0 } };
FIXTURE_VARIANT_ADD(suspend, memory) { { "none", "mem", 3 } };

FIXTURE_SETUP(suspend)
{
	self->device = -1;
	self->sampler.fd = -1;
	SKIP_WITHOUT_PMU();
	/* The kernel changes registers on sleep, so sleep once before the test reads them. */
	ASSERT_EQ(0, system_sleep_prepare(&variant->how));
	ASSERT_EQ(0, system_sleep_once(&variant->how));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	self->home = cpu_next(&self->leaks.cpus, -1);
	ASSERT_EQ(0, pin_to_cpu(self->home));
	ASSERT_EQ(0, cgroups_mount(ROOT));
	rmdir(GROUP);
	ASSERT_EQ(0, mkdir(GROUP, 0755));
	ASSERT_EQ(0, write_file(GROUP "/cgroup.procs", "0"));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(suspend)
{
	system_sleep_end();
	write_file(ROOT "/cgroup.procs", "0");
	rmdir(GROUP);
	umount(ROOT);
}

static int open_event(struct __test_metadata *_metadata, pid_t pid, int cpu, bool inherit)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	attr.inherit = inherit;
	fd = event_maker_perfmon.open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	return fd;
}

/* Opens and starts everything but the trace, which is staged. */
static void open_all(struct __test_metadata *_metadata, FIXTURE_DATA(suspend) *self)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	struct perf_event_attr attr = event_every(RATE), counting = event_instructions();

	self->device = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->device, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->device, 0));
	ASSERT_EQ(0, trace_alloc(&self->trace, self->device, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	self->task = open_event(_metadata, 0, -1, false);
	self->inherited = open_event(_metadata, 0, -1, true);
	self->cpu_event = open_event(_metadata, -1, self->home, false);
	counting.disabled = 0;
	self->cgroup = event_open_of_cgroup(&event_maker_perfmon, counting, GROUP, -1);
	ASSERT_LE(0, self->cgroup);
	self->page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, self->task, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	attr.disabled = 0;
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	self->sums = SAMPLE_SUMS_INIT;
	ASSERT_EQ(0, sampler_open(&self->sampler, &event_maker_perfmon, &attr, 0, -1, 8));
}

static void close_all(struct __test_metadata *_metadata, FIXTURE_DATA(suspend) *self)
{
	EXPECT_EQ(0, munmap(self->page, getpagesize()));
	sampler_close(&self->sampler);
	EXPECT_EQ(0, close(self->cgroup));
	EXPECT_EQ(0, close(self->cpu_event));
	EXPECT_EQ(0, close(self->inherited));
	EXPECT_EQ(0, close(self->task));
	EXPECT_EQ(0, trace_free(&self->trace));
	EXPECT_EQ(0, close(self->device));
}

/* Opens an event of this thread or of a CPU, maybe with a ring, and closes it again. */
static bool open_and_close(struct rng *rng, int cpus)
{
	struct perf_event_attr attr = event_instructions();
	bool of_cpu = rng_below(rng, 2);
	int cpu = of_cpu ? (int)rng_below(rng, cpus) : -1, fd, pages = 2;
	void *ring = MAP_FAILED;
	pid_t pid;

	attr.disabled = 0;
	attr.inherit = !of_cpu && rng_below(rng, 2);
	if (rng_below(rng, 2)) {
		attr.sample_period = OTHER_RATE;
		attr.sample_type = PERF_SAMPLE_IP;
	}
	/* A CPU may be offline, and all counters may be taken. */
	fd = event_maker_perfmon.open(&attr, of_cpu ? -1 : 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return false;
	if (!attr.inherit)
		ring = mmap(NULL, pages * getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	loop(N / 10);
	event_count(fd);
	if (rng_once_in(rng, 4)) {
		pid = fork();
		if (!pid) {
			loop(N / 1000);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	if (ring != MAP_FAILED)
		munmap(ring, pages * getpagesize());
	close(fd);
	return true;
}

struct churn {
	FIXTURE_DATA(suspend) *self;
	pthread_t thread;
	struct rng rng;
	cpu_set_t cpus;
};

static void *open_forever(void *data)
{
	struct churn *churn = data;
	int cpus = CPU_COUNT(&churn->cpus);

	sched_setaffinity(0, sizeof(churn->cpus), &churn->cpus);
	while (!__atomic_load_n(&churn->self->stop, __ATOMIC_RELAXED)) {
		if (open_and_close(&churn->rng, cpus))
			__atomic_fetch_add(&churn->self->opened, 1, __ATOMIC_RELAXED);
		usleep(rng_below(&churn->rng, 2000));
	}
	return NULL;
}

/* Expects that all events, and PMIO, have counted a loop of this thread. */
static void expect_counting(struct __test_metadata *_metadata, FIXTURE_DATA(suspend) *self)
{
	const int fd[] = {
		self->task, self->sampler.fd, self->inherited, self->cpu_event, self->cgroup,
	};
	__s64 pmio = pmc_value(self->device, 0), page = page_read(self->page).count;
	__s64 before[5], count;
	int i;

	for (i = 0; i < 5; i++)
		before[i] = event_count(fd[i]);
	loop(N);
	for (i = 0; i < 5; i++) {
		count = event_count(fd[i]) - before[i];
		EXPECT_LE((__s64)(LOOP_INSNS * N), count) {
			TH_LOG("event %d", i);
		}
		/* The other counts include the threads. */
		if (i < 2)
			EXPECT_GE((__s64)(LOOP_INSNS * N) + OVERHEAD, count);
	}
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->device, 0) - pmio);
	count = page_read(self->page).count - page;
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + 2 * OVERHEAD, count);
	sampler_read(&self->sampler, &self->sums, NULL, NULL);
}

/* Sends the system to sleep while the trace runs. */
static void sleep_with_trace(struct __test_metadata *_metadata, FIXTURE_DATA(suspend) *self,
			     const struct system_sleep *how)
{
	int cpu;

	ASSERT_EQ(0, trace_start(&self->trace));
	expect_counting(_metadata, self);
	ASSERT_EQ(0, system_sleep_once(how));
	for_each_cpu_in(cpu, &self->leaks.cpus)
		EXPECT_NE(0U, self->trace.buffer[cpu]->flags & PERFMON_BUFFER_FLAG_OFFLINE);
	expect_counting(_metadata, self);
	ASSERT_EQ(0, trace_stop(&self->trace));
	expect_counting(_metadata, self);
}

/*
 * When the threads have ended, the same counters count exactly, without the instructions of other
 * threads.
 */
static void expect_exact(struct __test_metadata *_metadata, FIXTURE_DATA(suspend) *self)
{
	struct trace_sums sums;
	__s64 least;
	int i;
	const int fd[] = { self->task, self->inherited, self->cpu_event, self->cgroup };

	ASSERT_EQ(0, wait_until_idle());
	for (i = 0; i < 4; i++) {
		least = event_loop_count_running(fd[i], 1);
		EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)),
			  event_loop_count_running(fd[i], N)) {
			TH_LOG("event %d", i);
		}
	}
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->home, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
	EXPECT_EQ(TRACE_LOOP_INSNS(N) / RATE, sums.event[0].ticks);
}

TEST_F_TIMEOUT(suspend, all_interfaces_count_on_after_sleep, 36000)
{
	struct churn churn[THREADS];
	__u64 i, rounds = env_number("ROUNDS", 3);
	unsigned int waited_us = 0;
	__s64 count;
	int k;

	open_all(_metadata, self);
	for (k = 0; k < THREADS; k++) {
		churn[k] = (struct churn) {
			.self = self,
			.rng = rng_seed(k),
			.cpus = self->leaks.cpus,
		};
		ASSERT_EQ(0, pthread_create(&churn[k].thread, NULL, open_forever, &churn[k]));
	}
	for (i = 0; i < rounds; i++)
		sleep_with_trace(_metadata, self, &variant->how);
	/* On a busy host the threads may not have had a turn yet. */
	while (!__atomic_load_n(&self->opened, __ATOMIC_RELAXED) && wait_longer(&waited_us))
		;
	__atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
	for (k = 0; k < THREADS; k++)
		ASSERT_EQ(0, pthread_join(churn[k].thread, NULL));
	expect_exact(_metadata, self);

	ASSERT_EQ(0, event_disable(self->sampler.fd));
	count = event_count(self->sampler.fd);
	sampler_read(&self->sampler, &self->sums, NULL, NULL);
	TH_LOG("%llu sleeps, %lu samples, %lu events opened meanwhile", i, self->sums.samples,
	       self->opened);
	EXPECT_EQ((unsigned long)count / RATE, self->sums.samples);
	EXPECT_EQ(0UL, self->sums.lost);
	EXPECT_TRUE(self->sums.ordered);
	EXPECT_FALSE(self->sums.malformed);
	EXPECT_LT(0UL, self->opened);
	close_all(_metadata, self);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
