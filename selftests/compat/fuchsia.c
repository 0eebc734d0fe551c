// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program for Fuchsia's perfmon records exactly the instructions that it executes, each time. It
 * includes Fuchsia's header, which -I replaces by ours. The program uses only open(2), mmap(2) and
 * the number of CPUs from Linux.
 */
#include <lib/zircon-internal/device/cpu-trace/perf-mon.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "program.h"

#define N		1000000UL
#define REPEATS		20
#define PAGES		64
#define MAX_CPUS	64U

#define INSTRUCTIONS						\
	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH,		\
			      PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED)
#define BRANCHES						\
	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH,		\
			      PERFMON_ARCH_EVENT_BRANCHES_RETIRED)

/* A sample of the program counter every 10007 instructions, and the branches in between. */
static const perfmon_ioctl_config_t config = {
	.events = { INSTRUCTIONS, BRANCHES },
	.rate = { 10007 },
	.flags = {
		PERFMON_CONFIG_FLAG_USER | PERFMON_CONFIG_FLAG_PC,
		PERFMON_CONFIG_FLAG_USER | PERFMON_CONFIG_FLAG_TIMEBASE0,
	},
};

FIXTURE(fuchsia)
{
	int fd;
	ioctl_perfmon_alloc_t alloc;
	size_t size;		/* bytes of each buffer */
	const perfmon_buffer_header_t *buffer[MAX_CPUS];
};

/* The sums of the records of all buffers. */
struct record_sums {
	__u64 samples;
	__u64 instructions;
	__u64 branches;
};

FIXTURE_SETUP(fuchsia)
{
	ioctl_perfmon_buffer_handle_req_t req;
	perfmon_ioctl_properties_t properties;
	zx_handle_t handle = ZX_HANDLE_INVALID;
	void *p;

	SKIP_WITHOUT_PMU();
	self->fd = open(_PATH_PERFMON, O_RDWR);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ((ssize_t)sizeof(properties),
		  ioctl_perfmon_get_properties(self->fd, &properties));
	ASSERT_EQ(PERFMON_API_VERSION, properties.api_version);
	ASSERT_LE(2, properties.max_num_programmable_events);

	self->alloc.num_buffers = cpu_ids();
	self->alloc.buffer_size_in_pages = PAGES;
	ASSERT_GE(MAX_CPUS, self->alloc.num_buffers);
	ASSERT_EQ(0, ioctl_perfmon_alloc_trace(self->fd, &self->alloc));
	ASSERT_EQ(0, ioctl_perfmon_stage_config(self->fd, &config));

	self->size = PAGES * sysconf(_SC_PAGESIZE);
	for (req.descriptor = 0; req.descriptor < self->alloc.num_buffers;
	     req.descriptor++) {
		ASSERT_EQ((ssize_t)sizeof(handle),
			  ioctl_perfmon_get_buffer_handle(self->fd, &req,
							  &handle));
		p = mmap(NULL, self->size, PROT_READ, MAP_SHARED, handle, 0);
		ASSERT_NE(MAP_FAILED, p);
		close(handle);
		self->buffer[req.descriptor] = p;
	}
}

FIXTURE_TEARDOWN(fuchsia)
{
	__u32 n;

	for (n = 0; n < self->alloc.num_buffers; n++)
		munmap((void *)self->buffer[n], self->size);
	close(self->fd);
}

/* Records the loop. Returns 0, or a negative errno. */
static int record_loop(int fd, unsigned long n)
{
	int err = ioctl_perfmon_start(fd);

	if (err)
		return err;
	loop(n);
	return ioctl_perfmon_stop(fd);
}

/* Adds up the records of a buffer. Returns false at a record of another kind. */
static bool add_up(const perfmon_buffer_header_t *buffer, struct record_sums *sums)
{
	const char *next = (const char *)(buffer + 1);
	const char *end = (const char *)buffer + buffer->capture_end;

	while (next < end) {
		const perfmon_record_header_t *record = (const void *)next;
		const perfmon_count_record_t *count = (const void *)next;

		switch (record->type) {
		case PERFMON_RECORD_TIME:
			next += sizeof(perfmon_time_record_t);
			break;
		case PERFMON_RECORD_PC:
			if (record->event != config.events[0])
				return false;
			sums->samples++;
			sums->instructions += config.rate[0];
			next += sizeof(perfmon_pc_record_t);
			break;
		case PERFMON_RECORD_COUNT:
			if (record->event == config.events[0])
				sums->instructions += count->count;
			else if (record->event == config.events[1])
				sums->branches += count->count;
			else
				return false;
			next += sizeof(*count);
			break;
		default:
			return false;
		}
	}
	return next == end;
}

TEST_F(fuchsia, allocation_and_config_read_back)
{
	perfmon_ioctl_config_t staged;
	ioctl_perfmon_alloc_t alloc;

	ASSERT_EQ((ssize_t)sizeof(alloc),
		  ioctl_perfmon_get_alloc(self->fd, &alloc));
	EXPECT_EQ(0, memcmp(&alloc, &self->alloc, sizeof(alloc)));
	ASSERT_EQ((ssize_t)sizeof(staged),
		  ioctl_perfmon_get_config(self->fd, &staged));
	EXPECT_EQ(0, memcmp(&staged, &config, sizeof(staged)));
}

TEST_F(fuchsia, errors_are_negative)
{
	const ioctl_perfmon_buffer_handle_req_t none = {
		.descriptor = self->alloc.num_buffers,
	};
	zx_handle_t handle = ZX_HANDLE_INVALID;

	EXPECT_EQ(-EINVAL, ioctl_perfmon_get_buffer_handle(self->fd, &none,
							   &handle));
	EXPECT_EQ(ZX_HANDLE_INVALID, handle);
	EXPECT_EQ(-EBADFD, ioctl_perfmon_alloc_trace(self->fd, &self->alloc));
	EXPECT_EQ(0, ioctl_perfmon_free_trace(self->fd));
	EXPECT_EQ(-EBADFD, ioctl_perfmon_start(self->fd));
	EXPECT_EQ(-EBADFD, ioctl_perfmon_stop(self->fd));
}

/* The sums include the instructions of the calls, which are a constant. */
TEST_F(fuchsia, sums_are_exact_each_time)
{
	struct record_sums ends = {}, sums;
	__u32 cpu;
	int i;

	/* Runs on one CPU, because each CPU has a rest of instructions without a sample. */
	ASSERT_LE(0, pin_to_first_cpu());
	ASSERT_EQ(0, wait_until_idle());
	for (i = 0; i <= REPEATS; i++) {
		/* The first round has one iteration, the other rounds have N. */
		ASSERT_EQ(0, record_loop(self->fd, i ? N : 1));
		memset(&sums, 0, sizeof(sums));
		for (cpu = 0; cpu < self->alloc.num_buffers; cpu++) {
			EXPECT_EQ(0U, self->buffer[cpu]->flags);
			ASSERT_TRUE(add_up(self->buffer[cpu], &sums));
		}
		if (!i) {
			ends.instructions = sums.instructions - LOOP_INSNS;
			ends.branches = sums.branches - 1;
			EXPECT_GE((__u64)CALL_OVERHEAD, ends.instructions);
			continue;
		}
		EXPECT_EQ(LOOP_INSNS * N + ends.instructions, sums.instructions);
		EXPECT_EQ(N + ends.branches, sums.branches);
		EXPECT_EQ(sums.instructions / config.rate[0], sums.samples);
	}
	ksft_print_msg("%llu samples, %lu + %llu instructions, %d times\n",
		       sums.samples, LOOP_INSNS * N, ends.instructions, REPEATS);
}

/* The reader uses every name of the interface, and records the loop. */
TEST(reader_of_every_name_records_the_loop)
{
	long long first;

	SKIP_WITHOUT_PMU();
	first = run_program("compat_fuchsia_reader");
	ASSERT_LE((long long)(LOOP_INSNS * N), first);
	EXPECT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	EXPECT_EQ(first, run_program("compat_fuchsia_reader"));
}

TEST_HARNESS_MAIN
