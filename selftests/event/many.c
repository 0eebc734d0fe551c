// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of many events, in instructions of the kernel. Many sleeping tasks, many cgroups or deep
 * cgroups with an event each: their cost for other tasks. Many events of a user: their cost for the
 * calls and switches of other users. Many events of one task: their cost at a switch, also if they
 * take turns. A large group: its cost at the end of a task that has inherited it. TASKS, CGROUPS
 * and EVENTS in the environment are the numbers of tasks, cgroups and events.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cgroups.h"
#include "device.h"
#include "event_ring.h"
#include "file.h"
#include "fixture.h"
#include "idle.h"
#include "options.h"

#define TASKS	env_number("TASKS", 12000)
#define CGROUPS	env_number("CGROUPS", 8000)
#define ROOT	"/tmp/cgroup"

#define THREADS_MAX	"/proc/sys/kernel/threads-max"
#define PID_MAX		"/proc/sys/kernel/pid_max"
#define RAISED_LIMIT		"100000\n"

/* The number of measurements whose average is taken. */
#define RUNS	5
/*
 * The number of measurements, of which the least counts: on a busy host many contain a timer tick.
 */
#define CLOSES	30
/* The maximum number of pairs of processes that are tried to get RUNS measurements. */
#define PAIRS	100
/*
 * The number of chunks in which the switches of a pair are measured. A chunk is so short that most
 * contain no timer tick.
 */
#define CHUNKS	200
#define YIELDS	20

/*
 * With a hash table that grows, a switch looks at one or two of the tasks with events. In a
 * table of fixed size (1024 lists), these tasks cost 55 instructions more. Two measurements of
 * the same cost differ by about 20 instructions.
 */
#define SWITCH_SLACK	40
/*
 * The limit for the instructions that other cgroups add to a switch: in the lists of the table,
 * they may be in front of the cgroups of the switch
 */
#define CGROUP_SLACK	100
/* The limit for what one more level with events costs a switch between two cgroups */
#define LEVEL_SLACK	80

/*
 * The number of instructions by which a call may take longer. Two measurements of the same cost
 * differ by up to 1000 instructions, and a search of all EVENTS would take many thousands.
 */
#define CALL_SLACK	1500

/* The events of a large group: the most that a task can have. */
#define GROUP	1024

FIXTURE(event)
{
	int kernel;		/* event of the kernel's instructions on the first CPU */
	pid_t sleepers;		/* process of the many tasks */
	char threads_max[32], pid_max[32];
};

#include "event_fixture.h"

/*
 * Returns the number of instructions that this CPU has executed in the kernel. With ICOUNT in the
 * environment, the time-stamp counter advances with each instruction (vm/run --icount), and the
 * result is the number of all instructions. It includes perf's switches of its own events, during
 * which perf stops all counters.
 */
static __s64 insns_so_far(FIXTURE_DATA(event) *self)
{
	return env_number("ICOUNT", 0) ? (__s64)__rdtsc() : event_count(self->kernel);
}

/* Raises a limit, and stores the old limit in @before. Returns 0 or a negative errno. */
static int raise_limit(const char *path, char *before, size_t size)
{
	FILE *f = fopen(path, "re");
	bool done = f && fgets(before, size, f);

	if (f)
		fclose(f);
	return done ? write_file(path, RAISED_LIMIT) : -EIO;
}

FIXTURE_SETUP(event)
{
	struct perf_event_attr attr = event_instructions();
	int cpu;

	self->kernel = -1;
	self->sleepers = 0;
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, raise_limit(THREADS_MAX, self->threads_max, sizeof(self->threads_max)));
	ASSERT_EQ(0, raise_limit(PID_MAX, self->pid_max, sizeof(self->pid_max)));
	cpu = pin_to_first_cpu();
	ASSERT_LE(0, cpu);
	attr.disabled = 0;
	attr.exclude_user = 1;
	attr.exclude_kernel = 0;
	self->kernel = variant->maker->open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->kernel);
}

FIXTURE_TEARDOWN(event)
{
	if (self->sleepers > 0) {
		kill(self->sleepers, SIGKILL);
		waitpid(self->sleepers, NULL, 0);
	}
	close(self->kernel);
	write_file(THREADS_MAX, self->threads_max);
	write_file(PID_MAX, self->pid_max);
	restore_maker(_metadata, variant);
}

/* Starts a thread without a stack, which sleeps forever. Returns false on failure. */
static bool start_sleeper(void)
{
	const unsigned long flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND |
				    CLONE_THREAD | CLONE_SYSVSEM;
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long result;

	__asm__ volatile("	syscall\n"
			 "	test	%%rax, %%rax\n"
			 "	jnz	2f\n"
			 "1:	mov	%[pause], %%eax\n"
			 "	syscall\n"
			 "	jmp	1b\n"
			 "2:\n"
			 : "=a" (result)
			 : "a" ((long)SYS_clone), "D" (flags), "S" (0L), "d" (0L), "r" (r10),
			   "r" (r8), [pause] "i" (SYS_pause)
			 : "rcx", "r11", "memory");
	return result > 0;
}

/*
 * Waits for deferred work of the kernel, such as RCU callbacks and the growth of tables, which
 * would be part of the next measurement. The time is a guess, since nothing shows the end of this
 * work.
 */
static void wait_for_deferred_work(void)
{
	sleep(1);
}

/* Starts the many tasks, which inherit the event of the first task. */
static void start_sleepers(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   const FIXTURE_VARIANT(event) *variant)
{
	struct perf_event_attr attr = event_instructions();
	__u64 *begun = map_shared(_metadata, sizeof(*begun)), i;
	int ready[2];
	char c;

	attr.inherit = 1;
	attr.disabled = 0;
	ASSERT_EQ(0, pipe(ready));
	self->sleepers = fork();
	ASSERT_LE(0, self->sleepers);
	if (!self->sleepers) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (variant->maker->open(&attr, 0, -1, -1, 0) < 0)
			_exit(1);
		for (i = 0; i < TASKS && start_sleeper(); i++)
			++*begun;
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(TASKS, *begun);
	close(ready[0]);
	munmap(begun, sizeof(*begun));
	wait_for_deferred_work();
}

/*
 * Returns the cost of closing an inherited event for another process: the least of several
 * measurements, since interrupts increase a measurement.
 */
static __s64 closing_cost(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		     const FIXTURE_VARIANT(event) *variant)
{
	struct perf_event_attr attr = event_instructions();
	__s64 least = 0, before, cost;
	int run, fd;

	attr.inherit = 1;
	for (run = 0; run < CLOSES; run++) {
		fd = variant->maker->open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, fd);
		before = insns_so_far(self);
		close(fd);
		cost = insns_so_far(self) - before;
		if (!run || cost < least)
			least = cost;
	}
	return least;
}

/* Starts a process that yields the CPU forever. */
static pid_t start_yielding(__u64 *yields)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;; ++*yields)
		syscall(SYS_sched_yield);
}

/* Returns the number of involuntary context switches of this process. */
static long involuntary_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? -1 : usage.ru_nivcsw;
}

/* Moves a process to a cgroup. */
static void move_to(struct __test_metadata *_metadata, const char *cgroup, pid_t pid)
{
	ASSERT_EQ(0, cgroup_move(cgroup, pid));
}

/*
 * Returns the cost of YIELDS switches between this process and a new process, with their system
 * calls. The new process is in @cgroup, or in this process's cgroup if @cgroup is NULL. Only
 * measurements in which each call has made a switch are valid, and the least of them counts, since
 * on a busy host the same switches contain more ticks. Returns 0 if no measurement was valid: for
 * some pairs, the scheduler ignores about each sixth call.
 */
static __s64 switching_cost_of_pair(struct __test_metadata *_metadata,
				    FIXTURE_DATA(event) *self, __u64 *yields,
				    const char *cgroup)
{
	__s64 least = 0, before, cost;
	int chunk, i, status;
	pid_t other;
	long switches_before;

	*yields = 0;
	other = start_yielding(yields);
	ASSERT_LE(0, other);
	if (cgroup)
		move_to(_metadata, cgroup, other);
	while (!*yields)
		sched_yield();
	for (chunk = 0; chunk < CHUNKS; chunk++) {
		switches_before = involuntary_switches();
		before = insns_so_far(self);
		for (i = 0; i < YIELDS; i++)
			syscall(SYS_sched_yield);
		cost = insns_so_far(self) - before;
		if (involuntary_switches() - switches_before == YIELDS && (!least || cost < least))
			least = cost;
	}
	ASSERT_EQ(0, kill(other, SIGKILL));
	ASSERT_EQ(other, waitpid(other, &status, 0));
	return least;
}

/*
 * Returns the cost of a switch between two processes, with its system call: the average of RUNS
 * pairs, since some processes share a hash list with more tasks than others. One process is in
 * @cgroup, unless that is NULL.
 */
static __s64 switching_cost(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			    const char *cgroup)
{
	__u64 *yields = map_shared(_metadata, sizeof(*yields));
	int pair, run = 0;
	__s64 sum = 0;

	for (pair = 0; run < RUNS; pair++) {
		__s64 cost;

		ASSERT_LT(pair, PAIRS);
		cost = switching_cost_of_pair(_metadata, self, yields, cgroup);
		sum += cost;
		run += cost != 0;
	}
	munmap(yields, sizeof(*yields));
	return sum / (2 * YIELDS * RUNS);
}

TEST_F(event, others_do_not_pay_for_tasks_with_events)
{
	struct perf_event_attr attr = event_instructions();
	__s64 alone_close, alone_switch, close_cost, switch_cost;
	int fd;

	/*
	 * Keeps an event open, so that the module's hooks in the context switch are there with and
	 * without the many tasks.
	 */
	fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	alone_close = closing_cost(_metadata, self, variant);
	alone_switch = switching_cost(_metadata, self, NULL);
	start_sleepers(_metadata, self, variant);
	close_cost = closing_cost(_metadata, self, variant);
	switch_cost = switching_cost(_metadata, self, NULL);
	TH_LOG("%s: a close %lld, beside %llu tasks %lld; a switch %lld, beside them %lld",
	       variant->maker->name, alone_close, TASKS, close_cost, alone_switch, switch_cost);
	EXPECT_GT(alone_close + alone_close / 4, close_cost);
	EXPECT_GT(alone_switch + SWITCH_SLACK, switch_cost);
	close(fd);
}

/* Returns the path of cgroup @number. */
static const char *cgroup_path(int number)
{
	static char path[64];

	snprintf(path, sizeof(path), ROOT "/%d", number);
	return path;
}

/* Makes the cgroups @first to @end - 1, and opens an event of each. */
static void open_cgroups(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
			 int first, int end, int *fd)
{
	struct perf_event_attr attr = event_instructions();
	int i;

	attr.disabled = 0;
	for (i = first; i < end; i++) {
		ASSERT_EQ(0, mkdir(cgroup_path(i), 0755));
		fd[i] = event_open_of_cgroup(variant->maker, attr, cgroup_path(i), -1);
		ASSERT_LE(0, fd[i]) {
			TH_LOG("cgroup %d: %s", i, strerror(-fd[i]));
		}
	}
}

/* The processes are in the cgroups 0 and 1. perf has no events of cgroups on all CPUs. */
TEST_F(event, others_do_not_pay_for_cgroups_with_events)
{
	const int count = 2 + CGROUPS;
	const struct rlimit files = { count + 100, count + 100 };
	__s64 alone, beside;
	int *fd, i;

	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	fd = calloc(count, sizeof(*fd));
	ASSERT_NE(NULL, fd);
	mkdir(ROOT, 0755);
	ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
	open_cgroups(_metadata, variant, 0, 2, fd);
	move_to(_metadata, cgroup_path(0), getpid());
	alone = switching_cost(_metadata, self, cgroup_path(1));
	open_cgroups(_metadata, variant, 2, count, fd);
	wait_for_deferred_work();
	beside = switching_cost(_metadata, self, cgroup_path(1));
	TH_LOG("a switch between two cgroups with events %lld, beside %d others %lld", alone,
	       count - 2, beside);
	EXPECT_GT(alone + CGROUP_SLACK, beside);
	move_to(_metadata, ROOT, getpid());
	for (i = 0; i < count; i++) {
		close(fd[i]);
		EXPECT_EQ(0, rmdir(cgroup_path(i)));
	}
	free(fd);
	EXPECT_EQ(0, umount(ROOT));
}

/* The deepest level of a cgroup that can have events; the root has level 0. */
#define DEEPEST		32

/* Puts the path of a cgroup at @level into @path: the descendant of cgroup @number in "0"s. */
static void deep_path(char path[128], int number, int level)
{
	size_t length = snprintf(path, 128, ROOT "/%d", number);

	while (--level)
		length += snprintf(path + length, 128 - length, "/0");
}

/*
 * The processes are in two deep cgroups. A switch looks only at levels at which a cgroup has events
 * at present.
 */
TEST_F(event, a_switch_looks_at_levels_with_events_only)
{
	struct perf_event_attr attr = event_instructions();
	__s64 alone, beside, after;
	int fd[3], deep, i, level;
	char path[128];

	if (variant->maker == &event_maker_perf)
		return;
	attr.disabled = 0;
	mkdir(ROOT, 0755);
	ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
	open_cgroups(_metadata, variant, 0, 3, fd);
	for (i = 0; i < 3; i++) {
		for (level = 2; level <= DEEPEST; level++) {
			deep_path(path, i, level);
			ASSERT_EQ(0, mkdir(path, 0755));
		}
	}
	deep_path(path, 0, DEEPEST);
	move_to(_metadata, path, getpid());
	deep_path(path, 1, DEEPEST);
	alone = switching_cost(_metadata, self, path);
	/* A third cgroup has the deep event. */
	deep_path(path, 2, DEEPEST);
	deep = event_open_of_cgroup(variant->maker, attr, path, -1);
	ASSERT_LE(0, deep);
	deep_path(path, 1, DEEPEST);
	beside = switching_cost(_metadata, self, path);
	close(deep);
	after = switching_cost(_metadata, self, path);
	TH_LOG("a switch between cgroups of level %d %lld, beside an event there %lld, after it %lld",
	       DEEPEST, alone, beside, after);
	EXPECT_GT(alone + LEVEL_SLACK, beside);
	EXPECT_GT(alone + SWITCH_SLACK, after);
	move_to(_metadata, ROOT, getpid());
	for (i = 0; i < 3; i++) {
		close(fd[i]);
		for (level = DEEPEST; level; level--) {
			deep_path(path, i, level);
			EXPECT_EQ(0, rmdir(path));
		}
	}
	EXPECT_EQ(0, umount(ROOT));
}

/*
 * The number of events of a user, and the number of events of each of the user's tasks or cgroups,
 * or of a CPU
 */
#define EVENTS		env_number("EVENTS", 10000)
#define EVENTS_OF_EACH	1000

/* The costs of another user, who has one inherited event of a task, in instructions of the kernel. */
struct user_costs {
	__s64 open, read, close, fork_and_exit, yield;
};

/* Returns the lesser of two costs. A @least of 0 means that there is no cost yet. */
static __s64 lesser(__s64 least, __s64 cost)
{
	return !least || cost < least ? cost : least;
}

/*
 * Measures the costs of another user. Takes the least of several measurements, since interrupts
 * increase a measurement.
 */
static struct user_costs measure_user(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				      const FIXTURE_VARIANT(event) *variant)
{
	struct perf_event_attr attr = event_instructions();
	struct user_costs costs = { 0 };
	__s64 count[6];
	int run, fd;
	pid_t pid;

	attr.disabled = 0;
	attr.inherit = 1;
	for (run = 0; run < CLOSES; run++) {
		count[0] = insns_so_far(self);
		fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		count[1] = insns_so_far(self);
		ASSERT_LE(0, fd);
		ASSERT_LE(0, event_count(fd));
		count[2] = insns_so_far(self);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(0);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		count[3] = insns_so_far(self);
		close(fd);
		count[4] = insns_so_far(self);
		costs.open = lesser(costs.open, count[1] - count[0]);
		costs.read = lesser(costs.read, count[2] - count[1]);
		costs.fork_and_exit = lesser(costs.fork_and_exit, count[3] - count[2]);
		costs.close = lesser(costs.close, count[4] - count[3]);
	}
	costs.yield = switching_cost(_metadata, self, NULL);
	return costs;
}

/* Expects about the same costs: a quarter and CALL_SLACK instructions more are allowed. */
static void expect_same_costs(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
			      const char *beside, const struct user_costs *alone,
			      const struct user_costs *costs)
{
	TH_LOG("%s: beside %s an open %lld (alone %lld), a read %lld (%lld), a close %lld (%lld), a fork and its exit %lld (%lld), a switch %lld (%lld)",
	       variant->maker->name, beside, costs->open, alone->open, costs->read, alone->read,
	       costs->close, alone->close, costs->fork_and_exit, alone->fork_and_exit,
	       costs->yield, alone->yield);
	if (variant->maker == &event_maker_perf)
		return;
	EXPECT_GT(alone->open + alone->open / 4 + CALL_SLACK, costs->open);
	EXPECT_GT(alone->read + alone->read / 4 + CALL_SLACK, costs->read);
	EXPECT_GT(alone->close + alone->close / 4 + CALL_SLACK, costs->close);
	EXPECT_GT(alone->fork_and_exit + alone->fork_and_exit / 4, costs->fork_and_exit);
	EXPECT_GT(alone->yield + CGROUP_SLACK, costs->yield);
}

/* Starts a process that sleeps. */
static pid_t start_sleeping(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* Opens event number @number of a user. Returns a descriptor or a negative errno. */
typedef int (*open_nth_t)(const struct event_maker *maker, int number);

/* Inherited events of sleeping tasks */
static int open_of_task(const struct event_maker *maker, int number)
{
	struct perf_event_attr attr = event_instructions();
	static pid_t task;

	if (number % EVENTS_OF_EACH == 0)
		task = start_sleeping();
	attr.disabled = 0;
	attr.inherit = 1;
	return maker->open(&attr, task, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Events of the first CPU, and of cgroups without tasks */
static int open_of_cpu_or_cgroup(const struct event_maker *maker, int number)
{
	const char *cgroup = cgroup_path(number / EVENTS_OF_EACH);
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	if (number < EVENTS_OF_EACH)
		return maker->open(&attr, -1, pin_to_first_cpu(), -1, PERF_FLAG_FD_CLOEXEC);
	mkdir(cgroup, 0755);
	return event_open_of_cgroup(maker, attr, cgroup, -1);
}

/* Starts a process that opens EVENTS events, and sleeps. The process ends with its tasks. */
static pid_t start_user(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
			open_nth_t open_nth)
{
	const struct rlimit files = { EVENTS + 100, EVENTS + 100 };
	const int count = EVENTS;
	int ready[2], i, err = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_NOFILE, &files);
		for (i = 0; i < count && err >= 0; i++)
			err = open_nth(variant->maker, i);
		err = err < 0 ? err : 0;
		if (write(ready[1], &err, sizeof(err)) != sizeof(err))
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT_EQ((ssize_t)sizeof(err), read(ready[0], &err, sizeof(err)));
	close(ready[0]);
	EXPECT_EQ(0, err);
	wait_for_deferred_work();
	return pid;
}

static void end_user(struct __test_metadata *_metadata, pid_t pid)
{
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	wait_for_deferred_work();
}

/*
 * A user has many events: for each of some tasks as many as are allowed, or events of this CPU and
 * of cgroups (perf has no events of cgroups on all CPUs). The calls and switches of other users
 * have the same cost as without these events.
 */
TEST_F(event, others_do_not_pay_for_events_of_a_user)
{
	struct perf_event_attr attr = event_instructions();
	struct user_costs alone, costs;
	int i, keep;
	pid_t user;

	attr.disabled = 0;
	/*
	 * Keeps an event open, so that the module's hooks in the context switch are there in each
	 * measurement.
	 */
	keep = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, keep);
	alone = measure_user(_metadata, self, variant);
	user = start_user(_metadata, variant, open_of_task);
	costs = measure_user(_metadata, self, variant);
	expect_same_costs(_metadata, variant, "events of tasks", &alone, &costs);
	end_user(_metadata, user);

	if (variant->maker == &event_maker_perfmon) {
		mkdir(ROOT, 0755);
		ASSERT_EQ(0, mount("none", ROOT, "cgroup2", 0, NULL));
		user = start_user(_metadata, variant, open_of_cpu_or_cgroup);
		costs = measure_user(_metadata, self, variant);
		expect_same_costs(_metadata, variant, "events of a CPU and of cgroups", &alone,
				  &costs);
		end_user(_metadata, user);
		for (i = 1; i * EVENTS_OF_EACH < (int)EVENTS; i++)
			EXPECT_EQ(0, rmdir(cgroup_path(i)));
		EXPECT_EQ(0, umount(ROOT));
	}
	close(keep);
}

#define TURNS	1000	/* a task can have 1024 events */
#define EVENT_INSNS	150LL	/* the limit for what an event costs two switches */

/* Returns flags for the event with this number, and sets its type and config in @attr. */
typedef unsigned long (*nth_event_t)(int number, struct perf_event_attr *attr);

/* Events that take turns, each with another event select */
static unsigned long nth_select(int number, struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_RAW;
	attr->config = (0xc2 + number / 0xff) | (number % 0xff + 1) << 8;
	return PERFMON_EVENT_ROTATE;
}

#define SELECTS	12	/* more event selects than counters */

/* The same event each time: all of them share one counter */
static unsigned long nth_same(int number __attribute__((unused)),
			      struct perf_event_attr *attr __attribute__((unused)))
{
	return 0;
}

/*
 * Branches of all kinds of cores and, every second time, only of one kind. They share the counter of the
 * first event, which takes no turns. After this event some others need turns.
 */
static unsigned long nth_branches(int number, struct perf_event_attr *attr)
{
	if (number && number <= SELECTS)
		return nth_select(number, attr);
	attr->type = number % 2 ? PERF_TYPE_RAW : PERF_TYPE_HARDWARE;
	attr->config = number % 2 ? 0xc4 : PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	return number ? PERFMON_EVENT_ROTATE : 0;
}

/* Opens @count events of process @pid. */
static void open_turns(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
		       pid_t pid, nth_event_t nth, int count, int *fd)
{
	struct perf_event_attr attr = event_instructions();
	unsigned long flags;
	int i;

	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	for (i = 0; i < count; i++) {
		flags = nth(i, &attr);
		fd[i] = variant->maker->open(&attr, pid, -1, -1, flags);
		ASSERT_LE(0, fd[i]) {
			TH_LOG("event %d: %s", i, strerror(-fd[i]));
		}
	}
}

/* Returns the cost of two switches: to a process with @count events that take turns, and back. */
static __s64 cost_of_turns(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   const FIXTURE_VARIANT(event) *variant, nth_event_t nth, int count)
{
	__u64 *yields = map_shared(_metadata, sizeof(*yields));
	__s64 least = 0, before, cost;
	int fd[TURNS], i, status;
	long switches_before;
	__u64 yields_before;
	pid_t other;

	other = start_yielding(yields);
	ASSERT_LE(0, other);
	open_turns(_metadata, variant, other, nth, count, fd);
	while (!*yields)
		sched_yield();
	for (i = 0; i < CHUNKS; i++) {
		switches_before = involuntary_switches();
		yields_before = __atomic_load_n(yields, __ATOMIC_RELAXED);
		before = insns_so_far(self);
		syscall(SYS_sched_yield);
		cost = insns_so_far(self) - before;
		/* The measurement is valid only if no third task has run in between. */
		if (involuntary_switches() - switches_before == 1 &&
		    __atomic_load_n(yields, __ATOMIC_RELAXED) != yields_before && (!least || cost < least))
			least = cost;
	}
	ASSERT_EQ(0, kill(other, SIGKILL));
	ASSERT_EQ(other, waitpid(other, &status, 0));
	for (i = 0; i < count; i++)
		close(fd[i]);
	munmap(yields, sizeof(*yields));
	ASSERT_LT(0, least);
	return least;
}

/* Expects that events cost each switch in proportion to their number. Returns the cost of @count events. */
static __s64 expect_linear_cost(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				const FIXTURE_VARIANT(event) *variant, nth_event_t nth, int count)
{
	const struct rlimit files = { 2 * TURNS, 2 * TURNS };
	__s64 one, quarter, all;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	one = cost_of_turns(_metadata, self, variant, nth, 1);
	quarter = cost_of_turns(_metadata, self, variant, nth, count / 4);
	all = cost_of_turns(_metadata, self, variant, nth, count);
	TH_LOG("2 switches with 1 event %lld, with %d %lld, with %d %lld", one, count / 4, quarter,
	       count, all);
	EXPECT_GT(6 * (quarter - one), all - one);
	return all - one;
}

/* A program with many events costs its switches, and no others, in proportion. */
TEST_F(event, cost_of_events_is_linear)
{
	__s64 cost = expect_linear_cost(_metadata, self, variant, nth_same, TURNS);

	TH_LOG("%s: %d events cost 2 switches %lld", variant->maker->name, TURNS, cost);
	if (variant->maker == &event_maker_perfmon)
		EXPECT_GT(EVENT_INSNS * TURNS, cost);
}

TEST_F(event, cost_of_turns_is_linear)
{
	if (variant->maker == &event_maker_perf)
		return;
	/* Most of the events wait for their turns. A waiting event costs some 310 instructions. */
	EXPECT_GT(500LL * TURNS, expect_linear_cost(_metadata, self, variant, nth_select, TURNS));
}

/* On a hybrid processor, an event is not compared with each event that has the same counter. */
TEST_F(event, cost_of_turns_with_shared_counters_is_linear)
{
	if (variant->maker == &event_maker_perf)
		return;
	/*
	 * All these events count, so their number is smaller: with many more, a switch would take
	 * longer than a tick.
	 */
	expect_linear_cost(_metadata, self, variant, nth_branches, TURNS / 4);
}

/*
 * Returns the cost of a process that ends, and has inherited a group of @count events whose counts are
 * recorded at its end. The ring has room for few records.
 */
static __s64 cost_of_exit(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  const FIXTURE_VARIANT(event) *variant, int cpu, int count)
{
	struct perf_event_attr attr = event_instructions();
	__s64 least = 0, before, cost;
	int fd[GROUP], i, status;
	struct event_ring ring;
	pid_t pid;

	attr.inherit = 1;
	attr.inherit_stat = 1;
	attr.read_format = PERF_FORMAT_GROUP;
	for (i = 0; i < count; i++) {
		fd[i] = variant->maker->open(&attr, 0, cpu, i ? fd[0] : -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, i ? event_ioctl(fd[i], PERF_EVENT_IOC_SET_OUTPUT, fd[0]) :
				 event_ring_map(&ring, fd[0], 0, false));
	}
	for (i = 0; i < CLOSES; i++) {
		before = insns_so_far(self);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(0);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		cost = insns_so_far(self) - before;
		if (!least || cost < least)
			least = cost;
	}
	event_ring_unmap(&ring);
	while (count--)
		close(fd[count]);
	return least;
}

/*
 * At the exit of a task, the counts of a group are collected once, and not once for each event of
 * the group.
 */
TEST_F(event, cost_of_counts_at_exit_is_linear)
{
	const struct rlimit files = { 2 * GROUP, 2 * GROUP };
	int cpu = pin_to_first_cpu();
	__s64 one, quarter, all;

	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	one = cost_of_exit(_metadata, self, variant, cpu, 1);
	quarter = cost_of_exit(_metadata, self, variant, cpu, GROUP / 4);
	all = cost_of_exit(_metadata, self, variant, cpu, GROUP);
	TH_LOG("an exit with 1 event %lld, with %d %lld, with %d %lld", one, GROUP / 4, quarter, GROUP, all);
	EXPECT_GT(6 * (quarter - one), all - one);
}

TEST_HARNESS_MAIN
