// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that count the same share one counter, even if they count different tasks and CPUs. Each
 * event has its own count.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event_page.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "rights.h"
#include "rng.h"
#include "samples.h"
#include "target.h"

#define N	100000UL
#define PERIOD	10007UL
#define SHARERS	100
#define MAX_EVENTS	1024	/* the most events of a task */

/* Branches retired: an event that only general counters can count, on Intel and AMD. */
#define BRANCHES	PERF_COUNT_HW_BRANCH_INSTRUCTIONS

FIXTURE(sharing)
{
	struct target target;
	struct sampler sampler, other;
	int cpu;		/* the first CPU */
	int second_cpu;		/* the next CPU, or the first if it is the only one */
	int fd[MAX_EVENTS + 1];
	int opened;
};

FIXTURE_SETUP(sharing)
{
	struct rlimit files = { 2 * MAX_EVENTS, 2 * MAX_EVENTS };
	cpu_set_t cpus;

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	self->other.fd = -1;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, cpus_online(&cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	self->second_cpu = cpu_next(&cpus, self->cpu);
	if (self->second_cpu < 0)
		self->second_cpu = self->cpu;
}

static void close_all(FIXTURE_DATA(sharing) *self)
{
	while (self->opened)
		close(self->fd[--self->opened]);
}

FIXTURE_TEARDOWN(sharing)
{
	close_all(self);
	sampler_close(&self->sampler);
	sampler_close(&self->other);
	target_kill(&self->target);
}

/* Opens one more event. Returns its descriptor or a negative errno. */
static int open_one(FIXTURE_DATA(sharing) *self, struct perf_event_attr attr, pid_t tid, int cpu)
{
	int fd = event_maker_perfmon.open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		self->fd[self->opened++] = fd;
	return fd;
}

static struct perf_event_attr counting_attr(__u64 config)
{
	struct perf_event_attr attr = event_instructions();

	attr.config = config;
	attr.disabled = 0;
	return attr;
}

/* Returns the owner of the counter that an event has. */
static struct perfmon_counter_owner owner_of(struct __test_metadata *_metadata, int fd)
{
	struct perfmon_counter_owner owner = { .num = event_fdinfo_number(fd, "counter") };
	int device = open_device(_metadata, O_RDONLY);

	ASSERT_EQ(0, device_ioctl(device, PERFMON_GET_OWNER, &owner));
	close(device);
	return owner;
}

/* Expects that all open events share one counter. */
static void expect_one_counter(struct __test_metadata *_metadata, FIXTURE_DATA(sharing) *self,
			       __u32 kind)
{
	struct perfmon_counter_owner owner = owner_of(_metadata, self->fd[0]);
	int i;

	EXPECT_EQ(kind, owner.kind);
	EXPECT_EQ((__u32)self->opened, owner.users);
	for (i = 1; i < self->opened; i++)
		ASSERT_EQ(owner.num, event_fdinfo_number(self->fd[i], "counter"));
}

TEST_F(sharing, hundred_events_of_a_task_have_one_counter)
{
	int i, k;

	for (i = 0; i < SHARERS; i++)
		ASSERT_LE(0, open_one(self, event_instructions(), 0, -1));
	expect_one_counter(_metadata, self, PERFMON_OWNER_TASKS);
	/* Each event has counted its own loops. */
	for (i = 0; i < SHARERS; i++) {
		__s64 least = event_loop_count(self->fd[i], 1), count;

		for (k = 1; k <= 2; k++) {
			count = event_loop_count(self->fd[i], k * N);
			ASSERT_EQ(least + LOOP_INSNS * (__s64)(k * N - 1), count);
		}
	}
}

/*
 * Opens @count events of this task as user @uid, writes the number of their counter to @ready, and
 * counts a loop with each when @begin ends. Returns whether all were exact.
 */
static bool count_as_user(unsigned int uid, int count, int ready, int begin)
{
	struct perf_event_attr attr = event_instructions();
	int i, fd[SHARERS];
	__u32 counter;

	if (become_user(uid, 0))
		return false;
	for (i = 0; i < count; i++) {
		fd[i] = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd[i] < 0)
			return false;
	}
	counter = event_fdinfo_number(fd[0], "counter");
	if (write(ready, &counter, sizeof(counter)) != sizeof(counter) || read(begin, &counter, 1))
		return false;
	for (i = 0; i < count; i++) {
		__s64 least = event_loop_count(fd[i], 1);

		if (event_loop_count(fd[i], N) != least + LOOP_INSNS * (__s64)(N - 1))
			return false;
	}
	return true;
}

/* Ten events of each of ten users, on all CPUs. */
TEST_F(sharing, hundred_events_of_ten_users_have_one_counter)
{
	struct perfmon_counter_owner owner = { .num = 0 };
	int device = open_device(_metadata, O_RDONLY), ready[2], begin[2], i, status;
	__u32 counter[10];
	pid_t pid[10];

	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(begin, O_CLOEXEC));
	for (i = 0; i < 10; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(begin[1]);
			pin_to_cpu(i % 2 ? self->cpu : self->second_cpu);
			_exit(!count_as_user(1000 + i, SHARERS / 10, ready[1], begin[0]));
		}
	}
	close(ready[1]);
	for (i = 0; i < 10; i++)
		EXPECT_EQ((ssize_t)sizeof(*counter), read(ready[0], &counter[i], sizeof(*counter)));
	owner.num = counter[0];
	EXPECT_EQ(0, device_ioctl(device, PERFMON_GET_OWNER, &owner));
	EXPECT_EQ((__u32)PERFMON_OWNER_TASKS, owner.kind);
	EXPECT_EQ((__u32)SHARERS, owner.users);
	for (i = 1; i < 10; i++)
		EXPECT_EQ(counter[0], counter[i]);
	close(begin[1]);
	for (i = 0; i < 10; i++) {
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, chmod(_PATH_PERFMON, 0600));
	close(ready[0]);
	close(begin[0]);
	close(device);
}

/* Expects that since the last call each event has counted as much as the first event. */
static void expect_equal_growth(struct __test_metadata *_metadata, FIXTURE_DATA(sharing) *self,
				__s64 *before, __s64 grown)
{
	int i;

	for (i = 0; i < self->opened; i++) {
		__s64 count = event_count(self->fd[i]);

		EXPECT_EQ(grown, count - before[i]) {
			TH_LOG("event %d", i);
		}
		before[i] = count;
	}
}

TEST_F(sharing, hundred_events_of_another_process_are_exact)
{
	static __s64 before[SHARERS];
	__s64 least;
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (i = 0; i < SHARERS; i++)
		ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS),
				      self->target.tid, -1));
	expect_one_counter(_metadata, self, PERFMON_OWNER_TASKS);
	for (i = 0; i < SHARERS; i++)
		before[i] = event_count(self->fd[i]);
	least = before[0];
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { .n = 1, .pieces = 1 }));
	least = event_count(self->fd[0]) - least;
	expect_equal_growth(_metadata, self, before, least);
	for (i = 1; i <= 10; i++) {
		const enum step step = i % 2 ? STEP_NONE : STEP_MOVE;

		ASSERT_EQ(0, target_run_job(&self->target, (struct job) { .n = i * N, .pieces = 1 }));
		expect_equal_growth(_metadata, self, before,
				    least + (__s64)(LOOP_INSNS * (i * N - 1)));
		/* After a move, the counter on the other CPU has another value. */
		ASSERT_EQ(0, target_run_job(&self->target,
					(struct job) { .n = N, .pieces = 1, .step = step }));
		expect_equal_growth(_metadata, self, before, event_count(self->fd[0]) - before[0]);
	}
}

/* Tests events of this task, of another task, and of each CPU. */
TEST_F(sharing, events_of_tasks_and_cpus_have_one_counter)
{
	__s64 of_cpu, of_task, of_other;
	int i, k;

	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
	for (i = 0; i < SHARERS; i += 3) {
		ASSERT_LE(0, open_one(self, counting_attr(BRANCHES), -1, self->cpu));
		ASSERT_LE(0, open_one(self, counting_attr(BRANCHES), 0, -1));
		ASSERT_LE(0, open_one(self, counting_attr(BRANCHES), self->target.tid, -1));
	}
	expect_one_counter(_metadata, self, PERFMON_OWNER_EVENTS);
	for (k = 0; k < 10; k++) {
		const struct job job = { .n = N, .pieces = 1 };

		i = rand() % (self->opened / 3) * 3;
		of_cpu = event_count(self->fd[i]);
		of_task = event_count(self->fd[i + 1]);
		of_other = event_count(self->fd[i + 2]);
		loop(N);
		ASSERT_EQ(0, target_run_job(&self->target, job));
		of_other = event_count(self->fd[i + 2]) - of_other;
		of_task = event_count(self->fd[i + 1]) - of_task;
		of_cpu = event_count(self->fd[i]) - of_cpu;
		/* The loop has a branch per iteration, and the job some more branches. */
		EXPECT_LE((__s64)N, of_other);
		EXPECT_GT((__s64)N + 5000, of_other);
		EXPECT_LE((__s64)N, of_task);
		/*
		 * This task executes only one loop, and some instructions to check whether the
		 * target sleeps.
		 */
		EXPECT_GT(2 * (__s64)N, of_task);
		EXPECT_LE(of_task + of_other, of_cpu);
	}
	/* At first only events of tasks are left, then only events of one task. */
	for (i = 0; i < self->opened; i += 3)
		close(self->fd[i]);
	EXPECT_EQ((__u32)PERFMON_OWNER_TASKS, owner_of(_metadata, self->fd[1]).kind);
	of_task = event_loop_count_running(self->fd[1], 1);
	EXPECT_EQ(of_task + (__s64)N - 1, event_loop_count_running(self->fd[1], N));
	self->opened = 0;
}

/* Events that count different things at the same time have different counters. */
TEST_F(sharing, different_events_do_not_share)
{
	struct perf_event_attr user = counting_attr(BRANCHES), kernel = user;

	kernel.exclude_user = 1;
	kernel.exclude_kernel = 0;
	ASSERT_LE(0, open_one(self, user, 0, -1));
	ASSERT_LE(0, open_one(self, kernel, 0, -1));
	EXPECT_NE(event_fdinfo_number(self->fd[0], "counter"),
		  event_fdinfo_number(self->fd[1], "counter"));
	EXPECT_EQ(1U, owner_of(_metadata, self->fd[0]).users);
}

/* Events that share a counter with a sampled event do not move its samples. */
TEST_F(sharing, sampled_event_shares_with_those_that_count)
{
	struct perf_event_attr attr = event_every(PERIOD), second = attr;
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	const unsigned long n = (100 * PERIOD + PERIOD / 2) / LOOP_INSNS;
	__s64 least = 0, count;
	int i;

	ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), 0, -1));
	ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), -1, self->cpu));
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, 0, -1, 4));
	self->fd[self->opened++] = dup(s->fd);
	for (i = 0; i < 10; i++)
		ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), 0, -1));
	for (i = 1; i < self->opened; i++)
		ASSERT_EQ(event_fdinfo_number(self->fd[0], "counter"),
			  event_fdinfo_number(self->fd[i], "counter"));
	/* Two sampled events have two counters. */
	second.sample_period = 2003;
	ASSERT_EQ(0, sampler_open(&self->other, &event_maker_perfmon, &second, 0, -1, 4));
	EXPECT_NE(event_fdinfo_number(self->fd[0], "counter"),
		  event_fdinfo_number(self->other.fd, "counter"));

	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 1; i <= 5; i++) {
		count = event_loop_count_running(self->fd[0], i * n);
		if (i == 1)
			least = count;
		EXPECT_EQ(least + (__s64)(LOOP_INSNS * (i - 1) * n), count);
		count = event_count(self->fd[self->opened - 1]);
		EXPECT_LE((__s64)(LOOP_INSNS * n), count);
		sampler_read(s, &sums, NULL, NULL);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	count = event_count(s->fd);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ((unsigned long)count / PERIOD, sums.samples);
}

/* A sampled event of kernel mode stops its counter for moments, which other events would miss. */
TEST_F(sharing, sampled_event_of_the_kernel_has_a_counter_alone)
{
	struct perf_event_attr attr = event_every(PERIOD), kernel;

	kernel = counting_attr(BRANCHES);
	kernel.exclude_kernel = 0;
	attr.config = BRANCHES;
	attr.exclude_kernel = 0;
	ASSERT_LE(0, open_one(self, kernel, 0, -1));
	ASSERT_LE(0, open_one(self, attr, 0, -1));
	ASSERT_LE(0, open_one(self, kernel, 0, -1));
	EXPECT_EQ(2U, owner_of(_metadata, self->fd[0]).users);
	EXPECT_EQ(1U, owner_of(_metadata, self->fd[1]).users);
}

struct group_findings {
	unsigned long samples, wrong;
	__u64 ids[3], last;
};

/* Checks the counts in a sample: of the leader, whose period has ended, and of two siblings. */
static void check_sample(const struct sample *s, void *data)
{
	struct group_findings *t = data;
	int i;

	t->samples++;
	if (s->count_words != 7 || s->counts[0] != 3) {
		t->wrong++;
		return;
	}
	for (i = 0; i < 3; i++)
		t->wrong += s->counts[2 + 2 * i] != t->ids[i];
	t->wrong += s->counts[1] < t->last + PERIOD / 2 || s->counts[3] > s->counts[1];
	/* Both siblings count the same event. */
	t->wrong += s->counts[3] != s->counts[5];
	t->last = s->counts[1];
}

/* Samples of each group have the counts of its own members, though all share one counter. */
TEST_F(sharing, samples_of_groups_show_their_own_members)
{
	struct perf_event_attr leader = event_every(PERIOD), sibling = counting_attr(BRANCHES);
	struct sampler *samplers[] = { &self->sampler, &self->other };
	struct group_findings check[2] = { 0 };
	int i, k;

	leader.sample_type |= PERF_SAMPLE_READ;
	leader.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID;
	sibling.read_format = leader.read_format;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, sampler_open(samplers[i], &event_maker_perfmon, &leader, 0, -1, 6));
		check[i].ids[0] = event_id(samplers[i]->fd);
		for (k = 1; k < 3; k++) {
			int fd = event_maker_perfmon.open(&sibling, 0, -1, samplers[i]->fd, 0);

			ASSERT_LE(0, fd);
			self->fd[self->opened++] = fd;
			check[i].ids[k] = event_id(fd);
		}
		/* The counts of the second group start later. */
		ASSERT_EQ(0, event_enable(samplers[i]->fd));
		labelled_loop(10 * PERIOD);
	}
	expect_one_counter(_metadata, self, PERFMON_OWNER_TASKS);
	for (i = 0; i < 2; i++) {
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		ASSERT_EQ(0, event_disable(samplers[i]->fd));
		sampler_read(samplers[i], &sums, check_sample, &check[i]);
		EXPECT_FALSE(sums.malformed);
		EXPECT_LE(9UL, check[i].samples);
		EXPECT_EQ(0UL, check[i].wrong);
	}
	EXPECT_GT(check[0].samples, check[1].samples);
}

/* A CPU can maintain a limited number of pages. Readers of further pages use read(2). */
TEST_F(sharing, pages_of_events_that_share_are_right)
{
	struct perf_event_mmap_page *page[SHARERS];
	const long size = sysconf(_SC_PAGESIZE);
	int i, readable = 0;

	for (i = 0; i < SHARERS; i++) {
		ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), 0, -1));
		page[i] = mmap(NULL, size, PROT_READ, MAP_SHARED, self->fd[i], 0);
		ASSERT_NE(MAP_FAILED, page[i]);
		loop(i + 1);
	}
	expect_one_counter(_metadata, self, PERFMON_OWNER_TASKS);
	for (i = 0; i < SHARERS; i++) {
		__s64 before = event_count(self->fd[i]);
		__u64 count;

		if (!page[i]->cap_user_rdpmc)
			continue;
		readable++;
		ASSERT_NE(0U, page[i]->index);
		count = page_read(page[i]).count;
		EXPECT_LT(before, (__s64)count);
		EXPECT_GT(event_count(self->fd[i]), (__s64)count);
	}
	EXPECT_EQ(64, readable);
	/* When some pages are unmapped, further pages can allow RDPMC from the next switch on. */
	for (i = 0; i < SHARERS / 2; i++)
		ASSERT_EQ(0, munmap(page[i], size));
	switch_out();
	for (i = SHARERS / 2; i < SHARERS; i++)
		EXPECT_TRUE(page[i]->cap_user_rdpmc && page[i]->index);
}

/* A program that maps a page of the shared counter does not delay the samples of its CPU. */
TEST_F(sharing, samples_of_a_cpu_are_not_delayed_by_a_page)
{
	struct perf_event_attr attr = event_every(10 * N);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	void *page;
	int i;

	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, -1, self->cpu, 6));
	ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), 0, -1));
	EXPECT_EQ(event_fdinfo_number(s->fd, "counter"), event_fdinfo_number(self->fd[0], "counter"));
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, self->fd[0], 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, event_enable(s->fd));
	/* Sleeps, because the end of each sleep is a switch to this program. */
	for (i = 0; i < 100; i++) {
		loop(N);
		usleep(100);
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(100UL * LOOP_INSNS * N / (10 * N), sums.samples);
	EXPECT_EQ((__u64)event_count(s->fd) / (10 * N), sums.samples + sums.lost);
}

/* A page is right while a CPU's sampling starts and ends, which reloads the counter. */
TEST_F(sharing, pages_are_right_while_samples_begin)
{
	struct perf_event_attr attr = event_every(100 * N);
	struct perf_event_mmap_page *page;
	struct sampler *s = &self->sampler;
	int status = -1, wrong = 0, *looks;
	pid_t pid;

	looks = mmap(NULL, sizeof(*looks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ASSERT_NE(MAP_FAILED, looks);
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, -1, self->cpu, 6));
	ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), 0, -1));
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, self->fd[0], 0);
	ASSERT_NE(MAP_FAILED, page);
	pid = fork();
	if (!pid) {
		if (pin_to_cpu(self->second_cpu))
			_exit(1);
		/* On a busy host the parent may not have run yet. */
		for (int i = 0; i < 200 || __atomic_load_n(looks, __ATOMIC_RELAXED) <= 100; i++) {
			if (event_enable(s->fd) || usleep(500) || event_disable(s->fd))
				_exit(1);
			usleep(500);
		}
		_exit(0);
	}
	ASSERT_LT(0, pid);
	while (!waitpid(pid, &status, WNOHANG)) {
		const struct page_value value = page_read(page);
		const __s64 after = event_count(self->fd[0]) - value.count;

		__atomic_add_fetch(looks, 1, __ATOMIC_RELAXED);
		/*
		 * The count of read(2) is a little larger: it includes the instructions of read(2)
		 * itself.
		 */
		wrong += after <= 0 || after > 5000;
	}
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, wrong);
}

/* A program with a large group leaves room for the counts in a CPU's samples. */
TEST_F(sharing, samples_of_a_cpu_have_counts_beside_a_large_group)
{
	struct perf_event_attr leader = event_every(1UL << 30), member = counting_attr(BRANCHES);
	struct perf_event_attr attr = event_every(10 * N);
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int ready[2], i;
	pid_t pid;
	char c;

	leader.config = BRANCHES;
	leader.disabled = 0;
	leader.sample_type |= PERF_SAMPLE_READ;
	leader.read_format = PERF_FORMAT_GROUP;
	member.read_format = PERF_FORMAT_GROUP;
	attr.sample_type |= PERF_SAMPLE_READ;
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		int fd = event_maker_perfmon.open(&leader, 0, -1, -1, 0);

		if (fd < 0)
			_exit(1);
		for (i = 1; i < 64; i++) {
			if (event_maker_perfmon.open(&member, 0, -1, fd, 0) < 0)
				_exit(1);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			loop(N);
	}
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, pin_to_cpu(self->second_cpu));
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	close(ready[0]);
	ASSERT_EQ(0, sampler_open(s, &event_maker_perfmon, &attr, -1, self->cpu, 6));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 6000 && sums.samples < 10; i++) {
		usleep(10000);
		sampler_read(s, &sums, NULL, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_LE(10UL, sums.samples);
	EXPECT_FALSE(sums.malformed);
}

/* A task's children inherit all of its events. */
TEST_F(sharing, children_inherit_a_hundred_events)
{
	struct perf_event_attr attr = counting_attr(PERF_COUNT_HW_INSTRUCTIONS);
	__s64 least = 0;
	int i, k, status;
	pid_t pid;

	attr.inherit = 1;
	for (i = 0; i < SHARERS; i++)
		ASSERT_LE(0, open_one(self, attr, 0, -1));
	for (k = 0; k < 3; k++) {
		static __s64 before[SHARERS];

		for (i = 0; i < SHARERS; i++)
			before[i] = event_count(self->fd[i]);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			loop(k * N + 1);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		for (i = 0; i < SHARERS; i++) {
			__s64 grown = event_count(self->fd[i]) - before[i];

			ASSERT_LE(LOOP_INSNS * (__s64)(k * N), grown);
			least = !i ? grown : least;
			/* The events are read in the same order, by the same code, both times. */
			ASSERT_GT(least + 10000, grown);
			ASSERT_LT(least - 10000, grown);
		}
	}
}

TEST_F(sharing, number_of_events_per_task_is_limited)
{
	int i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	for (i = 0; i < MAX_EVENTS; i++)
		ASSERT_LE(0, open_one(self, event_instructions(), 0, -1)) {
			TH_LOG("event %d", i);
		}
	EXPECT_EQ(-EBUSY, open_one(self, event_instructions(), 0, -1));
	/* Another task may have the same number of events. */
	EXPECT_LE(0, open_one(self, event_instructions(), self->target.tid, -1));
	EXPECT_LE(LOOP_INSNS * (__s64)N, event_loop_count(self->fd[MAX_EVENTS - 1], N));
	close_all(self);
	EXPECT_LE(0, open_one(self, event_instructions(), 0, -1));
}

/* Events of two tasks and of the CPU are opened and closed at random. Each count is exact. */
TEST_F(sharing, events_that_come_and_go_are_exact)
{
	enum { ROUNDS = 300, EVENTS = 40 };
	struct {
		int fd;
		bool of_target, branches;
	} event[EVENTS];
	struct rng rng = rng_seed(1);
	const struct job one = { .n = 1, .pieces = 1 };
	unsigned int opened = 0, refused = 0;
	__s64 least[2] = { 0 };
	int i, round;

	for (i = 0; i < EVENTS; i++)
		event[i].fd = -1;
	ASSERT_EQ(0, target_start(&self->target, self->cpu, false));
	/* Opens two events that measure the instructions of a job outside of its loop. */
	ASSERT_LE(0, open_one(self, counting_attr(PERF_COUNT_HW_INSTRUCTIONS), self->target.tid, -1));
	ASSERT_LE(0, open_one(self, counting_attr(BRANCHES), self->target.tid, -1));
	for (i = 0; i < 2; i++)
		least[i] = event_count(self->fd[i]);
	ASSERT_EQ(0, target_run_job(&self->target, one));
	for (i = 0; i < 2; i++)
		least[i] = event_count(self->fd[i]) - least[i];
	for (round = 0; round < ROUNDS; round++) {
		const unsigned long n = 1 + rng_below(&rng, N);
		struct job job = { .n = n, .pieces = 1 };
		static __s64 before[EVENTS];

		i = rng_below(&rng, EVENTS);
		if (event[i].fd >= 0) {
			close(event[i].fd);
			event[i].fd = -1;
		} else {
			const unsigned int where = rng_below(&rng, 3);
			struct perf_event_attr attr;

			event[i].branches = rng_below(&rng, 2);
			attr = counting_attr(event[i].branches ? BRANCHES :
					PERF_COUNT_HW_INSTRUCTIONS);
			if (!rng_below(&rng, 4))
				attr.sample_period = 1000003;
			event[i].of_target = where == 0;
			event[i].fd = event_maker_perfmon.open(&attr, where == 0 ?
				self->target.tid : where == 1 ? 0 : -1,
				where == 2 ? self->cpu : -1, -1, PERF_FLAG_FD_CLOEXEC);
			opened += event[i].fd >= 0;
			refused += event[i].fd < 0;
		}
		for (i = 0; i < EVENTS; i++)
			if (event[i].fd >= 0)
				before[i] = event_count(event[i].fd);
		ASSERT_EQ(0, target_run_job(&self->target, job));
		for (i = 0; i < EVENTS; i++) {
			const __s64 count = event[i].fd < 0 ? 0 : event_count(event[i].fd);
			const __s64 grown = count - before[i];
			const __s64 expected = least[event[i].branches] +
				(__s64)((event[i].branches ? 1 : LOOP_INSNS) * (n - 1));

			if (event[i].fd >= 0 && event[i].of_target) {
				ASSERT_EQ(expected, grown) {
					TH_LOG("event %d in round %d", i, round);
				}
			} else if (event[i].fd >= 0) {
				ASSERT_LE(0, grown);
			}
		}
	}
	TH_LOG("%u opened, %u refused", opened, refused);
	EXPECT_LE(50U, opened);
	for (i = 0; i < EVENTS; i++)
		if (event[i].fd >= 0)
			close(event[i].fd);
}

TEST_HARNESS_MAIN
