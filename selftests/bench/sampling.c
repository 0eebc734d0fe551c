// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of a sample in instructions, MSR accesses and bytes, compared with Linux perf's.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount). A loop
 * in user mode is executed with and without sampling; the difference, divided by the number of
 * samples, is the cost of a sample. Each figure is the least of many measurements, which contains
 * no timer interrupt.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "device.h"
#include "event.h"
#include "msr.h"
#include "trace.h"

#define ROUNDS	20

/* The loop has about 40 samples, in far fewer instructions than there are between two ticks. */
#define RATE	10007
#define N	200000UL

/* Events that are counted at each sample of the leader. */
#define MEMBERS	6

/* The cost of one run of the loop. */
struct run_cost {
	unsigned long long insns;
	unsigned long samples;
	unsigned long bytes;
};

/* The next loop writes marks before and after it, to find its register accesses. */
static bool marking;

static void write_mark(void)
{
	if (marking)
		msr_mark();
}

/* Nested calls around the loop, for call chains. */
static int depth;

static unsigned long long timed_loop(void);

/* A kind of sample. */
struct bench_row {
	const char *name;
	int (*open)(const struct bench_row *row);
	int (*run)(struct run_cost *run);
	void (*close)(void);
	__u32 flags;		/* flags of a trace's event */
	const struct event_maker *maker;
	__u64 parts;		/* sample_type of a ring's samples */
	int members, calls;
};

/* The function is not optimized, so that each call has a frame. */
__attribute__((noinline, optimize("no-omit-frame-pointer")))
static unsigned long long nested_loop(int calls)
{
	unsigned long long took = calls ? nested_loop(calls - 1) : timed_loop();

	__asm__ volatile("" : : : "memory");
	return took;
}

__attribute__((noinline, optimize("no-omit-frame-pointer")))
static unsigned long long timed_loop(void)
{
	unsigned long long begin, end;

	write_mark();
	begin = __rdtsc();
	loop(N);
	end = __rdtsc();
	write_mark();
	return end - begin;
}

/* --- A trace ------------------------------------------------------------- */

static struct trace trace;

/* Stages a config with the flags of a row, and with its events that follow the timebase. */
static int open_trace(const struct bench_row *row)
{
	struct perfmon_config c = one_event(INSTRUCTIONS, RATE,
					    FLAG_USER | FLAG_PC | row->flags);
	int i, err, fd = device_open(O_RDWR);

	if (fd < 0)
		return fd;
	for (i = 0; i < row->members; i++) {
		err = trace_define(fd, i, EVENT_INSTRUCTIONS);
		if (err)
			return err;
		c.events[1 + i] = MODEL_EVENT(i);
		c.flags[1 + i] = FLAG_USER | FLAG_TIMEBASE0;
	}
	err = trace_alloc(&trace, fd, 64);
	return err ? err : trace_stage(&trace, &c);
}

static int run_trace(struct run_cost *run)
{
	const struct perfmon_buffer_header *header = trace.buffer[0];
	struct trace_sums sums;
	size_t begin;
	int err = trace_start(&trace);

	if (err)
		return err;
	begin = header->capture_end;
	run->insns = nested_loop(depth);
	run->bytes = header->capture_end - begin;
	err = trace_stop(&trace);
	if (!err && *trace_sum(&trace, 0, &sums))
		err = -EIO;
	run->samples = sums.event[0].ticks;
	return err;
}

static void close_trace(void)
{
	trace_free(&trace);
	close(trace.fd);
}

/* --- Rings: Linux perf's, and the module's ------------------------------- */

#define RING_PAGES	256

/* Bit of sample_regs_user. */
#define REGISTER_SP	(1ULL << 7)

static int fds[1 + MEMBERS];
static int fd_count;
static struct perf_event_mmap_page *ring;

static int open_ring(const struct bench_row *row)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period = RATE,
		.sample_type = row->parts,
		.read_format = row->members ? PERF_FORMAT_GROUP : 0,
		.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
		.sample_regs_user = REGISTER_SP,
		.sample_stack_user = 1024,
		.disabled = 1,
		.exclude_kernel = 1,
		.watermark = 1,
		.wakeup_watermark = 1U << 30,
	};
	long size = (1 + RING_PAGES) * sysconf(_SC_PAGESIZE);
	void *p;

	depth = row->calls;
	/* Samples everything that runs on CPU 0, as a trace does. */
	for (fd_count = 0; fd_count <= row->members; fd_count++) {
		int leader = fd_count ? fds[0] : -1;

		fds[fd_count] = row->maker->open(&attr, -1, 0, leader, 0);
		if (fds[fd_count] < 0)
			return fds[fd_count];

		/* The other members of the group only count. */
		attr.sample_period = 0;
		attr.sample_type = 0;
		attr.disabled = 0;
	}
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (p == MAP_FAILED)
		return -errno;
	ring = p;
	return 0;
}

/* Returns the number of samples between two offsets of the ring, which has no other records. */
static long ring_samples(__u64 from, __u64 to)
{
	const char *data = (const char *)ring + ring->data_offset;
	const struct perf_event_header *header;
	long n = 0;

	for (; from < to; from += header->size, n++) {
		header = (const void *)(data + from % ring->data_size);
		if (header->type != PERF_RECORD_SAMPLE)
			return -EIO;
	}
	return n;
}

static int run_ring(struct run_cost *run)
{
	__u64 begin = ring->data_head;
	long n;

	if (ioctl(fds[0], PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	run->insns = nested_loop(depth);
	if (ioctl(fds[0], PERF_EVENT_IOC_DISABLE, 0))
		return -errno;
	n = ring_samples(begin, ring->data_head);
	run->bytes = ring->data_head - begin;
	ring->data_tail = ring->data_head;
	if (n < 0)
		return n;
	run->samples = n;
	return 0;
}

static void close_ring(void)
{
	if (ring)
		munmap(ring, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE));
	ring = NULL;
	depth = 0;
	while (fd_count--)
		close(fds[fd_count]);
}

/* --- The table ----------------------------------------------------------- */

/* Together with timed_loop() and main(), the chain has 12 addresses. */
#define CALLS	9

#define IP_TIME	(PERF_SAMPLE_IP | PERF_SAMPLE_TIME)
#define USUAL	(IP_TIME | PERF_SAMPLE_TID)
#define STACK	(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

#define TRACE(title, ...)							\
	{									\
		.name = (title), .open = open_trace, .run = run_trace,		\
		.close = close_trace, __VA_ARGS__				\
	}
#define RING(title, maker_name, sample_type, ...)					\
	{									\
		.name = (title), .open = open_ring, .run = run_ring,		\
		.close = close_ring, .maker = &event_maker_##maker_name,		\
		.parts = (sample_type), __VA_ARGS__				\
	}

static const struct bench_row rows[] = {
	TRACE("PC"),
	RING("perf: ip,time", perf, IP_TIME),
	RING("event: ip,tid,time", perfmon, USUAL),
	RING("perf: ip,tid,time", perf, USUAL),
	RING("event: and a chain of 12", perfmon, USUAL | PERF_SAMPLE_CALLCHAIN, .calls = CALLS),
	RING("perf: and a chain of 12", perf, USUAL | PERF_SAMPLE_CALLCHAIN, .calls = CALLS),
	TRACE("PC, 6 counts", .members = MEMBERS),
	RING("event: and 6 members", perfmon, USUAL | PERF_SAMPLE_READ, .members = MEMBERS),
	RING("perf: and 6 members", perf, USUAL | PERF_SAMPLE_READ, .members = MEMBERS),
	TRACE("PC, 32 branches", .flags = FLAG_LAST_BRANCH),
	RING("event: and 32 branches", perfmon, USUAL | PERF_SAMPLE_BRANCH_STACK),
	RING("perf: and 32 branches", perf, USUAL | PERF_SAMPLE_BRANCH_STACK),
	RING("event: and 1 KiB of stack", perfmon, USUAL | STACK),
	RING("perf: and 1 KiB of stack", perf, USUAL | STACK),
	{ .name = NULL },
};

/*
 * Finds the run with the fewest instructions, and makes a further run with marks, which has @marked
 * samples.
 */
static int find_least(const struct bench_row *row, struct run_cost *best, unsigned long *marked)
{
	struct run_cost run;
	int i, err;

	*best = (struct run_cost) { .insns = ~0ULL };
	for (i = 0; i < ROUNDS; i++) {
		err = row->run(&run);
		if (err)
			return err;
		if (!run.samples)
			return -ENODATA;
		if (run.insns < best->insns)
			*best = run;
	}

	marking = true;
	err = row->run(&run);
	marking = false;
	*marked = run.samples;
	return err;
}

/* Keeps perf from lowering its rate because its PMIs take long. */
static void lift_perf_limit(void)
{
	int fd = open("/proc/sys/kernel/perf_cpu_time_max_percent",
		      O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		perror("perf_cpu_time_max_percent");
	close(fd);
}

int main(void)
{
	unsigned long long base = ~0ULL, took;
	unsigned long marked;
	const struct bench_row *row;
	struct run_cost best;
	int i, err;

	lift_perf_limit();
	for (i = 0; i < ROUNDS; i++) {
		took = timed_loop();
		if (took < base)
			base = took;
	}

	/* A line for each row: name, instructions, bytes, marked samples. */
	for (row = rows; row->name; row++) {
		err = row->open(row);
		if (!err)
			err = find_least(row, &best, &marked);
		row->close();
		if (err) {
			printf("%s\tfailed: %s\n", row->name,
			       strerror(-err));
			continue;
		}
		printf("%s\t%llu\t%lu\t%lu\n", row->name,
		       (best.insns - base) / best.samples,
		       best.bytes / best.samples, marked);
	}
	return EXIT_SUCCESS;
}
