// SPDX-License-Identifier: GPL-2.0-only
/*
 * On a machine whose kernel can't reserve the counters, a pinned event of Linux perf keeps perf's
 * other events off each CPU. The module is loaded with placeholder=1.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "event_page.h"
#include "fixture.h"
#include "idle.h"
#include "kmsg.h"
#include "loop.h"
#include "module.h"
#include "perf.h"
#include "rng.h"
#include "samples.h"
#include "trace.h"

#define N	100000UL

/*
 * The number of turns of two tasks on one CPU. perf schedules its events at each switch between
 * them.
 */
#define TURNS	1000

/* A rate at which some overflows come while perf has disabled the counters. */
#define RATE	211
#define PAGES	256

FIXTURE(place_holder)
{
	int cpu;
	int fd;
};

FIXTURE_SETUP(place_holder)
{
	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(module_has_place_holder());
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	self->fd = open_device(_metadata, O_RDWR);
}

FIXTURE_TEARDOWN(place_holder)
{
	close(self->fd);
}

/* The result of read(2) of an event of perf. */
struct read_result {
	__u64 value;
	__u64 enabled;
	__u64 running;
};

static struct perf_event_attr branches_attr(bool pinned, bool disabled)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.pinned = pinned,
		.disabled = disabled,
	};
}

/* Opens an event of perf: branches of this task, or of all that runs on a CPU. */
static int open_branches(int cpu, bool pinned, bool disabled)
{
	struct perf_event_attr attr = branches_attr(pinned, disabled);

	return syscall(SYS_perf_event_open, &attr, cpu < 0 ? 0 : -1, cpu, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

TEST_F(place_holder, waiting_event_reports_that_it_did_not_count)
{
	struct read_result count;
	int perf, i = 0;
	__u64 before;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	perf = open_branches(-1, false, false);
	ASSERT_LE(0, perf);
	loop(N);
	ASSERT_EQ((ssize_t)sizeof(count), read(perf, &count, sizeof(count)));
	EXPECT_EQ(0ULL, count.value);
	EXPECT_LT(0ULL, count.enabled);
	EXPECT_EQ(0ULL, count.running);

	/* The event counts when the counters are free, from perf's next tick on at the latest. */
	close(self->fd);
	self->fd = open_device(_metadata, O_RDWR);
	do {
		loop(N);
		ASSERT_EQ((ssize_t)sizeof(count), read(perf, &count, sizeof(count)));
	} while (!count.running && ++i < 1000);
	EXPECT_LT(0ULL, count.running);
	before = count.value;
	loop(N);
	ASSERT_EQ((ssize_t)sizeof(count), read(perf, &count, sizeof(count)));
	EXPECT_LE(before + N, count.value);
	close(perf);
}

/*
 * Maps the page of a waiting event of perf, by which perf lets this program use RDPMC. Each byte in
 * the pipe @start_pipe starts a turn, whose end is written to the pipe @done. Reads the counter at
 * the beginning and at the end of each turn, and stores the largest growth between two turns in
 * @others.
 */
static void read_in_turns(__u32 counter, int start_pipe, int done, long long *others)
{
	struct perf_event_attr attr = branches_attr(false, false);
	__u64 first, last = 0;
	int perf, turn;
	void *page;
	char byte;

	attr.exclude_kernel = 1;
	perf = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, perf, 0);
	if (page == MAP_FAILED)
		_exit(1);
	for (turn = 0; read(start_pipe, &byte, 1) == 1; turn++) {
		first = rdpmc(counter);
		/*
		 * The difference may be negative, since a counter may be loaded anew between two
		 * turns.
		 */
		if (turn && (long long)(first - last) > *others)
			*others = first - last;
		last = rdpmc(counter);
		if (write(done, "", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* A program that may use RDPMC through perf does not see the counts of other tasks. */
TEST_F(place_holder, rdpmc_of_perf_shows_no_other_tasks)
{
	struct perf_event_attr attr = event_instructions();
	long long *others = map_shared(_metadata, sizeof(*others));
	int event, start_pipe[2], done[2], turn, status;
	long long counter;
	char byte;
	pid_t pid;

	/* Only general counters can count branches. */
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.disabled = 0;
	event = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, event);
	counter = event_fdinfo_number(event, "counter");
	ASSERT_LE(0, counter);
	ASSERT_EQ(0, pipe(start_pipe));
	ASSERT_EQ(0, pipe(done));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(start_pipe[1]);
		read_in_turns(counter, start_pipe[0], done[1], others);
	}
	for (turn = 0; turn < 20; turn++) {
		loop(10 * N);
		ASSERT_EQ(1, write(start_pipe[1], "", 1));
		ASSERT_EQ(1, read(done[0], &byte, 1));
	}
	close(start_pipe[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_GT((long long)N, *others);
	close(event);
}

TEST_F(place_holder, pinned_event_is_in_error_state)
{
	struct read_result count;
	int perf;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	perf = open_branches(self->cpu, true, false);
	ASSERT_LE(0, perf);
	/* perf_event_open(2): read(2) returns 0 for an event in error state. */
	EXPECT_EQ(0, read(perf, &count, sizeof(count)));
	close(perf);
	ASSERT_EQ(0, pmc_count_loop(self->fd, 0, N));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->fd, 0));
}

/*
 * The registers of this CPU do not show whether perf has an event on another CPU, or an event that
 * does not count.
 */
TEST_F(place_holder, pinned_event_that_was_first_keeps_the_counters)
{
	struct kmsg_lines lines;
	int kmsg, perf;

	close(self->fd);
	kmsg = load_fresh_module(_metadata);
	self->fd = open_device(_metadata, O_RDWR);
	perf = open_branches(self->cpu, true, false);
	ASSERT_LE(0, perf);
	EXPECT_EQ(-EBUSY, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	EXPECT_EQ(1, lines.count);
	EXPECT_TRUE(kmsg_names_perf(lines.line[0])) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
	close(perf);
	EXPECT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	close(kmsg);
}

/*
 * Only a pinned event of perf can displace a place-holder. After that, the module refuses to return
 * counts.
 */
TEST_F(place_holder, stop_fails_when_perf_has_enabled_a_pinned_event)
{
	/*
	 * perf takes the first counter. So this test uses another one, whose registers perf does
	 * not change.
	 */
	const int num = 3;
	__s64 value;
	int perf = open_branches(self->cpu, true, true);

	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pmc_setup(self->fd, num, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, num));
	loop(N);
	ASSERT_EQ(0, pmc_read(self->fd, num, &value));
	ASSERT_EQ(0, ioctl(perf, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_EQ(-EIO, pmc_stop(self->fd, num));
	EXPECT_EQ(-EIO, pmc_read(self->fd, num, &value));
	close(perf);
	close(self->fd);

	/* A new place-holder can take the CPU when perf's pinned event has ended. */
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->fd, 0, N));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->fd, 0));
}

/* Returns the count of a loop by a new event of the module, or a negative errno. */
static __s64 count_once(void)
{
	struct perf_event_attr attr = branches_attr(false, true);
	int event = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	__s64 count;

	if (event < 0)
		return event;
	count = event_loop_count(event, 100);
	close(event);
	return count;
}

/*
 * Events that start after a place-holder was displaced fail, too, whether they are read within a
 * tick or later.
 */
TEST_F(place_holder, events_that_start_after_that_fail_too)
{
	struct perf_event_attr attr = branches_attr(false, true);
	int perf = open_branches(self->cpu, true, true);
	int event = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	int i;

	ASSERT_LE(0, perf);
	ASSERT_LE(0, event);
	ASSERT_LE(100, count_once());
	ASSERT_EQ(0, ioctl(perf, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(-EIO, count_once());
	close(perf);
	/* The place-holder stays in error state as long as the module counts. */
	EXPECT_EQ(-EIO, count_once());
	close(event);
	EXPECT_LE(100, count_once());
}

/*
 * The module borrows perf's memory for the processor's samples. When perf's waiting event counts
 * again, the memory must be as perf had left it: then the event has samples. Without precise
 * samples there is nothing to test.
 */
TEST_F(place_holder, precise_event_of_perf_has_samples_after_the_modules)
{
	const unsigned int period = 1009;
	struct perf_event_attr attr = event_every(period);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler of_module, of_perf;
	int i, err;

	attr.precise_ip = 1;
	err = sampler_open(&of_module, &event_maker_perfmon, &attr, 0, -1, 8);
	if (err == -EOPNOTSUPP)
		return;
	ASSERT_EQ(0, err);
	/*
	 * Lifts perf's limits, since an emulated CPU may take so long for samples that perf would
	 * take fewer.
	 */
	ASSERT_EQ(0, perf_lift_limits());
	ASSERT_EQ(0, event_enable(of_module.fd));
	ASSERT_EQ(0, sampler_open(&of_perf, &event_maker_perf, &attr, 0, -1, 8));
	ASSERT_EQ(0, event_enable(of_perf.fd));
	loop(N);
	sampler_close(&of_module);
	/* Waits, because perf's event gets the counters a little later. */
	for (i = 0; i < 1000 && event_count(of_perf.fd) <= 0; i++)
		loop(N);
	loop(N);
	ASSERT_EQ(0, event_disable(of_perf.fd));
	sampler_read(&of_perf, &sums, NULL, NULL);
	EXPECT_LE(LOOP_INSNS * N / period, sums.samples);
	sampler_close(&of_perf);
}

/*
 * A sampled event is disabled and enabled again and again. Each time its counter is stopped. Some
 * overflows come so shortly before this that their interrupts come while the counter is being
 * stopped. Then perf's handler acknowledges these interrupts. (On a machine with pmu-skid,
 * interrupts come that late.)
 */
TEST_F(place_holder, overflow_before_a_stop_does_not_spoil_the_count)
{
	struct perf_event_attr attr = event_every(5003);
	struct rng rng = rng_seed(1);
	unsigned long loops = 0, n;
	int event, i;

	event = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, event);
	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, event_enable(event));
		n = 1 + rng_below(&rng, 2000);
		loop(n);
		loops += n;
	}
	EXPECT_LE((__s64)(LOOP_INSNS * loops), event_count(event));
	close(event);
}

FIXTURE(beside_perf)
{
	int cpu;
	int fd;
	int wake_pipe[2];		/* pipe that wakes the other task */
	int answer_pipe[2];		/* pipe with its answer */
	int perf[4];		/* perf's events, which wait */
	pid_t other;
};

FIXTURE_SETUP(beside_perf)
{
	char c;
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(module_has_place_holder());
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pipe(self->wake_pipe));
	ASSERT_EQ(0, pipe(self->answer_pipe));
	self->other = fork();
	ASSERT_LE(0, self->other);
	if (!self->other) {
		/* Opens an event that perf schedules in and out at each turn. */
		open_branches(-1, false, false);
		while (read(self->wake_pipe[0], &c, 1) == 1)
			if (write(self->answer_pipe[1], &c, 1) != 1)
				break;
		_exit(0);
	}
	/* Two events of the CPU and two of this task, so that perf also rotates them at its tick. */
	for (i = 0; i < 4; i++) {
		self->perf[i] = open_branches(i < 2 ? self->cpu : -1, false, false);
		ASSERT_LE(0, self->perf[i]);
	}
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(beside_perf)
{
	int i;

	kill(self->other, SIGKILL);
	waitpid(self->other, NULL, 0);
	for (i = 0; i < 4; i++)
		close(self->perf[i]);
	close(self->fd);
}

static int take_turns(const FIXTURE_DATA(beside_perf) *self, int turns)
{
	char c = 0;

	while (turns--)
		if (write(self->wake_pipe[1], &c, 1) != 1 ||
		    read(self->answer_pipe[0], &c, 1) != 1)
			return -EPIPE;
	return 0;
}

/* perf disables the counters while the kernel switches tasks, and never in user mode. */
TEST_F(beside_perf, counts_of_user_mode_are_exact)
{
	__s64 of_two, of_four, none;

	ASSERT_EQ(0, pmc_start(self->fd, 0));
	ASSERT_EQ(0, take_turns(self, 10));
	ASSERT_EQ(0, pmc_read(self->fd, 0, &none));
	ASSERT_EQ(0, take_turns(self, TURNS));
	ASSERT_EQ(0, pmc_read(self->fd, 0, &of_two));
	ASSERT_EQ(0, take_turns(self, 2 * TURNS));
	ASSERT_EQ(0, pmc_read(self->fd, 0, &of_four));
	EXPECT_EQ(0, pmc_stop(self->fd, 0));
	/* read() and take_turns() add a count that is not proportional to the turns. */
	EXPECT_LE(-200, (of_four - of_two) - 2 * (of_two - none));
	EXPECT_GE(200, (of_four - of_two) - 2 * (of_two - none));
}

/* No overflow is lost, even if it comes while perf has disabled the counters. */
TEST_F(beside_perf, samples_of_user_mode_are_not_lost)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE, FLAG_USER);
	struct trace_sums sums;
	struct trace t;

	ASSERT_EQ(0, trace_alloc(&t, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&t, &config));
	ASSERT_EQ(0, trace_start(&t));
	ASSERT_EQ(0, take_turns(self, TURNS));
	EXPECT_EQ(0, trace_stop(&t));
	EXPECT_EQ(0U, t.buffer[self->cpu]->flags);
	EXPECT_STREQ("", trace_sum(&t, self->cpu, &sums));
	EXPECT_LT(0ULL, sums.event[0].total);
	ASSERT_EQ(0, trace_free(&t));
}

TEST_HARNESS_MAIN
