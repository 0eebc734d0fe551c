// SPDX-License-Identifier: GPL-2.0-only
/*
 * Workers of io_uring, which are kernel threads that belong to a program. An inherited event of
 * the program counts its workers. They execute nothing in user mode.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "uring.h"

/*
 * Waking the worker costs as much as a read, and the scheduler decides when the worker wakes. So
 * the test makes only one read at a time.
 */
#define READS	500
#define RUNS	6

/* Seconds to wait for a result. */
#define SECONDS	60

FIXTURE(event)
{
	char unused;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	restore_maker(_metadata, variant);
}

/* A ring. Its workers exist as long as the ring. */
struct read_ring {
	struct uring uring;
	int file;		/* the file to read from */
};

/*
 * Limits the ring to one worker, on the CPU of this thread. With two workers the number of
 * instructions would vary, because they wake each other.
 */
static int ring_keep_to_cpu(const struct read_ring *r)
{
	unsigned int most[2] = { 1, 1 };
	int cpu = pin_to_first_cpu(), fd = r->uring.fd;
	cpu_set_t set;

	if (cpu < 0)
		return cpu;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_IOWQ_AFF, &set, sizeof(set)) ||
	    syscall(SYS_io_uring_register, fd, IORING_REGISTER_IOWQ_MAX_WORKERS, most, 2))
		return -errno;
	return 0;
}

static int ring_open(struct read_ring *r)
{
	int err = uring_open(&r->uring, 0);

	if (err)
		return err;
	r->file = memfd_create("io_uring", MFD_CLOEXEC);
	if (r->file < 0 || ftruncate(r->file, sizeof(__u64)))
		return -errno;
	return ring_keep_to_cpu(r);
}

static void ring_close(struct read_ring *r)
{
	uring_close(&r->uring);
	close(r->file);
}

/* Makes workers read a word @times times. Returns the number of successful reads. */
static int ring_read(struct read_ring *r, int times)
{
	static __u64 to;
	const struct io_uring_sqe request = {
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
		.fd = r->file,
		.addr = (uintptr_t)&to,
		.len = sizeof(to),
	};
	int read = 0;

	while (times--)
		read += uring_call(&r->uring, &request, SECONDS) == sizeof(to);
	return read;
}

/* Counts the workers of this process. */
static int count_workers(void)
{
	DIR *dir = opendir("/proc/self/task");
	char path[300], name[32];
	struct dirent *entry;
	int count = 0;
	FILE *f;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && !strncmp(name, "iou-wrk", 7))
			count++;
		fclose(f);
	}
	closedir(dir);
	return count;
}

static int open_event(struct __test_metadata *_metadata, const struct event_maker *maker,
		      bool kernel, bool inherit)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.exclude_kernel = !kernel;
	attr.exclude_user = kernel;
	attr.inherit = inherit;
	fd = maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	return fd;
}

struct read_counts {
	__s64 whole;	/* count of an inherited event */
	__s64 single;	/* count of this thread alone */
};

/* Counts reads, and the workers that are created for them, in kernel or in user mode. */
static struct read_counts count_reads(struct __test_metadata *_metadata,
				 const struct event_maker *maker, bool kernel)
{
	int whole = open_event(_metadata, maker, kernel, true);
	int single = open_event(_metadata, maker, kernel, false);
	struct read_counts counts;
	struct read_ring ring;
	int read, workers;

	ASSERT_EQ(0, ring_open(&ring));
	ASSERT_EQ(0, event_enable(whole));
	ASSERT_EQ(0, event_enable(single));
	read = ring_read(&ring, READS);
	ASSERT_EQ(0, event_disable(single));
	ASSERT_EQ(0, event_disable(whole));
	workers = count_workers();
	EXPECT_EQ(READS, read);
	EXPECT_LT(0, workers);
	counts.single = event_count(single);
	counts.whole = event_count(whole);
	ring_close(&ring);
	/* The event is disabled, so the workers' exit does not change its count. */
	EXPECT_EQ(counts.whole, event_count(whole));
	TH_LOG("%s: %lld instructions in %s mode, %lld of this thread, %d workers", maker->name,
	       counts.whole, kernel ? "kernel" : "user", counts.single, workers);
	close(whole);
	close(single);
	return counts;
}

TEST_F(event, inherited_event_counts_workers)
{
	struct read_counts c = count_reads(_metadata, variant->maker, true);

	EXPECT_LT(0, c.single);
	EXPECT_LT(c.single + c.single / 4, c.whole);
}

TEST_F(event, workers_execute_nothing_in_user_mode)
{
	struct read_counts c = count_reads(_metadata, variant->maker, false);

	/*
	 * In user mode, only the two calls between the readings of the two counts make a
	 * difference.
	 */
	EXPECT_LE(c.single, c.whole);
	EXPECT_GT(c.single + CALL_OVERHEAD, c.whole);
}

/* Counts in a child process, since a task's workers serve all of its rings. */
static __s64 count_in_child(struct __test_metadata *_metadata, const struct event_maker *maker)
{
	__s64 *count = map_shared(_metadata, sizeof(*count));
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid) {
		*count = count_reads(_metadata, maker, true).whole;
		_exit(_metadata->exit_code != KSFT_PASS);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	return *count;
}

TEST(perf_and_perfmon_count_the_same_workers)
{
	__s64 perf = 0, perfmon = 0, count;
	int i;

	SKIP_WITHOUT_PMU();
	/*
	 * perf and the module can't count at the same time. A busy host makes a worker execute more,
	 * never less, so the least counts are compared.
	 */
	for (i = 0; i < RUNS; i++) {
		count = count_in_child(_metadata, &event_maker_perf);
		if (!i || count < perf)
			perf = count;
		count = count_in_child(_metadata, &event_maker_perfmon);
		if (!i || count < perfmon)
			perfmon = count;
	}
	EXPECT_LT(perf * 4 / 5, perfmon);
	EXPECT_GT(perf * 5 / 4, perfmon);
}

TEST_HARNESS_MAIN
