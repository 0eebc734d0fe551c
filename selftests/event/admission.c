// SPDX-License-Identifier: GPL-2.0-only
/*
 * The owners of counters: events of tasks and of CPUs, PMIO, a trace and perf at the same
 * time. Events for which no counter is free are refused, and PERFMON_GET_OWNER names the owner
 * of each counter. Events, PMIO, trace and perf all count the same instructions.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "perf.h"
#include "target.h"
#include "trace.h"
#include "trace_fixture.h"

#define N	100000UL
#define PAGES	64
#define RATE	10007

/* Branches retired: an event that only general counters can count, on Intel and AMD. */
#define BRANCHES	PERF_COUNT_HW_BRANCH_INSTRUCTIONS

FIXTURE(admission)
{
	struct perfmon_properties p;
	struct target target;
	struct trace trace;
	int general;		/* number of general counters */
	int device;		/* open for writing */
	int fd[NPMC];
	int opened;
};

FIXTURE_SETUP(admission)
{
	SKIP_WITHOUT_PMU();
	self->device = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->device, &self->p));
	self->general = self->p.max_num_programmable_events;
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(admission)
{
	while (self->opened)
		close(self->fd[--self->opened]);
	target_kill(&self->target);
	close(self->device);
}

/*
 * Returns attributes of a sampled event, which needs a counter of its own. Its period is so long
 * that it never takes a sample.
 */
static struct perf_event_attr own_counter(__u64 config)
{
	struct perf_event_attr attr = event_instructions();

	attr.config = config;
	attr.sample_period = 1ULL << 40;
	return attr;
}

static int open_event(__u64 config, pid_t tid, int cpu)
{
	struct perf_event_attr attr = own_counter(config);

	attr.disabled = 0;
	return event_maker_perfmon.open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Opens events until one is refused. Returns the errno of the refused event. */
static int open_all(struct __test_metadata *_metadata, FIXTURE_DATA(admission) *self,
		    __u64 config, pid_t tid, int cpu)
{
	int fd;

	for (;;) {
		fd = open_event(config, tid, cpu);
		if (fd < 0)
			return fd;
		ASSERT_GT(NPMC, self->opened);
		self->fd[self->opened++] = fd;
	}
}

static void close_all(FIXTURE_DATA(admission) *self)
{
	while (self->opened)
		close(self->fd[--self->opened]);
}

static struct perfmon_counter_owner owner_of(struct __test_metadata *_metadata, int num)
{
	struct perfmon_counter_owner owner = { .num = num, .kind = 99 };
	int device = open_device(_metadata, O_RDONLY);

	ASSERT_EQ(0, device_ioctl(device, PERFMON_GET_OWNER, &owner)) {
		TH_LOG("counter %#x", num);
	}
	EXPECT_EQ(num, owner.num);
	EXPECT_EQ(0ULL, owner.reserved[0]);
	EXPECT_EQ(0ULL, owner.reserved[1]);
	close(device);
	return owner;
}

static const char *const kinds[] = {
	"-none", "perf", "session", "Trace", "tasks", "CPUs", "events",
};

/*
 * Returns a letter for the owner of each counter, general counters first. `kinds` has the letters.
 */
static const char *owners(struct __test_metadata *_metadata, FIXTURE_DATA(admission) *self)
{
	static char text[2 * NPMC];
	__u32 kind;
	int i, length = 0;

	for (i = 0; i < self->general + self->p.max_num_fixed_events; i++) {
		if (i == self->general)
			text[length++] = ' ';
		kind = owner_of(_metadata, i < self->general ? i :
				PMC_FIXED(i - self->general)).kind;
		text[length++] = kind < ARRAY_SIZE(kinds) ? *kinds[kind] : '?';
	}
	text[length] = '\0';
	return text;
}

/* Returns the number of counters with owners of this kind. */
static int count_owners(struct __test_metadata *_metadata, FIXTURE_DATA(admission) *self,
			char kind)
{
	const char *p = owners(_metadata, self);
	int n = 0;

	while (*p)
		n += *p++ == kind;
	return n;
}

static void expect_owner(struct __test_metadata *_metadata, int num, __u32 kind, pid_t pid,
			 __u32 users)
{
	struct perfmon_counter_owner owner = owner_of(_metadata, num);

	EXPECT_EQ(kind, owner.kind);
	EXPECT_EQ(pid, owner.pid);
	EXPECT_EQ(users, owner.users);
	/* comm has at most 15 bytes. */
	EXPECT_STREQ(kind == PERFMON_OWNER_NONE ? "" : "event_admission", owner.comm);
}

TEST_F(admission, no_counter_has_an_owner_at_first)
{
	int i;

	for (i = 0; i < self->general; i++)
		expect_owner(_metadata, i, PERFMON_OWNER_NONE, 0, 0);
}

TEST_F(admission, missing_counter_has_no_owner)
{
	struct perfmon_counter_owner owner = { .num = self->general };

	EXPECT_EQ(-EINVAL, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
	owner.num = -1;
	EXPECT_EQ(-EINVAL, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
	owner.num = PMC_FIXED(self->p.max_num_fixed_events);
	EXPECT_EQ(-EINVAL, device_ioctl(self->device, PERFMON_GET_OWNER, &owner));
	EXPECT_EQ(-EFAULT, device_ioctl(self->device, PERFMON_GET_OWNER, NULL));
}

/* The PID of an exited process still exists as the ID of its process group. */
TEST_F(admission, exited_owner_has_no_pid)
{
	struct perf_event_attr attr = event_instructions();
	int ready[2], holds[2], status;
	pid_t opener;
	char c;

	attr.config = BRANCHES;
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(holds));
	opener = fork();
	ASSERT_LE(0, opener);
	if (!opener) {
		if (setpgid(0, 0) || event_maker_perfmon.open(&attr, 0, -1, -1, 0) < 0)
			_exit(1);
		if (!fork()) {
			/* Keeps the event open and the group alive until the test has looked at the owner. */
			close(holds[1]);
			_exit(write(ready[1], "", 1) != 1 || read(holds[0], &c, 1));
		}
		_exit(0);
	}
	ASSERT_EQ(opener, waitpid(opener, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	/* Events get the highest counter. */
	expect_owner(_metadata, self->general - 1, PERFMON_OWNER_TASKS, 0, 1);
	close(holds[0]);
	close(holds[1]);
	close(ready[0]);
	close(ready[1]);
	/* Until the child has ended, it also has the fixture's device open. */
	ASSERT_EQ(0, wait_until_idle());
}

TEST_F(admission, one_event_more_than_counters_is_refused)
{
	int round;

	for (round = 0; round < 3; round++) {
		EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, -1));
		EXPECT_EQ(self->general, self->opened);
		EXPECT_EQ(self->general, count_owners(_metadata, self, 't'));
		/* When an event is closed, another one can be opened. */
		close(self->fd[--self->opened]);
		EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, -1));
		EXPECT_EQ(self->general, self->opened);
		close_all(self);
		EXPECT_EQ(0, count_owners(_metadata, self, 't'));
	}
}

/* Instructions have a fixed counter on processors with fixed counters. */
TEST_F(admission, fixed_counter_adds_one_event)
{
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, PERF_COUNT_HW_INSTRUCTIONS, 0, -1));
	EXPECT_EQ(self->general + !!self->p.max_num_fixed_events, self->opened);
}

/* Tasks use the same counters, one after the other. */
TEST_F(admission, each_task_has_all_counters)
{
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, -1));
	EXPECT_EQ(self->general, self->opened);
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, self->target.tid, -1));
	EXPECT_EQ(2 * self->general, self->opened);
	for (i = 0; i < self->general; i++)
		expect_owner(_metadata, i, PERFMON_OWNER_TASKS, getpid(), 2);
}

TEST_F(admission, task_on_one_cpu_has_all_counters)
{
	int cpu = pin_to_first_cpu();

	ASSERT_LE(0, cpu);
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, cpu));
	EXPECT_EQ(self->general, self->opened);
	/*
	 * Events of one task on two CPUs never count at the same time, so they can use all counters
	 * on both CPUs.
	 */
	if (cpu + 1 < sysconf(_SC_NPROCESSORS_ONLN)) {
		EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, cpu + 1));
		EXPECT_EQ(2 * self->general, self->opened);
	}
	EXPECT_EQ(-EBUSY, open_event(BRANCHES, 0, -1));
}

TEST_F(admission, cpu_has_all_counters_but_those_of_tasks)
{
	int cpu = pin_to_first_cpu();

	ASSERT_LE(0, cpu);
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, -1, cpu));
	EXPECT_EQ(self->general, self->opened);
	EXPECT_EQ(self->general, count_owners(_metadata, self, 'C'));
	EXPECT_EQ(-EBUSY, open_event(BRANCHES, 0, -1));
	close(self->fd[--self->opened]);
	self->fd[self->opened] = open_event(BRANCHES, 0, -1);
	ASSERT_LE(0, self->fd[self->opened]);
	self->opened++;
	EXPECT_EQ(-EBUSY, open_event(BRANCHES, -1, cpu));
	EXPECT_EQ(1, count_owners(_metadata, self, 't'));
	EXPECT_EQ(self->general - 1, count_owners(_metadata, self, 'C'));
}

/* A member that does not fit is refused. The other members of the group stay. */
TEST_F(admission, group_is_refused_at_the_member_that_does_not_fit)
{
	struct perf_event_attr attr = own_counter(BRANCHES);
	int fd;

	do {
		fd = event_maker_perfmon.open(&attr, 0, -1, self->opened ? self->fd[0] : -1, 0);
		if (fd >= 0)
			self->fd[self->opened++] = fd;
	} while (fd >= 0 && self->opened < NPMC);
	EXPECT_EQ(-EBUSY, fd);
	EXPECT_EQ(self->general, self->opened);
}

/* PMIO owns counter 0 and the last counter, and a trace owns the lowest free counter. */
TEST_F(admission, each_counter_has_one_owner)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	int last = self->general - 1, free_counters = self->general - 3, cpu;

	ASSERT_LE(4, self->general);
	cpu = trace_on_first_cpu(_metadata, &self->trace, self->device, PAGES);
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pmc_setup(self->device, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->device, last, EVENT_INSTRUCTIONS, PMCF_USR));
	expect_owner(_metadata, 0, PERFMON_OWNER_SESSION, getpid(), 1);
	expect_owner(_metadata, last, PERFMON_OWNER_SESSION, getpid(), 1);
	ASSERT_EQ(0, trace_start(&self->trace));
	expect_owner(_metadata, 1, PERFMON_OWNER_TRACE, getpid(), 1);
	EXPECT_EQ(2, count_owners(_metadata, self, 's'));
	EXPECT_EQ(1, count_owners(_metadata, self, 'T'));

	/* Opens an event of a CPU, and events of the task for all counters that are left. */
	self->fd[self->opened] = open_event(BRANCHES, -1, cpu);
	ASSERT_LE(0, self->fd[self->opened]);
	self->opened++;
	EXPECT_EQ(-EBUSY, open_all(_metadata, self, BRANCHES, 0, -1));
	EXPECT_EQ(free_counters, self->opened);
	EXPECT_EQ(1, count_owners(_metadata, self, 'C'));
	EXPECT_EQ(free_counters - 1, count_owners(_metadata, self, 't'));
	TH_LOG("%s", owners(_metadata, self));

	/* All counters have owners, so all other requests are refused. */
	EXPECT_EQ(-EBUSY, pmc_setup(self->device, 2, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	ASSERT_EQ(0, trace_stop(&self->trace));
	expect_owner(_metadata, 1, PERFMON_OWNER_NONE, 0, 0);
	self->fd[self->opened] = open_event(BRANCHES, 0, -1);
	ASSERT_LE(0, self->fd[self->opened]);
	self->opened++;
	EXPECT_EQ(-EBUSY, trace_start(&self->trace));
	expect_owner(_metadata, 1, PERFMON_OWNER_TASKS, getpid(), 1);
	close_all(self);
	ASSERT_EQ(0, trace_start(&self->trace));
	ASSERT_EQ(0, trace_stop(&self->trace));
	ASSERT_EQ(0, trace_free(&self->trace));
}

TEST_F(admission, owner_is_the_process_that_asked)
{
	int status, num;
	pid_t pid;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* An event of another task: it exists as long as its descriptor. */
		status = open_event(BRANCHES, self->target.tid, -1);
		for (num = 0; num < self->general; num++)
			if (owner_of(_metadata, num).pid == getpid())
				_exit(status < 0 ? 1 : 0);
		_exit(2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, count_owners(_metadata, self, 't'));
}

TEST_F(admission, perf_gets_all_counters_or_none)
{
	int perf = perf_hold_counters(), i;

	ASSERT_LE(0, perf);
	EXPECT_EQ(-EBUSY, open_event(BRANCHES, 0, -1));
	for (i = 0; i < self->general; i++)
		EXPECT_EQ((__u32)PERFMON_OWNER_PERF, owner_of(_metadata, i).kind);
	close(perf);
	self->fd[0] = open_event(BRANCHES, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	self->opened = 1;
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	close_all(self);
	EXPECT_EQ(0, perf_count_short_loop());
}

/* Executes the loop while event, PMIO and trace count. Each also counts the later start calls. */
static void count_by_all(struct __test_metadata *_metadata, FIXTURE_DATA(admission) *self,
			 unsigned long n, __s64 value[4])
{
	struct trace_sums sums;
	__s64 before[2] = { event_count(self->fd[0]), event_count(self->fd[1]) };
	int cpu = sched_getcpu();

	ASSERT_EQ(0, pmc_reset(self->device, 0));
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, event_enable(self->fd[1]));
	ASSERT_EQ(0, pmc_start(self->device, 0));
	ASSERT_EQ(0, trace_loop(&self->trace, n));
	ASSERT_EQ(0, pmc_stop(self->device, 0));
	ASSERT_EQ(0, event_disable(self->fd[1]));
	ASSERT_EQ(0, event_disable(self->fd[0]));
	ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
	value[0] = event_count(self->fd[0]) - before[0];
	value[1] = event_count(self->fd[1]) - before[1];
	value[2] = pmc_value(self->device, 0);
	value[3] = sums.event[0].total;
}

TEST_F(admission, events_and_pmio_and_trace_agree)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	struct perf_event_attr attr = event_instructions();
	int cpu = trace_on_first_cpu(_metadata, &self->trace, self->device, PAGES), i, k;
	__s64 least[4], value[4];

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pmc_setup(self->device, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	self->fd[self->opened++] = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	self->fd[self->opened++] = event_maker_perfmon.open(&attr, -1, cpu, -1, 0);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_LE(0, self->fd[1]);
	count_by_all(_metadata, self, 1, least);
	EXPECT_EQ((__s64)TRACE_LOOP_INSNS(1), least[3]);
	for (k = 1; k <= 10; k++) {
		count_by_all(_metadata, self, k * N, value);
		for (i = 0; i < 4; i++) {
			EXPECT_EQ(least[i] + (__s64)(LOOP_INSNS * (k * N - 1)), value[i]) {
				TH_LOG("%d: %lld", i, least[i]);
			}
		}
	}
	/* The interface that is started first has the largest count. */
	for (i = 0; i < 3; i++)
		EXPECT_LT(least[i + 1], least[i]);
	ASSERT_EQ(0, trace_free(&self->trace));
}

TEST_HARNESS_MAIN
