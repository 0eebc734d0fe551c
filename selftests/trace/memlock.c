// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of buffers is accounted as that of perf's rings: a user has
 * kernel.perf_event_mlock_kb for each online CPU, and a process RLIMIT_MEMLOCK
 * beyond that; CAP_IPC_LOCK lifts both. It is given back with the last descriptor
 * or mapping of a buffer, in whatever process that is.
 *
 * perf draws on the same allowance: the size of a ring that it allows shows how much
 * is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "memory.h"
#include "perf.h"
#include "rights.h"
#include "trace.h"

#define USER		4711	/* without any process of its own */
#define KB_PER_CPU	516	/* of the sysctl, and of the module's parameter */
#define MORE_PAGES	1000

FIXTURE(memlock)
{
	int fd;
	long page_kb;
	int ids;	/* CPU numbers, each of which has a buffer */
	int online;	/* CPUs, whose buffers have more than a page */
	__u32 fits;	/* pages of each of these, for all to be in the allowance */
	long left;	/* pages that are left then */
};

FIXTURE_SETUP(memlock)
{
	long allowance;
	cpu_set_t cpus;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->page_kb = sysconf(_SC_PAGESIZE) / 1024;
	self->ids = cpu_ids();
	ASSERT_EQ(0, cpus_online(&cpus));
	self->online = CPU_COUNT(&cpus);

	/* A CPU that is not there has a buffer of one page. */
	allowance = KB_PER_CPU / self->page_kb * self->online -
		    (self->ids - self->online);
	self->fits = allowance / self->online;
	self->left = allowance % self->online;
}

FIXTURE_TEARDOWN(memlock)
{
	close(self->fd);
}

/* Pages of RLIMIT_MEMLOCK that buffers of @pages take. */
static long beyond(FIXTURE_DATA(memlock) *self, __u32 pages)
{
	return (long)(pages - self->fits) * self->online - self->left;
}

static int limit_memlock(FIXTURE_DATA(memlock) *self, long pages)
{
	struct rlimit limit = {
		.rlim_cur = pages * self->page_kb * 1024,
		.rlim_max = pages * self->page_kb * 1024,
	};

	return setrlimit(RLIMIT_MEMLOCK, &limit) ? -errno : 0;
}

/* A process that may count, and has this limit. */
static int become_limited(FIXTURE_DATA(memlock) *self, long pages,
			  unsigned long long capabilities)
{
	int err = limit_memlock(self, pages);

	return err ? err : become_user(USER, MAY_COUNT | capabilities);
}

static int alloc(FIXTURE_DATA(memlock) *self, __u32 pages)
{
	return trace_alloc_buffers(self->fd, self->ids, pages);
}

static int free_trace(FIXTURE_DATA(memlock) *self)
{
	return device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL);
}

/* Maps a ring of perf's: 0 or a negative errno. */
static int map_ring(unsigned int data_pages)
{
	size_t size = (data_pages + 1) * sysconf(_SC_PAGESIZE);
	int fd = perf_open_task_clock(), err = 0;
	void *ring;

	if (fd < 0)
		return fd;
	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		err = -errno;
	else
		munmap(ring, size);
	close(fd);
	return err;
}

/* Runs @f in a child that may count and lock nothing: what it returns. */
static int in_child(FIXTURE_DATA(memlock) *self,
		    int (*f)(FIXTURE_DATA(memlock) *self))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(become_limited(self, 0, 0) ? 255 : -f(self));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return -WEXITSTATUS(status);
}

static int alloc_all(FIXTURE_DATA(memlock) *self)
{
	return alloc(self, self->fits);
}

static int map_small_ring(FIXTURE_DATA(memlock) *self)
{
	(void)self;
	return map_ring(1);
}

/* Asks perf for a small ring. Debian's default refuses the event. */
static int try_small_ring(FIXTURE_DATA(memlock) *self)
{
	int paranoid = paranoid_read();
	int err = paranoid_write(2);

	if (!err)
		err = in_child(self, map_small_ring);
	return paranoid_write(paranoid) ? -EIO : err;
}

/* So many pages, beside which no ring of two pages fits. */
static bool is_all_taken(FIXTURE_DATA(memlock) *self)
{
	return self->left < 2 && try_small_ring(self) == -EPERM;
}

static bool is_all_there(FIXTURE_DATA(memlock) *self)
{
	return try_small_ring(self) == 0;
}

TEST_F(memlock, user_has_an_allowance_for_each_cpu)
{
	ASSERT_EQ(0, become_limited(self, 0, 0));
	EXPECT_EQ(-EPERM, alloc(self, self->fits + 1));
	EXPECT_EQ(-EPERM, alloc(self, PERFMON_MAX_BUFFER_PAGES));

	/* The refused call has charged nothing. */
	EXPECT_EQ(0, alloc(self, self->fits));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(-EPERM, alloc(self, self->fits + 1));
	EXPECT_EQ(0, alloc(self, self->fits));
}

TEST_F(memlock, memory_beyond_the_allowance_counts_for_rlimit_memlock)
{
	__u32 pages = self->fits + MORE_PAGES;
	long kb = beyond(self, pages) * self->page_kb;

	ASSERT_EQ(0, become_limited(self, beyond(self, pages), 0));
	EXPECT_EQ(-EPERM, alloc(self, pages + 1));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, alloc(self, pages));
	EXPECT_EQ(kb, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, alloc(self, pages));
	EXPECT_EQ(kb, memory_pinned_kb());
}

TEST_F(memlock, capable_process_may_have_more)
{
	__u32 pages = self->fits + MORE_PAGES;

	ASSERT_EQ(0, become_limited(self, 0, MAY_LOCK));
	EXPECT_EQ(0, alloc(self, pages));
	EXPECT_EQ(beyond(self, pages) * self->page_kb, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(0, memory_pinned_kb());
}

TEST_F(memlock, perf_and_the_module_share_the_allowance)
{
	ASSERT_TRUE(is_all_there(self));
	ASSERT_EQ(0, in_child(self, alloc_all));
	EXPECT_TRUE(is_all_taken(self));
	EXPECT_EQ(0, free_trace(self));
	EXPECT_TRUE(is_all_there(self));
}

/* A buffer that is mapped elsewhere is paid for until that is over. */
TEST_F(memlock, last_mapping_uncharges_the_memory)
{
	int handle, ready[2], end[2], status;
	size_t size = self->fits * self->page_kb * 1024;
	pid_t pid;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(end));
	ASSERT_EQ(0, become_limited(self, 0, 0));
	ASSERT_EQ(0, alloc(self, self->fits));
	handle = trace_handle(self->fd, pin_to_first_cpu());
	ASSERT_LE(0, handle);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(end[1]);
		if (mmap(NULL, size, PROT_READ, MAP_SHARED, handle, 0) ==
		    MAP_FAILED)
			_exit(1);
		close(handle);
		close(self->fd);
		close(ready[1]);
		/* Until the other end is closed. */
		_exit(read(end[0], &byte, 1) != 0);
	}
	close(handle);
	close(ready[1]);
	ASSERT_EQ(0, read(ready[0], &byte, 1));

	/* One buffer is left of the trace that is freed. */
	ASSERT_EQ(0, free_trace(self));
	EXPECT_EQ(-EPERM, alloc(self, self->fits));
	close(end[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, alloc(self, self->fits));
}

/* A handle that is passed on, of a trace that is closed. */
TEST_F(memlock, last_handle_uncharges_the_memory)
{
	int handle;

	ASSERT_EQ(0, in_child(self, alloc_all));
	handle = trace_handle(self->fd, pin_to_first_cpu());
	ASSERT_LE(0, handle);
	close(self->fd);
	self->fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EPERM, in_child(self, alloc_all));
	close(handle);
	EXPECT_EQ(0, in_child(self, alloc_all));
}

static int alloc_beyond(FIXTURE_DATA(memlock) *self)
{
	return alloc(self, self->fits + MORE_PAGES);
}

/* The process that allocated has ended; another one frees. */
TEST_F(memlock, memory_of_an_exited_process_is_uncharged)
{
	pid_t pid = fork();
	int status;

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(become_limited(self, 0, MAY_LOCK) || alloc_beyond(self));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_TRUE(is_all_taken(self));
	EXPECT_EQ(0, free_trace(self));
	EXPECT_TRUE(is_all_there(self));
	EXPECT_EQ(0, memory_pinned_kb());
}

TEST_F(memlock, memory_of_a_killed_process_is_uncharged)
{
	int ready[2], status;
	char byte = 0;
	pid_t pid;

	close(self->fd);
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		self->fd = device_open(O_RDWR);
		if (self->fd < 0 || become_limited(self, 0, 0) ||
		    alloc_all(self) || trace_handle(self->fd, 0) < 0 ||
		    write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	self->fd = open_device(_metadata, O_RDONLY);
	EXPECT_TRUE(is_all_taken(self));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(is_all_there(self));
}

TEST_HARNESS_MAIN
