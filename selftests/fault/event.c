// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events when memory is short. Makes each call and each fork with a failure of its first
 * allocation or copy, then of its second, and so on until each has failed once:
 *
 * - PERFMON_EVENT_OPEN, of tasks, CPUs and cgroups, and mmap(2) fail with ENOMEM or EFAULT, leave
 *   nothing behind, and work when they are repeated; other events continue to count. The failure
 *   hits this thread, or the kernel's workers, which register probes for the call;
 * - a new task is counted to the instruction, or read(2) of the sum is EIO.
 *
 * kmemleak finds leaks at the end of the run.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/futex.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "event_page.h"
#include "fault.h"
#include "fixture.h"
#include "idle.h"
#include "leak_check.h"
#include "loop.h"
#include "mapping_probes.h"
#include "target.h"

/* A number of allocations and copies that is larger than any call makes. */
#define MAX_FAULTS	5000

#define N	10000UL
#define CGROUPS	"/tmp/cgroup"
#define CGROUP	CGROUPS "/a"
#define MOST	64	/* More events than there are counters. */

/* --- open, mmap ---------------------------------------------------------------- */

enum tested_call {
	FIRST,		/* the first event of any task on the machine */
	TASK,		/* the first event of its task */
	SECOND,		/* another event of the task */
	SIBLING,	/* a sibling in a group */
	PER_CPU,
	CGROUP_FIRST,	/* the first event of a cgroup, on all CPUs */
	CGROUP_SECOND,	/* another event of the cgroup */
	CGROUP_CPU,	/* the first event of a cgroup, on one CPU */
	TURN,		/* an event that takes turns with another one */
	PAGE,		/* mmap(2) of an event's page */
};

static bool is_of_cgroup(enum tested_call tested)
{
	return tested == CGROUP_FIRST || tested == CGROUP_SECOND || tested == CGROUP_CPU;
}

FIXTURE(event_open)
{
	struct target target;
	int device, reference_event, other;
	int cpu;
	__s64 loop;	/* count of event @reference_event for one loop */
	int free_counters;	/* number of events for which there are counters */
	int cgroup;		/* descriptor of its directory */
	int fillers[MOST];	/* events that have all counters but those of turns */
	int filler_count;
};

FIXTURE_VARIANT(event_open)
{
	enum tested_call tested;
	bool mappings;	/* the event asks for records of mappings, and no other event does */
	bool workers;	/* the failures are the kernel's workers' */
};

FIXTURE_VARIANT_ADD(event_open, first) { .tested = FIRST };
FIXTURE_VARIANT_ADD(event_open, task) { .tested = TASK };
FIXTURE_VARIANT_ADD(event_open, second) { .tested = SECOND };
FIXTURE_VARIANT_ADD(event_open, sibling) { .tested = SIBLING };
FIXTURE_VARIANT_ADD(event_open, cpu) { .tested = PER_CPU };
FIXTURE_VARIANT_ADD(event_open, cgroup_first) { .tested = CGROUP_FIRST };
FIXTURE_VARIANT_ADD(event_open, cgroup_second) { .tested = CGROUP_SECOND };
FIXTURE_VARIANT_ADD(event_open, cgroup_cpu) { .tested = CGROUP_CPU };
FIXTURE_VARIANT_ADD(event_open, turn) { .tested = TURN };
FIXTURE_VARIANT_ADD(event_open, page) { .tested = PAGE };
FIXTURE_VARIANT_ADD(event_open, mappings) { .tested = TASK, .mappings = true };
FIXTURE_VARIANT_ADD(event_open, workers) { .tested = FIRST, .workers = true };
FIXTURE_VARIANT_ADD(event_open, mappings_workers)
{
	.tested = TASK, .mappings = true, .workers = true,
};

/* Opens an event through an existing descriptor of the device. */
static int open_with(const struct perf_event_attr *attr, int device, pid_t pid, int cpu, int group,
		     unsigned int flags)
{
	const struct perfmon_event_open arguments = {
		.attr = (uintptr_t)attr, .pid = pid, .cpu = cpu, .group_fd = group, .flags = flags,
	};
	int fd = ioctl(device, PERFMON_EVENT_OPEN, &arguments);

	return fd < 0 ? -errno : fd;
}

static int open_event(int device, pid_t pid, int cpu, int group)
{
	const struct perf_event_attr attr = event_instructions();

	return open_with(&attr, device, pid, cpu, group, 0);
}

/* Opens an event of the task that takes turns, in one of two modes. */
static int open_turn(int device, pid_t pid, bool of_kernel)
{
	struct perf_event_attr attr = event_instructions();

	attr.exclude_user = of_kernel;
	attr.exclude_kernel = !of_kernel;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return open_with(&attr, device, pid, -1, -1, PERFMON_EVENT_ROTATE);
}

static void close_all(const int *fds, int count)
{
	while (count)
		close(fds[--count]);
}

/*
 * Opens events of a task until no counter is free. They share no counter, since they are sampled.
 * Returns their number, or -1.
 */
static int fill_counters(int device, pid_t pid, int fds[MOST])
{
	struct perf_event_attr attr = event_instructions();
	int n = 0;

	attr.sample_period = 1ULL << 40;
	while (n < MOST && (fds[n] = open_with(&attr, device, pid, -1, -1, 0)) >= 0)
		n++;
	if (n < MOST && fds[n] == -EBUSY)
		return n;
	close_all(fds, n);
	return -1;
}

/* Returns the number of further events of a task that each get a counter of their own. */
static int count_openable(int device, pid_t pid)
{
	int fds[MOST], n = fill_counters(device, pid, fds);

	close_all(fds, n < 0 ? 0 : n);
	return n;
}

/* Makes CGROUP, which stays empty, and opens its directory. */
static void make_cgroup(struct __test_metadata *_metadata, FIXTURE_DATA(event_open) *self)
{
	ASSERT_EQ(0, cgroups_mount(CGROUPS));
	mkdir(CGROUP, 0755);
	self->cgroup = open(CGROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, self->cgroup);
}

FIXTURE_SETUP(event_open)
{
	self->reference_event = self->other = self->cgroup = -1;
	ASSERT_EQ(0, fault_enable());
	self->device = open_device(_metadata, O_RDONLY);
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, target_start(&self->target, -1, false));
	self->free_counters = count_openable(self->device, self->target.pid);
	ASSERT_LT(0, self->free_counters);
	if (variant->tested == FIRST)
		return;
	self->reference_event = open_event(self->device, 0, -1, -1);
	ASSERT_LE(0, self->reference_event);
	ASSERT_EQ(0, event_enable(self->reference_event));
	self->loop = event_loop_count_running(self->reference_event, N);
	ASSERT_LE((__s64)(LOOP_INSNS * N), self->loop);
	if (is_of_cgroup(variant->tested))
		make_cgroup(_metadata, self);
	if (variant->tested == SECOND || variant->tested == SIBLING)
		self->other = open_event(self->device, self->target.pid, -1, -1);
	if (variant->tested == CGROUP_SECOND) {
		const struct perf_event_attr attr = event_instructions();

		self->other = open_with(&attr, self->device, self->cgroup, -1, -1,
					PERF_FLAG_PID_CGROUP);
		ASSERT_LE(0, self->other);
	}
	if (variant->tested == TURN) {
		self->other = open_turn(self->device, self->target.pid, false);
		ASSERT_LE(0, self->other);
		self->filler_count = fill_counters(self->device, self->target.pid, self->fillers);
		ASSERT_LT(0, self->filler_count);
	}
}

FIXTURE_TEARDOWN(event_open)
{
	target_kill(&self->target);
	close_all(self->fillers, self->filler_count);
	close(self->other);
	close(self->reference_event);
	close(self->device);
	close(self->cgroup);
	if (is_of_cgroup(variant->tested)) {
		rmdir(CGROUP);
		umount(CGROUPS);
	}
}

/* Returns the lowest free descriptor, which increases if a call has left a descriptor open. */
static int next_descriptor(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static sigjmp_buf after_rdpmc;

static void on_signal(int signal)
{
	siglongjmp(after_rdpmc, signal);
}

/* Executes RDPMC in this program. Returns 0, or SIGSEGV. */
static int try_rdpmc(void)
{
	int result;

	signal(SIGSEGV, on_signal);
	result = sigsetjmp(after_rdpmc, 1);
	if (!result)
		rdpmc(0);
	signal(SIGSEGV, SIG_DFL);
	return result;
}

static void *page = MAP_FAILED;

static int make_call(FIXTURE_DATA(event_open) *self, const FIXTURE_VARIANT(event_open) *variant)
{
	struct perf_event_attr attr = event_instructions();
	const int group = variant->tested == SIBLING ? self->other : -1;

	attr.mmap = variant->mappings;
	switch (variant->tested) {
	case PAGE:
		page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, self->reference_event, 0);
		return page == MAP_FAILED ? -errno : 0;
	case PER_CPU:
		return open_with(&attr, self->device, -1, self->cpu, -1, 0);
	case CGROUP_FIRST:
	case CGROUP_SECOND:
		return open_with(&attr, self->device, self->cgroup, -1, -1, PERF_FLAG_PID_CGROUP);
	case CGROUP_CPU:
		return open_with(&attr, self->device, self->cgroup, self->cpu, -1,
				 PERF_FLAG_PID_CGROUP);
	case TURN:
		return open_turn(self->device, self->target.pid, true);
	default:
		return open_with(&attr, self->device, self->target.pid, -1, group, 0);
	}
}

/* Undoes the effect of a call that has succeeded. */
static void undo_call(struct __test_metadata *_metadata, FIXTURE_DATA(event_open) *self,
		      const FIXTURE_VARIANT(event_open) *variant, int result)
{
	__s64 count;

	if (variant->tested == PAGE) {
		EXPECT_EQ(0, try_rdpmc());
		count = page_read(page).count;
		EXPECT_GT(CALL_OVERHEAD, event_count(self->reference_event) - count);
		EXPECT_EQ(0, munmap(page, getpagesize()));
		EXPECT_EQ(SIGSEGV, try_rdpmc());
	} else {
		EXPECT_EQ(0, event_enable(result));
		EXPECT_LE(0, event_count(result));
		EXPECT_EQ(variant->mappings, event_fdinfo_number(result, "mmap"));
		close(result);
	}
}

static int arm(const FIXTURE_VARIANT(event_open) *variant, int n)
{
	return variant->workers ? fault_arm_workers(n) : fault_arm(n);
}

static int disarm(const FIXTURE_VARIANT(event_open) *variant)
{
	return variant->workers ? fault_disarm_workers() : fault_disarm();
}

/* Closes the other events, and expects that no counter has an owner. */
static void expect_all_free(struct __test_metadata *_metadata, FIXTURE_DATA(event_open) *self)
{
	static const int first[] = { 0, PMC_FIXED_BASE };
	struct perfmon_counter_owner owner;
	int num, i, counters = 0;

	close_all(self->fillers, self->filler_count);
	close(self->other);
	close(self->reference_event);
	self->filler_count = 0;
	self->other = self->reference_event = -1;
	for (i = 0; i < 2; i++) {
		for (num = first[i]; ; num++, counters++) {
			owner = (struct perfmon_counter_owner) { .num = num };
			if (device_ioctl(self->device, PERFMON_GET_OWNER, &owner))
				break;
			EXPECT_EQ((__u32)PERFMON_OWNER_NONE, owner.kind) {
				TH_LOG("counter %#x has %u events", num, owner.users);
			}
		}
	}
	EXPECT_LE(self->free_counters, counters);
	EXPECT_EQ(self->free_counters, count_openable(self->device, self->target.pid));
}

TEST_F_TIMEOUT(event_open, failed_call_leaves_nothing_and_works_when_repeated, 600)
{
	int n, result, injected = 1, failed = 0, next = next_descriptor();

	for (n = 1; injected && n < MAX_FAULTS; n++) {
		/* Waits until the module no longer follows tasks, or their mappings. */
		if (variant->tested == FIRST)
			usleep(1200000);
		if (variant->mappings)
			ASSERT_EQ(0, mapping_probes_wait_until_gone());
		ASSERT_EQ(0, arm(variant, n));
		result = make_call(self, variant);
		injected = disarm(variant);
		ASSERT_LE(0, injected);
		if (result < 0) {
			failed++;
			EXPECT_TRUE(injected);
			EXPECT_TRUE(result == -ENOMEM || result == -EFAULT) {
				TH_LOG("fault %d: %s", n, strerror(-result));
			}
			EXPECT_EQ(next, next_descriptor());
			if (variant->tested == PAGE)
				EXPECT_EQ(SIGSEGV, try_rdpmc());
			if (self->reference_event >= 0)
				EXPECT_EQ(self->loop, event_loop_count_running(self->reference_event, N));
			result = make_call(self, variant);
			ASSERT_LE(0, result) {
				TH_LOG("after fault %d: %s", n, strerror(-result));
			}
		}
		undo_call(_metadata, self, variant, result);
		if (self->reference_event >= 0)
			EXPECT_EQ(self->loop, event_loop_count_running(self->reference_event, N));
	}
	TH_LOG("%d faults, %d of which made it fail", n - 2, failed);
	/*
	 * If only the registration of probes by workers fails, the call may succeed: mappings can
	 * be recorded without that memory.
	 */
	EXPECT_LE(!(variant->mappings && variant->workers), failed);
	EXPECT_GT(MAX_FAULTS, n);
	EXPECT_EQ(0, mapping_probes_wait_until_gone());
	expect_all_free(_metadata, self);
	EXPECT_STREQ("", leak_check_counts());
}

/* --- fork ---------------------------------------------------------------------- */

FIXTURE(event_fork)
{
	int device;
	int inherited_event;	/* event of this task and those that it creates */
	int own_event;	/* event of this task alone */
	int failed_forks;	/* forks that failed */
	int uncounted_tasks;	/* tasks that were not counted (EIO) */
};

FIXTURE_VARIANT(event_fork)
{
	unsigned long flags;	/* flags of clone(2) */
};

FIXTURE_VARIANT_ADD(event_fork, fork) { .flags = SIGCHLD };
FIXTURE_VARIANT_ADD(event_fork, vfork) { .flags = CLONE_VM | CLONE_VFORK | SIGCHLD };
FIXTURE_VARIANT_ADD(event_fork, thread)
{
	.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		 CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
};

static int open_own_event(struct __test_metadata *_metadata, bool inherit)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.inherit = inherit;
	attr.disabled = 0;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	return fd;
}

FIXTURE_SETUP(event_fork)
{
	ASSERT_EQ(0, fault_enable());
	self->inherited_event = open_own_event(_metadata, true);
	self->own_event = open_own_event(_metadata, false);
}

FIXTURE_TEARDOWN(event_fork)
{
	close(self->inherited_event);
	close(self->own_event);
}

static char stack[16384] __attribute__((aligned(16)));
static pid_t alive;	/* a thread's id until it has exited */

static int run_child(void *unused)
{
	(void)unused;
	loop(N);
	syscall(SYS_exit, 0);
	return 0;
}

/* Forks with the fault armed, and waits for the task's end. Returns 0 or a negative errno. */
static int fork_with_fault(unsigned long flags, int n, int *injected)
{
	int err = n ? fault_arm(n) : 0;
	pid_t pid;

	if (err)
		return err;
	alive = 1;
	pid = clone(run_child, stack + sizeof(stack), flags, NULL, NULL, NULL, &alive);
	if (pid < 0)
		err = -errno;
	*injected = n ? fault_disarm() : 0;
	if (err)
		return err;
	if (flags & CLONE_THREAD)
		while (__atomic_load_n(&alive, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &alive, FUTEX_WAIT, 1, NULL, NULL, 0);
	else
		waitpid(pid, NULL, 0);
	return 0;
}

/* Returns the count of all tasks except this one, or -EIO. */
static __s64 count_others(struct __test_metadata *_metadata, FIXTURE_DATA(event_fork) *self)
{
	__s64 inherited_event = event_count(self->inherited_event), own_event = event_count(self->own_event);

	ASSERT_LE(0, own_event);
	return inherited_event < 0 ? inherited_event : inherited_event - own_event;
}

/* Forks until each of the allocations has failed. */
static void try_all_faults(struct __test_metadata *_metadata, FIXTURE_DATA(event_fork) *self,
			   unsigned long flags, __s64 child)
{
	__s64 before, after;
	int n, err, injected = 1;

	for (n = 1; injected && n < MAX_FAULTS; n++) {
		before = count_others(_metadata, self);
		err = fork_with_fault(flags, n, &injected);
		ASSERT_LE(0, injected);
		after = count_others(_metadata, self);
		if (err) {
			self->failed_forks++;
			EXPECT_TRUE(injected);
			EXPECT_TRUE(err == -ENOMEM || err == -EAGAIN || err == -EFAULT) {
				TH_LOG("fault %d: %s", n, strerror(-err));
			}
			EXPECT_EQ(before, after) {
				TH_LOG("fault %d", n);
			}
		} else if (after == -EIO) {
			self->uncounted_tasks++;
			EXPECT_TRUE(injected);
			close(self->inherited_event);
			self->inherited_event = open_own_event(_metadata, true);
		} else {
			EXPECT_EQ(before + child, after) {
				TH_LOG("fault %d", n);
			}
		}
	}
	EXPECT_GT(MAX_FAULTS, n);
	TH_LOG("%d faults: %d times no task, %d times EIO", n - 2, self->failed_forks, self->uncounted_tasks);
}

TEST_F_TIMEOUT(event_fork, new_task_is_counted_or_missed_or_not_made, 1200)
{
	__s64 before = count_others(_metadata, self), child;
	int round, none;

	ASSERT_EQ(0, fork_with_fault(variant->flags, 0, &none));
	child = count_others(_metadata, self) - before;
	ASSERT_LE((__s64)(LOOP_INSNS * N), child);
	/*
	 * Several rounds are made, because forks differ in their allocations, and a round may miss
	 * the allocations of the module.
	 */
	for (round = 0; round < 5 && !self->uncounted_tasks; round++)
		try_all_faults(_metadata, self, variant->flags, child);
	EXPECT_LT(0, self->failed_forks);
	EXPECT_LT(0, self->uncounted_tasks);
}

TEST_HARNESS_MAIN
