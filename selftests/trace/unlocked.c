// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is allocated and freed without the module's lock: a call that needs the
 * lock, or a CPU that goes offline, does not wait for that.
 *
 * A thread makes the call that takes long, and the test watches the memory: as long
 * as only a part of it is allocated, or given back, the call is under way. A call
 * that is made then and returns before the rest is done has not waited. It may come
 * too late, on a busy machine: then it is tried again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "memory.h"
#include "trace.h"

#define TRIES	30

FIXTURE(unlocked)
{
	int fd;
	int reader;
	int home, cpu;		/* one that stays, one that is switched */
	int online;		/* its switch */
	__u32 pages;		/* of a buffer: with all, a third of the memory */
	long all_kb;		/* that the buffers have */
	long first;		/* what the first buffer is of that, in percent */
	long before_kb;		/* that was free */
	int err;		/* of the call that takes long */
};

FIXTURE_SETUP(unlocked)
{
	cpu_set_t cpus;

	SKIP_WITHOUT_PMU();
	self->online = -1;
	FIND_CPU_TO_SWITCH(self);
	ASSERT_EQ(0, cpus_online(&cpus));
	self->fd = open_device(_metadata, O_RDWR);
	self->reader = open_device(_metadata, O_RDONLY);
	self->before_kb = memory_kb("MemFree");
	self->pages = self->before_kb / 4 / 3 / CPU_COUNT(&cpus);
	if (self->pages > PERFMON_MAX_BUFFER_PAGES)
		self->pages = PERFMON_MAX_BUFFER_PAGES;
	self->all_kb = self->pages * 4L * CPU_COUNT(&cpus);
	self->first = 100 / CPU_COUNT(&cpus);
}

FIXTURE_TEARDOWN(unlocked)
{
	/* Fails if it is online, as it should be. */
	cpu_set_online(self->online, "1");
	close(self->online);
	close(self->reader);
	close(self->fd);
}

/* So much of the buffers is allocated, in percent. */
static long allocated(FIXTURE_DATA(unlocked) *self)
{
	return (self->before_kb - memory_kb("MemFree")) * 100 / self->all_kb;
}

/* The trace has no state but idle: it is not allocated yet, or is freed. */
static bool is_idle(FIXTURE_DATA(unlocked) *self)
{
	struct perfmon_alloc alloc;

	return device_ioctl(self->fd, IOCTL_PERFMON_GET_ALLOC, &alloc) ==
	       -EBADFD;
}

/* The calls that take long, each in a thread. */

static void *alloc_thread(void *fixture)
{
	FIXTURE_DATA(unlocked) *self = fixture;

	/* Not on the CPU that is switched off. */
	self->err = pin_to_cpu(self->home);
	if (!self->err)
		self->err = trace_alloc_buffers(self->fd, cpu_ids(),
						self->pages);
	return NULL;
}

static void *free_thread(void *fixture)
{
	FIXTURE_DATA(unlocked) *self = fixture;

	self->err = device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE, NULL);
	return NULL;
}

static void *close_thread(void *fixture)
{
	FIXTURE_DATA(unlocked) *self = fixture;

	self->err = close(self->fd) ? -errno : 0;
	return NULL;
}

static bool start(FIXTURE_DATA(unlocked) *self, pthread_t *thread,
		  void *(*f)(void *fixture))
{
	self->err = -EINPROGRESS;
	return !pthread_create(thread, NULL, f, self);
}

/*
 * ALLOC_TRACE, and @probe while it goes on: does that return before, and when less
 * than @most percent are allocated?
 */
static bool returns_beside_alloc(FIXTURE_DATA(unlocked) *self, long most,
				 void (*probe)(FIXTURE_DATA(unlocked) *self))
{
	pthread_t thread;
	bool before;

	if (!start(self, &thread, alloc_thread))
		return false;
	while (allocated(self) < 10 && is_idle(self))
		;
	probe(self);
	/* The state changes last. */
	before = is_idle(self) && allocated(self) < most;
	pthread_join(thread, NULL);
	return before;
}

static void probe_read(FIXTURE_DATA(unlocked) *self)
{
	pmc_value(self->reader, 0);
}

TEST_F(unlocked, call_does_not_wait_for_alloc)
{
	bool seen = false;
	int i;

	for (i = 0; i < TRIES && !seen; i++) {
		/* Not between two buffers either. */
		seen = returns_beside_alloc(self, self->first * 9 / 10,
					    probe_read);
		ASSERT_EQ(0, self->err);
		ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE,
					  NULL));
	}
	EXPECT_TRUE(seen);
}

static void probe_offline(FIXTURE_DATA(unlocked) *self)
{
	cpu_set_online(self->online, "0");
}

TEST_F_TIMEOUT(unlocked, cpu_goes_offline_during_alloc, 300)
{
	bool seen = false;
	int i;

	for (i = 0; i < TRIES && !seen; i++) {
		seen = returns_beside_alloc(self, 100, probe_offline);
		ASSERT_EQ(0, self->err);
		ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE,
					  NULL));
		ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	}
	EXPECT_TRUE(seen);
}

TEST_F(unlocked, call_does_not_wait_for_free)
{
	bool seen = false;
	pthread_t thread;
	int i;

	for (i = 0; i < TRIES && !seen; i++) {
		ASSERT_EQ(0, trace_alloc_buffers(self->fd, cpu_ids(),
						 self->pages));
		ASSERT_TRUE(start(self, &thread, free_thread));
		/* It begins with the state. */
		while (!is_idle(self))
			;
		seen = allocated(self) > 10;
		pthread_join(thread, NULL);
		ASSERT_EQ(0, self->err);
	}
	EXPECT_TRUE(seen);
}

/* A close begins with the counters, and lets the next writer in at its end. */
TEST_F(unlocked, call_does_not_wait_for_close)
{
	bool seen = false;
	pthread_t thread;
	struct pmc pmc;
	int i;

	for (i = 0; i < TRIES && !seen; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS,
				       PMCF_USR));
		ASSERT_EQ(0, trace_alloc_buffers(self->fd, cpu_ids(),
						 self->pages));
		ASSERT_TRUE(start(self, &thread, close_thread));
		while (pmc_get(self->reader, 0, &pmc) != -EBUSY)
			;
		seen = allocated(self) > 10;
		pthread_join(thread, NULL);
		ASSERT_EQ(0, self->err);
		self->fd = open_device(_metadata, O_RDWR);
	}
	EXPECT_TRUE(seen);
}

TEST_HARNESS_MAIN
