// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers, their descriptors and their mappings: tests which of them keep a buffer alive, and which
 * accesses are refused. In the end no buffer is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "memory.h"
#include "module.h"
#include "perf.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	16
#define RATE	1009
#define N	100000UL

static const struct perfmon_config config = {
	.events = { INSTRUCTIONS },
	.rate = { RATE },
	.flags = { FLAG_USER | FLAG_PC },
};

FIXTURE(life)
{
	struct trace trace;
	int fd;
	int cpu;
	int handle;	/* descriptor of the CPU's buffer */
	long page_size;
	char *copy;	/* copy of the buffer after a run */
};

FIXTURE_SETUP(life)
{
	SKIP_WITHOUT_PMU();
	self->page_size = sysconf(_SC_PAGESIZE);
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	self->handle = trace_handle(self->fd, self->cpu);
	ASSERT_LE(0, self->handle);
	ASSERT_EQ(0, wait_until_idle());

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	self->copy = malloc(self->trace.size);
	ASSERT_NE(NULL, self->copy);
	memcpy(self->copy, self->trace.buffer[self->cpu], self->trace.size);
}

FIXTURE_TEARDOWN(life)
{
	trace_free(&self->trace);
	close(self->handle);
	close(self->fd);
	free(self->copy);
	ensure_module(_metadata);
}

/* Returns true if a mapping of the whole buffer still has the records. */
static bool has_the_records(FIXTURE_DATA(life) *self, const void *mapping)
{
	return !memcmp(self->copy, mapping, self->trace.size);
}

static void *map_handle(FIXTURE_DATA(life) *self)
{
	return mmap(NULL, self->trace.size, PROT_READ, MAP_SHARED, self->handle,
		    0);
}

TEST_F(life, mapping_outlives_the_trace)
{
	const void *mapping = self->trace.buffer[self->cpu];
	struct trace second;

	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL));
	close(self->handle);
	self->handle = -1;
	EXPECT_TRUE(has_the_records(self, mapping));

	/* The next trace gets other memory. */
	ASSERT_EQ(0, trace_alloc(&second, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&second, &config));
	ASSERT_EQ(0, trace_loop(&second, 2 * N));
	EXPECT_FALSE(has_the_records(self, second.buffer[self->cpu]));
	EXPECT_TRUE(has_the_records(self, mapping));
	ASSERT_EQ(0, trace_free(&second));

	close(self->fd);
	self->fd = -1;
	EXPECT_TRUE(has_the_records(self, mapping));
}

TEST_F(life, descriptor_outlives_the_trace)
{
	void *mapping;

	ASSERT_EQ(0, trace_free(&self->trace));
	mapping = map_handle(self);
	ASSERT_NE(MAP_FAILED, mapping);
	EXPECT_TRUE(has_the_records(self, mapping));
	munmap(mapping, self->trace.size);

	close(self->fd);
	self->fd = -1;
	mapping = map_handle(self);
	ASSERT_NE(MAP_FAILED, mapping);
	EXPECT_TRUE(has_the_records(self, mapping));
	munmap(mapping, self->trace.size);
}

/* All descriptors and mappings of a buffer refer to the same memory. */
TEST_F(life, buffer_has_any_number_of_descriptors)
{
	int handles[16];
	unsigned int i;
	void *mapping;

	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		handles[i] = trace_handle(self->fd, self->cpu);
		ASSERT_LE(0, handles[i]);
	}
	ASSERT_EQ(0, trace_loop(&self->trace, 2 * N));
	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		mapping = mmap(NULL, self->trace.size, PROT_READ, MAP_SHARED,
			       handles[i], 0);
		ASSERT_NE(MAP_FAILED, mapping);
		EXPECT_EQ(0, memcmp(mapping, self->trace.buffer[self->cpu],
				    self->trace.size));
		munmap(mapping, self->trace.size);
		close(handles[i]);
	}
}

TEST_F(life, mapping_can_only_be_read)
{
	size_t size = self->trace.size;
	void *mapping;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE,
				   MAP_SHARED, self->handle, 0));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_WRITE, MAP_SHARED,
				   self->handle, 0));
	EXPECT_EQ(EACCES, errno);

	/*
	 * A private mapping is refused: it would be a copy, and the buffer is still being written.
	 */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_PRIVATE,
				   self->handle, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE, self->handle, 0));
	EXPECT_EQ(EINVAL, errno);

	mapping = map_handle(self);
	ASSERT_NE(MAP_FAILED, mapping);
	EXPECT_EQ(-1, mprotect(mapping, size, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(mapping, self->page_size, PROT_WRITE));
	EXPECT_EQ(EACCES, errno);

	/* The mapping can't grow. */
	EXPECT_EQ(MAP_FAILED, mremap(mapping, size, 2 * size, MREMAP_MAYMOVE));
	EXPECT_TRUE(has_the_records(self, mapping));
	munmap(mapping, size);
}

TEST_F(life, mapping_is_within_the_buffer)
{
	size_t size = self->trace.size;
	long page = self->page_size;
	char *mapping;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, size + page, PROT_READ, MAP_SHARED,
				   self->handle, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED,
				   self->handle, page));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page, PROT_READ, MAP_SHARED,
				   self->handle, size));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page, PROT_READ, MAP_SHARED,
				   self->handle, (off_t)1 << 62));

	/* A part of the buffer */
	mapping = mmap(NULL, page, PROT_READ, MAP_SHARED, self->handle,
		       size - page);
	ASSERT_NE(MAP_FAILED, mapping);
	EXPECT_EQ(0, memcmp(mapping, self->copy + size - page, page));
	munmap(mapping, page);
}

/* The descriptor is closed on exec, and can only be mapped. */
TEST_F(life, descriptor_can_only_be_mapped)
{
	char byte;

	EXPECT_EQ(FD_CLOEXEC, fcntl(self->handle, F_GETFD));
	EXPECT_EQ(O_RDONLY, fcntl(self->handle, F_GETFL) & O_ACCMODE);
	EXPECT_EQ(-1, read(self->handle, &byte, 1));
	EXPECT_EQ(-1, write(self->handle, &byte, 1));
	EXPECT_EQ(EBADF, errno);
	EXPECT_EQ(-1, ioctl(self->handle, IOCTL_PERFMON_STOP));
	EXPECT_EQ(ENOTTY, errno);
}

TEST_F(life, handle_is_refused_without_a_free_descriptor)
{
	struct rlimit limit, none;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 0;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	EXPECT_EQ(-EMFILE, trace_handle(self->fd, self->cpu));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_TRUE(has_the_records(self, self->trace.buffer[self->cpu]));
}

TEST_F(life, module_stays_as_long_as_it_is_used)
{
	void *mapping;

	ASSERT_EQ(0, trace_free(&self->trace));
	close(self->fd);
	self->fd = -1;

	/* First only the descriptor keeps the buffer, then only a mapping. */
	EXPECT_EQ(-EWOULDBLOCK, module_unload());
	mapping = map_handle(self);
	ASSERT_NE(MAP_FAILED, mapping);
	close(self->handle);
	self->handle = -1;
	EXPECT_EQ(-EWOULDBLOCK, module_unload());
	EXPECT_TRUE(has_the_records(self, mapping));
	munmap(mapping, self->trace.size);
	EXPECT_EQ(0, module_unload());
}

#define ROUNDS		200
#define ROUND_PAGES	256

/* Takes a megabyte for each CPU, and frees it in a way that depends on @i. */
static int allocate_and_free(FIXTURE_DATA(life) *self, int i)
{
	struct trace t;
	int err = trace_alloc(&t, self->fd, ROUND_PAGES);

	if (!err)
		err = trace_stage(&t, &config);
	if (!err)
		err = trace_start(&t);
	if (err || i % 2)
		return err ? err : trace_free(&t);
	close(self->fd);
	self->fd = device_open(O_RDWR);

	/* The trace is freed already, so this frees only the mappings. */
	t.fd = self->fd;
	return trace_free(&t) == -EBADFD ? 0 : -EIO;
}

TEST_F(life, buffers_are_freed)
{
	long buffers_kb, tolerance_kb, free_kb, virtual_kb;
	unsigned int waited_us = 0;
	int i;

	ASSERT_EQ(0, trace_free(&self->trace));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, allocate_and_free(self, i));
	free_kb = memory_kb("MemFree");
	virtual_kb = memory_kb("VmallocUsed");
	ASSERT_LT(0, free_kb);
	for (i = 0; i < ROUNDS; i++)
		ASSERT_EQ(0, allocate_and_free(self, i));

	/* Other processes may use a tenth of the buffers' memory during the test. */
	buffers_kb = ROUNDS * ROUND_PAGES * (self->page_size / 1024);
	tolerance_kb = buffers_kb / 10;
	/* The kernel may free memory late. */
	while ((memory_kb("MemFree") <= free_kb - tolerance_kb ||
		memory_kb("VmallocUsed") >= virtual_kb + tolerance_kb) && wait_longer(&waited_us))
		;
	EXPECT_LT(free_kb - tolerance_kb, memory_kb("MemFree"));
	EXPECT_GT(virtual_kb + tolerance_kb, memory_kb("VmallocUsed"));
}

TEST_F(life, alloc_is_refused_without_enough_memory)
{
	long page = self->page_size / 1024, pages;
	int cpus = cpu_ids(), err;

	ASSERT_EQ(0, trace_free(&self->trace));

	/* Chooses the largest size that the call allows, or a size that is more than all memory. */
	pages = memory_kb("MemTotal") / page / cpus + 1;
	if (pages > PERFMON_MAX_BUFFER_PAGES)
		pages = PERFMON_MAX_BUFFER_PAGES;
	err = trace_alloc_buffers(self->fd, cpus, pages);
	if (pages < PERFMON_MAX_BUFFER_PAGES)
		EXPECT_EQ(-ENOMEM, err);

	/* No process was killed, and the state is unchanged. */
	if (err)
		EXPECT_EQ(0, trace_alloc_buffers(self->fd, cpus, PAGES));
	EXPECT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL));
}

TEST_F(life, close_stops_the_trace)
{
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, perf_count_short_loop());

	/* The mapping still exists, and the module does not write to it. */
	memcpy(self->copy, self->trace.buffer[self->cpu], self->trace.size);
	loop(N);
	EXPECT_TRUE(has_the_records(self, self->trace.buffer[self->cpu]));

	/* A new trace works. */
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	EXPECT_EQ(0, trace_loop(&self->trace, N));
}

/* Forks a child that traces itself at a high rate until it is killed. */
static pid_t sample_forever(void)
{
	struct perfmon_config often = config;
	struct trace t;
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	often.rate[0] = 97;
	fd = device_open(O_RDWR);
	if (fd < 0 || trace_alloc(&t, fd, 1024) || trace_stage(&t, &often))
		_exit(1);
	for (;;) {
		if (trace_start(&t))
			_exit(1);
		loop(N);
		if (trace_stop(&t))
			_exit(1);
	}
}

TEST_F(life, sigkill_at_a_high_rate_stops_the_trace)
{
	struct trace_sums sums;
	int i, status;
	pid_t pid;

	ASSERT_EQ(0, trace_free(&self->trace));
	close(self->fd);
	self->fd = -1;
	for (i = 0; i < 20; i++) {
		pid = sample_forever();
		ASSERT_LE(0, pid);
		usleep(10000 + 1000 * i);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}

	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, PAGES));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
}

TEST_HARNESS_MAIN
