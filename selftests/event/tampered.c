// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that disables all counters of a CPU, or writes a counter, breaks the counts of the
 * events that count there. The module sets the counter up again even though other events keep it in
 * use: later events on this counter are exact.
 */
#include <cpuid.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"
#include "samples.h"
#include "target.h"

#define N		100000UL
#define ROOT		"/tmp/cgroup"
#define OWN		ROOT "/own"
#define EMPTY		ROOT "/empty"

/*
 * The number of timer interrupts after which the module has certainly seen that counters are
 * disabled.
 */
#define TICKS		12

FIXTURE(tampered)
{
	struct target target;
	int cpu;		/* the first CPU, where this task runs */
};

static void end_cgroups(void)
{
	write_file(ROOT "/cgroup.procs", "0");
	rmdir(OWN);
	rmdir(EMPTY);
	umount(ROOT);
}

FIXTURE_SETUP(tampered)
{
	SKIP_WITHOUT_PMU();
	SKIP_WITHOUT_GLOBAL_CTRL();
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, wait_until_idle());
	mkdir(ROOT, 0755);
	/* An earlier test may have failed without removing the mount. */
	end_cgroups();
	ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
	ASSERT_EQ(0, mkdir(OWN, 0755));
	ASSERT_EQ(0, mkdir(EMPTY, 0755));
	ASSERT_EQ(0, write_file(OWN "/cgroup.procs", "0"));
	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
}

FIXTURE_TEARDOWN(tampered)
{
	target_kill(&self->target);
	end_cgroups();
}

/* Opens an enabled event of instructions. */
static int open_event(struct __test_metadata *_metadata, pid_t tid, int cpu)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	fd = event_maker_perfmon.open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	return fd;
}

/* Opens an enabled event of instructions of a cgroup on all CPUs. */
static int open_cgroup(struct __test_metadata *_metadata, const char *path)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.disabled = 0;
	fd = event_open_of_cgroup(&event_maker_perfmon, attr, path, -1);
	ASSERT_LE(0, fd);
	return fd;
}

/*
 * Disables all counters of this CPU, which is the first CPU, and runs until a tick of the module
 * has found that. The function counts the ticks, since a CPU that stands still has no ticks.
 * Returns false if this task was switched out meanwhile: its events and the events of its cgroup
 * may then have no error. (In spite of the task's real-time priority, the scheduler gives a part of
 * the time to other tasks.)
 */
static bool disable_counters(struct __test_metadata *_metadata, int cpu)
{
	const struct sched_param realtime = { .sched_priority = 1 }, usual = { .sched_priority = 0 };
	const time_t end = time(NULL) + 60;
	struct rusage first, last;
	long long before;

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &realtime));
	getrusage(RUSAGE_SELF, &first);
	ASSERT_EQ(0, msr_write(cpu, pmu_registers()->global_ctrl, 0));
	before = cpu_interrupts_of("LOC", 0);
	ASSERT_LE(0, before);
	while (cpu_interrupts_of("LOC", 0) < before + TICKS)
		ASSERT_GT(end, time(NULL));
	getrusage(RUSAGE_SELF, &last);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &usual));
	return first.ru_nivcsw == last.ru_nivcsw && first.ru_nvcsw == last.ru_nvcsw;
}

/* Writes 0 to the counter of an event on this CPU, which has never counted so far. */
static void write_counter(struct __test_metadata *_metadata, int cpu, int fd)
{
	const long long counter = event_fdinfo_number(fd, "counter");
	const struct pmu_registers *pmu = pmu_registers();

	ASSERT_LE(0, counter);
	ASSERT_EQ(0, msr_write(cpu, counter < PMC_FIXED_BASE ?
			       pmu->counter0 + (__u32)counter * pmu->step :
			       MSR_IA32_FIXED_CTR((__u32)counter - PMC_FIXED_BASE), 0));
}

/* Expects that the event, which counts this task, counts a loop. */
static void expect_exact(struct __test_metadata *_metadata, int fd)
{
	const __s64 one = event_loop_count_running(fd, 1);

	ASSERT_LT(0, one);
	EXPECT_EQ(one + (__s64)(LOOP_INSNS * (N - 1)), event_loop_count_running(fd, N));
}

/* The empty cgroup's event keeps the counter. */
TEST_F(tampered, counter_of_cgroups_counts_again)
{
	const int empty = open_cgroup(_metadata, EMPTY);
	const long long counter = event_fdinfo_number(empty, "counter");
	int cgroup, cpu, round = 0, tries;

	for (tries = 0; round < 3; tries++) {
		ASSERT_GT(100, tries);
		cgroup = open_cgroup(_metadata, OWN);
		cpu = open_event(_metadata, -1, self->cpu);
		EXPECT_EQ(counter, event_fdinfo_number(cgroup, "counter"));
		EXPECT_EQ(counter, event_fdinfo_number(cpu, "counter"));
		expect_exact(_metadata, cgroup);
		loop(N);
		EXPECT_LE((__s64)(LOOP_INSNS * N), event_count(cpu));
		if (disable_counters(_metadata, self->cpu)) {
			EXPECT_EQ(-EIO, event_count(cgroup));
			round++;
		}
		EXPECT_EQ(-EIO, event_count(cpu));
		EXPECT_EQ(0, event_count(empty));
		close(cpu);
		close(cgroup);
	}
	close(empty);
}

/* The event of a task that sleeps, and that of another cgroup, keep the counter. */
TEST_F(tampered, counter_of_tasks_and_cgroups_counts_again)
{
	const int sleeping = open_event(_metadata, self->target.tid, -1);
	const int empty = open_cgroup(_metadata, EMPTY);
	const long long counter = event_fdinfo_number(empty, "counter");
	int own, round = 0, tries;

	EXPECT_EQ(counter, event_fdinfo_number(sleeping, "counter"));
	for (tries = 0; round < 3; tries++) {
		ASSERT_GT(100, tries);
		own = open_event(_metadata, 0, -1);
		EXPECT_EQ(counter, event_fdinfo_number(own, "counter"));
		expect_exact(_metadata, own);
		if (disable_counters(_metadata, self->cpu)) {
			EXPECT_EQ(-EIO, event_count(own));
			round++;
		}
		close(own);
	}
	EXPECT_EQ(0, event_count(sleeping));
	close(empty);
	close(sleeping);
}

/*
 * The written value can't be a result of counting. The module finds that, whichever event is read
 * first.
 */
TEST_F(tampered, events_of_a_written_counter_have_no_count)
{
	struct perf_event_attr attr = event_instructions();
	int own, inherited, round;

	attr.disabled = 0;
	attr.inherit = 1;
	for (round = 0; round < 4; round++) {
		own = open_event(_metadata, 0, -1);
		inherited = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, inherited);
		EXPECT_EQ(event_fdinfo_number(own, "counter"),
			  event_fdinfo_number(inherited, "counter"));
		expect_exact(_metadata, round % 2 ? own : inherited);
		write_counter(_metadata, self->cpu, own);
		EXPECT_EQ(-EIO, event_count(round % 2 ? own : inherited));
		EXPECT_EQ(-EIO, event_count(round % 2 ? inherited : own));
		close(inherited);
		close(own);
	}
}

static void note_largest_count(const struct sample *s, void *data)
{
	__u64 *largest = data;
	__u64 i;

	/* The number of values precedes them. */
	for (i = 1; i < s->count_words; i++) {
		if (*largest < s->counts[i])
			*largest = s->counts[i];
	}
}

TEST_F(tampered, samples_have_no_counts_of_a_written_counter)
{
	struct perf_event_attr leader = event_every(N), member = event_instructions();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler sampler;
	__u64 largest = 0;
	int fd;

	leader.sample_type |= PERF_SAMPLE_READ;
	leader.read_format = member.read_format = PERF_FORMAT_GROUP;
	leader.precise_ip = 0;
	member.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	member.disabled = 0;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &leader, 0, -1, 4));
	fd = event_maker_perfmon.open(&member, 0, -1, sampler.fd, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_enable(sampler.fd));
	labelled_loop(10 * N);
	write_counter(_metadata, self->cpu, fd);
	labelled_loop(10 * N);
	ASSERT_EQ(0, event_disable(sampler.fd));
	sampler_read(&sampler, &sums, note_largest_count, &largest);
	EXPECT_LE(10UL, sums.samples);
	EXPECT_LE(largest, 1ULL << 32);
	/* The group has no count. */
	EXPECT_EQ(-EIO, event_count(sampler.fd));
	close(fd);
	sampler_close(&sampler);
}

#define FREEZE_PERFMON_ON_PMI	(1ULL << 12)
#define PERIOD			1009UL

/* Other software has DEBUGCTL stop all counters at each interrupt, as Intel's processors do from version 4 on. */
TEST_F(tampered, counters_that_an_interrupt_freezes_go_on)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned int eax, ebx, ecx, edx;
	__u64 debugctl;
	struct sampler s;
	__s64 count;

	if (!__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) || (eax & 0xff) < 4)
		SKIP(return, "an interrupt freezes no counters for good");
	ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, 0, -1, 6));
	ASSERT_EQ(0, msr_read(self->cpu, MSR_IA32_DEBUGCTL, &debugctl));
	ASSERT_EQ(0, msr_write(self->cpu, MSR_IA32_DEBUGCTL, debugctl | FREEZE_PERFMON_ON_PMI));
	ASSERT_EQ(0, event_enable(s.fd));
	loop(N);
	ASSERT_EQ(0, event_disable(s.fd));
	ASSERT_EQ(0, msr_write(self->cpu, MSR_IA32_DEBUGCTL, debugctl));
	count = event_count(s.fd);
	sampler_read(&s, &sums, NULL, NULL);
	EXPECT_LE((__s64)(LOOP_INSNS * N), count);
	EXPECT_EQ(count / PERIOD, sums.samples);
	sampler_close(&s);
}

TEST_HARNESS_MAIN
