// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arguments of an event: sizes of struct perf_event_attr, bits and values that are
 * refused, tasks, CPUs and flags. If the results of perf and of the module differ, a table has
 * both.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "loop.h"
#include "target.h"

/* PERF_ATTR_SIZE_VER0: the first size of the structure. */
#define FIRST_SIZE	64U
#define PAGE	4096U

FIXTURE(event)
{
	union {
		struct perf_event_attr attr;
		char bytes[2 * PAGE];
	} at;
	struct target target;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	self->at.attr = event_instructions();
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	restore_maker(_metadata, variant);
}

/* Opens an event and closes it. Returns 0 or a negative errno. */
static int try_open(const struct event_maker *maker, const struct perf_event_attr *attr,
		    pid_t pid, int cpu, int group, unsigned long flags)
{
	int fd = maker->open((struct perf_event_attr *)attr, pid, cpu, group, flags);

	return fd < 0 ? fd : close(fd);
}

/* Opens an event of this task on any CPU, and closes it. Leaves @attr unchanged. */
static int try_attr(const struct event_maker *maker, struct perf_event_attr attr)
{
	return try_open(maker, &attr, 0, -1, -1, 0);
}

TEST_F(event, all_attr_sizes_from_the_first_are_accepted)
{
	unsigned int size;

	for (size = FIRST_SIZE; size <= sizeof(self->at.attr); size += 8) {
		self->at.attr.size = size;
		EXPECT_EQ(0, try_open(variant->maker, &self->at.attr, 0, -1, -1, 0)) {
			TH_LOG("size %u", size);
		}
		EXPECT_EQ(size, self->at.attr.size);
	}
	/* Size 0 stands for the first size: the bytes after it are ignored. */
	memset(self->at.bytes + FIRST_SIZE, 0xff, PAGE);
	self->at.attr.size = 0;
	EXPECT_EQ(0, try_open(variant->maker, &self->at.attr, 0, -1, -1, 0));
	self->at.attr.size = FIRST_SIZE;
	EXPECT_EQ(0, try_open(variant->maker, &self->at.attr, 0, -1, -1, 0));
}

TEST_F(event, larger_attr_with_zeros_is_accepted)
{
	unsigned int size;

	for (size = sizeof(self->at.attr); size <= PAGE; size += size < 256 ? 8 : 256) {
		self->at.attr.size = size;
		ASSERT_EQ(0, try_open(variant->maker, &self->at.attr, 0, -1, -1, 0)) {
			TH_LOG("size %u", size);
		}
		EXPECT_EQ(size, self->at.attr.size);
	}
}

/* Expects E2BIG, and expects that the call then accepts the size that it has returned in @attr. */
static void expect_too_big(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   const struct event_maker *maker, unsigned int size)
{
	unsigned int reported_size;

	self->at.attr.size = size;
	EXPECT_EQ(-E2BIG, try_open(maker, &self->at.attr, 0, -1, -1, 0)) {
		TH_LOG("size %u", size);
	}
	reported_size = self->at.attr.size;
	EXPECT_LE(FIRST_SIZE, reported_size);
	EXPECT_GE(PAGE, reported_size);
	EXPECT_EQ(0U, reported_size % 8);
	memset(self->at.bytes + reported_size, 0, sizeof(self->at) - reported_size);
	EXPECT_EQ(0, try_open(maker, &self->at.attr, 0, -1, -1, 0));
}

TEST_F(event, other_attr_sizes_are_too_big_and_corrected)
{
	expect_too_big(_metadata, self, variant->maker, 1);
	expect_too_big(_metadata, self, variant->maker, FIRST_SIZE - 1);
	expect_too_big(_metadata, self, variant->maker, PAGE + 1);
	expect_too_big(_metadata, self, variant->maker, ~0U);
	/* A byte beyond the known members is not 0. */
	self->at.bytes[1000] = 1;
	expect_too_big(_metadata, self, variant->maker, 1008);
	self->at.bytes[PAGE - 1] = 1;
	expect_too_big(_metadata, self, variant->maker, PAGE);
}

/* The kernel can't write the correct size into read-only memory, but the error is the same. */
TEST_F(event, read_only_attr_of_another_size_is_too_big)
{
	struct perf_event_attr *attr = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, attr);
	*attr = self->at.attr;
	attr->size = 1;
	ASSERT_EQ(0, mprotect(attr, PAGE, PROT_READ));
	EXPECT_EQ(-E2BIG, try_open(variant->maker, attr, 0, -1, -1, 0));
	munmap(attr, PAGE);
}

TEST_F(event, unreadable_attr_is_efault)
{
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, munmap(page + PAGE, PAGE));
	EXPECT_EQ(-EFAULT, try_open(variant->maker, (void *)(page + PAGE), 0, -1, -1, 0));
	EXPECT_EQ(-EFAULT, try_open(variant->maker, NULL, 0, -1, -1, 0));
	/* The last 8 bytes are not readable. */
	memcpy(page + PAGE - FIRST_SIZE + 8, &self->at.attr, FIRST_SIZE - 8);
	EXPECT_EQ(-EFAULT, try_open(variant->maker, (void *)(page + PAGE - FIRST_SIZE + 8), 0, -1,
				    -1, 0));
	munmap(page, PAGE);
}

/* A change of event_instructions(), and the expected results. */
struct attr_change {
	const char *member;
	size_t offset;		/* offset of a 64-bit number */
	__u64 bits;		/* added to the number */
	int perf, perfmon;	/* errno */
};

/* Offset of the 64-bit number with the flags. */
#define FLAGS	(offsetof(struct perf_event_attr, read_format) + 8)
#define AT(member)	offsetof(struct perf_event_attr, member)

/* Bit numbers as in <linux/perf_event.h>, since bit-fields have no offset. */
#define FLAG(name, bit, perf, perfmon) { name, FLAGS, 1ULL << (bit), perf, perfmon }

static const struct attr_change changes[] = {
	/* Accepted by both. */
	FLAG("inherit", 1, 0, 0),
	FLAG("pinned", 2, 0, 0),
	FLAG("exclusive", 3, 0, 0),
	FLAG("exclude_user", 4, 0, 0),
	FLAG("exclude_idle", 7, 0, 0),
	FLAG("enable_on_exec", 12, 0, 0),
	FLAG("remove_on_exec", 36, 0, 0),
	FLAG("inherit and inherit_stat", 11, 0, 0),
	FLAG("exclude_guest", 20, 0, 0),
	/* Refused by both. */
	{ "read_format", AT(read_format), PERF_FORMAT_MAX, EINVAL, EINVAL },
	{ "sample_type", AT(sample_type), PERF_SAMPLE_MAX, EINVAL, EINVAL },
	{ "sample_type, the last", AT(sample_type), 1ULL << 62, EINVAL, EINVAL },
	{ "a reserved flag", FLAGS, 1ULL << 63, EINVAL, EINVAL },
	{ "inherit_thread alone", FLAGS, 1ULL << 35, EINVAL, EINVAL },
	{ "sigtrap alone", FLAGS, 1ULL << 37, EINVAL, EINVAL },
	{ "a period with bit 63", AT(sample_period), 1ULL << 63, EINVAL, EINVAL },
	{ "hardware event 10", AT(config), 9, EINVAL, EINVAL },
	{ "hardware event of another PMU", AT(config), 1ULL << 32, ENOENT, EOPNOTSUPP },
	{ "remove_on_exec and enable_on_exec", FLAGS, 1ULL << 36 | 1ULL << 12, EINVAL, EINVAL },
	/* Accepted by perf alone. */
	FLAG("exclude_host", 19, 0, EOPNOTSUPP),
	{ "sigtrap", FLAGS, 1ULL << 37 | 1ULL << 36, 0, EOPNOTSUPP },
	{ "config1", AT(config1), 1, 0, EOPNOTSUPP },
	/* Samples. */
	{ "a period", AT(sample_period), 100000, 0, 0 },
	FLAG("freq and sample_freq 0", 10, 0, 0),
	{ "sample_max_stack without call chains", AT(sample_max_stack), 128, 0, 0 },
	/* These flags have no effect, since the event has no ring for records. */
	FLAG("mmap", 8, 0, 0),
	FLAG("comm", 9, 0, 0),
	FLAG("task", 13, 0, 0),
	FLAG("sample_id_all", 18, 0, 0),
	FLAG("context_switch", 26, 0, 0),
	{ "sample_type", AT(sample_type), PERF_SAMPLE_IP | PERF_SAMPLE_TID, 0, 0 },
};

static int errno_of(const struct event_maker *maker, const struct attr_change *c)
{
	return maker == &event_maker_perf ? c->perf : c->perfmon;
}

TEST_F(event, attr_changes_give_the_errors_of_the_table)
{
	struct perf_event_attr attr;
	unsigned int i;

	for (i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		attr = event_instructions();
		*(__u64 *)((char *)&attr + changes[i].offset) += changes[i].bits;
		EXPECT_EQ(-errno_of(variant->maker, &changes[i]), try_attr(variant->maker, attr)) {
			TH_LOG("%s: %s", variant->maker->name, changes[i].member);
		}
	}
}

TEST_F(event, raw_and_generic_events_count)
{
	struct perf_event_attr attr = event_instructions();
	__s64 value;
	int fd;

	/* This event select means instructions on Intel and on AMD. */
	attr.type = PERF_TYPE_RAW;
	attr.config = EVENT_INSTRUCTIONS;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	value = event_loop_count(fd, 1000);
	EXPECT_EQ(LOOP_INSNS * 999, value - event_loop_count(fd, 1));
	close(fd);

	attr.type = PERF_TYPE_HARDWARE;
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	value = event_loop_count(fd, 1000);
	EXPECT_EQ(999, value - event_loop_count(fd, 1));
	close(fd);

	attr.config = PERF_COUNT_HW_CPU_CYCLES;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, event_loop_count(fd, 1000));
	close(fd);

	attr.type = PERF_TYPE_HW_CACHE;
	attr.config = PERF_COUNT_HW_CACHE_L1D;
	EXPECT_EQ(0, try_attr(variant->maker, attr));
	/* Unknown cache, operation or result. */
	attr.config = PERF_COUNT_HW_CACHE_MAX;
	EXPECT_EQ(-EINVAL, try_attr(variant->maker, attr));
	attr.config = PERF_COUNT_HW_CACHE_OP_MAX << 8;
	EXPECT_EQ(-EINVAL, try_attr(variant->maker, attr));
	attr.config = PERF_COUNT_HW_CACHE_RESULT_MAX << 16;
	EXPECT_EQ(-EINVAL, try_attr(variant->maker, attr));
	/* A combination that does not exist, and a combination that these CPUs can't count. */
	attr.config = PERF_COUNT_HW_CACHE_BPU | PERF_COUNT_HW_CACHE_OP_WRITE << 8;
	EXPECT_EQ(-EINVAL, try_attr(variant->maker, attr));
	attr.config = PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_PREFETCH << 8 |
		      PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
	EXPECT_EQ(-ENOENT, try_attr(variant->maker, attr));
}

/* In a RAW event select, the kernel sets the bits of modes, interrupt and enable. */
TEST_F(event, raw_event_has_the_modes_of_the_attr)
{
	struct perf_event_attr attr = event_instructions();
	__s64 value;
	int fd, i;

	attr.type = PERF_TYPE_RAW;
	attr.config = EVENT_INSTRUCTIONS;
	attr.exclude_user = 1;
	attr.exclude_kernel = 0;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	/*
	 * Interrupts count, too. On a busy host there are many, so the loop is counted again if the
	 * count is too large.
	 */
	for (i = 0, value = LOOP_INSNS * 1000000; i < 20 && value >= LOOP_INSNS * 1000000; i++)
		value = event_loop_count(fd, 1000000);
	EXPECT_LT(0, value);
	EXPECT_GT(LOOP_INSNS * 1000000, value);
	close(fd);
}

TEST_F(event, foreign_types_are_refused)
{
	struct perf_event_attr attr = event_instructions();
	bool is_perf = variant->maker == &event_maker_perf;

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	EXPECT_EQ(is_perf ? 0 : -EOPNOTSUPP, try_attr(variant->maker, attr));
	attr.config = PERF_COUNT_SW_DUMMY;
	EXPECT_EQ(0, try_attr(variant->maker, attr));
	attr.type = 12345;
	EXPECT_EQ(is_perf ? -ENOENT : -EOPNOTSUPP, try_attr(variant->maker, attr));
}

static pid_t pid_of_exited_process(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

TEST_F(event, tasks_and_cpus)
{
	const struct perf_event_attr *attr = &self->at.attr;
	const struct event_maker *maker = variant->maker;
	int cpu = pin_to_first_cpu(), beyond = cpu_ids();
	pid_t zombie;

	ASSERT_LE(0, cpu);
	EXPECT_EQ(0, try_open(maker, attr, 0, -1, -1, 0));
	EXPECT_EQ(0, try_open(maker, attr, 0, cpu, -1, 0));
	EXPECT_EQ(0, try_open(maker, attr, getpid(), -1, -1, 0));
	EXPECT_EQ(0, try_open(maker, attr, -1, cpu, -1, 0));
	/* Neither a task nor a CPU. */
	EXPECT_EQ(-EINVAL, try_open(maker, attr, -1, -1, -1, 0));
	/* A CPU that does not exist. */
	EXPECT_EQ(-EINVAL, try_open(maker, attr, 0, beyond, -1, 0));
	EXPECT_EQ(-EINVAL, try_open(maker, attr, -1, beyond, -1, 0));
	EXPECT_EQ(-EINVAL, try_open(maker, attr, 0, -2, -1, 0));
	EXPECT_EQ(-EINVAL, try_open(maker, attr, 0, 0x7fffffff, -1, 0));
	/* A task that does not exist. */
	EXPECT_EQ(-ESRCH, try_open(maker, attr, pid_of_exited_process(), -1, -1, 0));
	EXPECT_EQ(-ESRCH, try_open(maker, attr, 0x7fffffff, -1, -1, 0));
	EXPECT_EQ(-ESRCH, try_open(maker, attr, -2, -1, -1, 0));
	/* A zombie. */
	zombie = fork();
	if (!zombie)
		_exit(0);
	ASSERT_EQ(0, wait_until_asleep(zombie));
	EXPECT_EQ(-ESRCH, try_open(maker, attr, zombie, -1, -1, 0));
	waitpid(zombie, NULL, 0);
}

/* An event of an offline CPU is refused until the CPU is online. */
TEST_F(event, event_of_an_offline_cpu)
{
	int home, cpu, online, missing = cpu_find_hotpluggable(&home, &cpu, &online), fd;

	if (missing == -ENODEV)
		return;		/* the only CPU can't go offline */
	ASSERT_EQ(0, missing);
	ASSERT_EQ(0, pin_to_cpu(home));
	ASSERT_EQ(0, cpu_set_online(online, "0"));
	self->at.attr.disabled = 0;
	fd = variant->maker->open(&self->at.attr, -1, cpu, -1, 0);
	ASSERT_EQ(0, cpu_set_online(online, "1"));
	EXPECT_EQ(-ENODEV, fd);
	fd = variant->maker->open(&self->at.attr, -1, cpu, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pin_to_cpu(cpu));
	loop(1000000);
	EXPECT_LE(LOOP_INSNS * 1000000, event_count(fd));
	close(fd);
	close(online);
}

TEST_F(event, flags_of_the_call)
{
	const struct perf_event_attr *attr = &self->at.attr;
	const struct event_maker *maker = variant->maker;
	int fd, bit;

	for (bit = 4; bit < 32; bit++)
		EXPECT_EQ(-EINVAL, try_open(maker, attr, 0, -1, -1, 1UL << bit)) {
			TH_LOG("bit %d", bit);
		}
	EXPECT_GT(0, try_open(maker, attr, -1, -1, -1, PERF_FLAG_PID_CGROUP));
	EXPECT_EQ(0, try_open(maker, attr, 0, -1, -1, PERF_FLAG_FD_NO_GROUP));

	fd = maker->open(&self->at.attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, fcntl(fd, F_GETFD));
	close(fd);
	fd = maker->open(&self->at.attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(O_RDWR, fcntl(fd, F_GETFL) & O_ACCMODE);
	close(fd);
}

TEST_F(event, ioctls_that_are_refused)
{
	int fd = open_instructions(_metadata, variant->maker, 0);
	__u64 period = 1000;

	EXPECT_EQ(-ENOTTY, event_ioctl(fd, _IO('$', 100), 0));
	EXPECT_EQ(-ENOTTY, event_ioctl(fd, PMIOSTART, 0));
	EXPECT_EQ(-EFAULT, event_ioctl(fd, PERF_EVENT_IOC_ID, 0));
	/* The event only counts, so its period can't change. */
	EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period));
	EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_REFRESH, 1));
	EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	/* The event has no ring to write records to. */
	EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, fd));
	EXPECT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	close(fd);
}

/* Arguments that only PERFMON_EVENT_OPEN has. */
TEST(other_arguments_of_the_call_are_refused)
{
	struct perf_event_attr attr = event_instructions();
	const struct perfmon_event_open good = {
		.attr = (uintptr_t)&attr,
		.cpu = -1,
		.group_fd = -1,
	};
	struct perfmon_event_open arguments = good;
	int fd;

	SKIP_WITHOUT_PMU();
	fd = event_open_raw(&arguments);
	ASSERT_LE(0, fd);
	close(fd);
	arguments.reserved[0] = 1;
	EXPECT_EQ(-EINVAL, event_open_raw(&arguments));
	arguments = good;
	arguments.reserved[1] = 1ULL << 63;
	EXPECT_EQ(-EINVAL, event_open_raw(&arguments));
	arguments = good;
	arguments.flags = 1U << 31;
	EXPECT_EQ(-EINVAL, event_open_raw(&arguments));
	EXPECT_EQ(-EFAULT, event_open_raw(NULL));
}

TEST_HARNESS_MAIN
