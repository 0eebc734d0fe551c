// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of buffers is accounted like that of perf's rings: a user has
 * kernel.perf_event_mlock_kb for each online CPU, and beyond that a process has RLIMIT_MEMLOCK;
 * CAP_IPC_LOCK lifts both limits. The memory is uncharged when the last descriptor or mapping of a
 * buffer is closed, in any process.
 *
 * perf uses the same allowance, so the size of a ring that perf allows shows how much is left.
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

#define USER		4711	/* a user without processes */
#define KB_PER_CPU	516	/* default of kernel.perf_event_mlock_kb */
#define MORE_PAGES	1000

FIXTURE(memlock)
{
	int fd;
	long page_kb;
	int possible_cpus;	/* number of possible CPUs, each of which has a buffer */
	int online;	/* number of online CPUs, whose buffers have several pages */
	__u32 fitting_pages;	/* pages of each online CPU's buffer that fit into the allowance */
	long left_pages;	/* pages of the allowance that such buffers leave */
};

FIXTURE_SETUP(memlock)
{
	long allowance;
	cpu_set_t cpus;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->page_kb = sysconf(_SC_PAGESIZE) / 1024;
	self->possible_cpus = cpu_ids();
	ASSERT_EQ(0, cpus_online(&cpus));
	self->online = CPU_COUNT(&cpus);

	/* Each possible CPU that is not online has a buffer of one page. */
	allowance = KB_PER_CPU / self->page_kb * self->online -
		    (self->possible_cpus - self->online);
	self->fitting_pages = allowance / self->online;
	self->left_pages = allowance % self->online;
}

FIXTURE_TEARDOWN(memlock)
{
	close(self->fd);
}

/* Returns the pages that buffers of @pages pages take beyond the allowance. */
static long pages_beyond_allowance(FIXTURE_DATA(memlock) *self, __u32 pages)
{
	return (long)(pages - self->fitting_pages) * self->online - self->left_pages;
}

static int limit_memlock(FIXTURE_DATA(memlock) *self, long pages)
{
	struct rlimit limit = {
		.rlim_cur = pages * self->page_kb * 1024,
		.rlim_max = pages * self->page_kb * 1024,
	};

	return setrlimit(RLIMIT_MEMLOCK, &limit) ? -errno : 0;
}

/* Makes this a process of USER that may count, with this RLIMIT_MEMLOCK. */
static int become_limited(FIXTURE_DATA(memlock) *self, long pages,
			  unsigned long long capabilities)
{
	int err = limit_memlock(self, pages);

	return err ? err : become_user(USER, MAY_COUNT | capabilities);
}

static int alloc_trace(FIXTURE_DATA(memlock) *self, __u32 pages)
{
	return trace_alloc_buffers(self->fd, self->possible_cpus, pages);
}

static int free_trace(FIXTURE_DATA(memlock) *self)
{
	return device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL);
}

/* Maps a ring of perf. Returns 0 or a negative errno. */
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

/* Runs @f in a child that may count and has RLIMIT_MEMLOCK 0. Returns its result. */
static int run_in_child(FIXTURE_DATA(memlock) *self,
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

static int alloc_allowance(FIXTURE_DATA(memlock) *self)
{
	return alloc_trace(self, self->fitting_pages);
}

static int map_small_ring(FIXTURE_DATA(memlock) *self)
{
	(void)self;
	return map_ring(1);
}

/* Maps a small ring of perf, with perf_event_paranoid 2: Debian's default refuses the event. */
static int try_small_ring(FIXTURE_DATA(memlock) *self)
{
	int paranoid = paranoid_read();
	int err = paranoid_write(2);

	if (!err)
		err = run_in_child(self, map_small_ring);
	return paranoid_write(paranoid) ? -EIO : err;
}

/* Returns whether the allowance has no room for a ring of two pages. */
static bool allowance_is_used_up(FIXTURE_DATA(memlock) *self)
{
	return self->left_pages < 2 && try_small_ring(self) == -EPERM;
}

static bool allowance_is_free(FIXTURE_DATA(memlock) *self)
{
	return try_small_ring(self) == 0;
}

TEST_F(memlock, user_has_an_allowance_for_each_cpu)
{
	ASSERT_EQ(0, become_limited(self, 0, 0));
	EXPECT_EQ(-EPERM, alloc_trace(self, self->fitting_pages + 1));
	EXPECT_EQ(-EPERM, alloc_trace(self, PERFMON_MAX_BUFFER_PAGES));

	/* The allowance is as before: the refused call has charged nothing. */
	EXPECT_EQ(0, alloc_trace(self, self->fitting_pages));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(-EPERM, alloc_trace(self, self->fitting_pages + 1));
	EXPECT_EQ(0, alloc_trace(self, self->fitting_pages));
}

TEST_F(memlock, memory_beyond_the_allowance_counts_for_rlimit_memlock)
{
	__u32 pages = self->fitting_pages + MORE_PAGES;
	long kb = pages_beyond_allowance(self, pages) * self->page_kb;

	ASSERT_EQ(0, become_limited(self, pages_beyond_allowance(self, pages), 0));
	EXPECT_EQ(-EPERM, alloc_trace(self, pages + 1));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, alloc_trace(self, pages));
	EXPECT_EQ(kb, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(0, memory_pinned_kb());
	EXPECT_EQ(0, alloc_trace(self, pages));
	EXPECT_EQ(kb, memory_pinned_kb());
}

TEST_F(memlock, capable_process_may_have_more)
{
	__u32 pages = self->fitting_pages + MORE_PAGES;

	ASSERT_EQ(0, become_limited(self, 0, MAY_LOCK));
	EXPECT_EQ(0, alloc_trace(self, pages));
	EXPECT_EQ(pages_beyond_allowance(self, pages) * self->page_kb, memory_pinned_kb());
	EXPECT_EQ(0, free_trace(self));
	EXPECT_EQ(0, memory_pinned_kb());
}

TEST_F(memlock, perf_and_the_module_share_the_allowance)
{
	ASSERT_TRUE(allowance_is_free(self));
	ASSERT_EQ(0, run_in_child(self, alloc_allowance));
	EXPECT_TRUE(allowance_is_used_up(self));
	EXPECT_EQ(0, free_trace(self));
	EXPECT_TRUE(allowance_is_free(self));
}

/* A buffer stays charged while another process maps it. */
TEST_F(memlock, last_mapping_uncharges_the_memory)
{
	int handle, ready[2], end[2], status;
	size_t size = self->fitting_pages * self->page_kb * 1024;
	pid_t pid;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(end));
	ASSERT_EQ(0, become_limited(self, 0, 0));
	ASSERT_EQ(0, alloc_trace(self, self->fitting_pages));
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
		/* Keeps the mapping until the parent closes the other end. */
		_exit(read(end[0], &byte, 1) != 0);
	}
	close(handle);
	close(ready[1]);
	ASSERT_EQ(0, read(ready[0], &byte, 1));

	/* After the trace is freed, the child still maps one buffer. */
	ASSERT_EQ(0, free_trace(self));
	EXPECT_EQ(-EPERM, alloc_trace(self, self->fitting_pages));
	close(end[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, alloc_trace(self, self->fitting_pages));
}

/* A handle that was passed on keeps the buffer of a closed trace charged. */
TEST_F(memlock, last_handle_uncharges_the_memory)
{
	int handle;

	ASSERT_EQ(0, run_in_child(self, alloc_allowance));
	handle = trace_handle(self->fd, pin_to_first_cpu());
	ASSERT_LE(0, handle);
	close(self->fd);
	self->fd = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EPERM, run_in_child(self, alloc_allowance));
	close(handle);
	EXPECT_EQ(0, run_in_child(self, alloc_allowance));
}

static int alloc_beyond(FIXTURE_DATA(memlock) *self)
{
	return alloc_trace(self, self->fitting_pages + MORE_PAGES);
}

/* A process frees memory that another process has allocated before it exited. */
TEST_F(memlock, memory_of_an_exited_process_is_uncharged)
{
	pid_t pid = fork();
	int status;

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(become_limited(self, 0, MAY_LOCK) || alloc_beyond(self));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_TRUE(allowance_is_used_up(self));
	EXPECT_EQ(0, free_trace(self));
	EXPECT_TRUE(allowance_is_free(self));
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
		    alloc_allowance(self) || trace_handle(self->fd, 0) < 0 ||
		    write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	self->fd = open_device(_metadata, O_RDONLY);
	EXPECT_TRUE(allowance_is_used_up(self));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(allowance_is_free(self));
}

TEST_HARNESS_MAIN
