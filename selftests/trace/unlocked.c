// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is allocated and freed without the module's lock, so neither a call that needs the lock
 * nor a CPU that goes offline waits for the end of an allocation.
 *
 * A thread makes the long call, and the test watches the free memory: while only a part of the
 * buffers is allocated or freed, the call is in progress. A second call that returns before the
 * end of the long call has not waited for it. On a busy machine the second call may come too late,
 * and the test is repeated.
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

#define TRIES	100

FIXTURE(unlocked)
{
	int fd;
	int reader;
	int home, cpu;		/* a CPU that stays online, and one that goes offline */
	int online;		/* the file "online" of @cpu */
	__u32 pages;		/* pages of a buffer; all buffers have a third of the memory */
	long all_kb;		/* size of all buffers */
	long first_percent;		/* percentage of the memory of all buffers that one buffer has */
	long before_kb;		/* free memory before the call */
	int err;		/* result of the long call */
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
	self->first_percent = 100 / CPU_COUNT(&cpus);
}

FIXTURE_TEARDOWN(unlocked)
{
	/* If the CPU is online, as it should be, this call fails with EINVAL. */
	cpu_set_online(self->online, "1");
	close(self->online);
	close(self->reader);
	close(self->fd);
}

/* Returns the percentage of the buffers that is allocated. */
static long allocated_percent(FIXTURE_DATA(unlocked) *self)
{
	return (self->before_kb - memory_kb("MemFree")) * 100 / self->all_kb;
}

/* Returns whether the trace is idle: not allocated yet, or freed. */
static bool is_idle(FIXTURE_DATA(unlocked) *self)
{
	struct perfmon_alloc alloc;

	return device_ioctl(self->fd, IOCTL_PERFMON_GET_ALLOC, &alloc) ==
	       -EBADFD;
}

/* The long calls, each made in a thread. */

static void *alloc_thread(void *fixture)
{
	FIXTURE_DATA(unlocked) *self = fixture;

	/* Runs on a CPU that stays online. */
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

static bool start_thread(FIXTURE_DATA(unlocked) *self, pthread_t *thread,
		  void *(*f)(void *fixture))
{
	self->err = -EINPROGRESS;
	return !pthread_create(thread, NULL, f, self);
}

/*
 * Calls ALLOC_TRACE in a thread, and @probe at the same time. Returns whether @probe returned when
 * less than @most percent of the buffers were allocated.
 */
static bool returns_beside_alloc(FIXTURE_DATA(unlocked) *self, long most,
				 void (*probe)(FIXTURE_DATA(unlocked) *self))
{
	pthread_t thread;
	bool before;

	if (!start_thread(self, &thread, alloc_thread))
		return false;
	while (allocated_percent(self) < 10 && is_idle(self))
		;
	probe(self);
	/* ALLOC_TRACE changes the state last. */
	before = is_idle(self) && allocated_percent(self) < most;
	pthread_join(thread, NULL);
	return before;
}

static void probe_read(FIXTURE_DATA(unlocked) *self)
{
	pmc_value(self->reader, 0);
}

TEST_F(unlocked, call_does_not_wait_for_alloc)
{
	bool returned_early = false;
	int i;

	for (i = 0; i < TRIES && !returned_early; i++) {
		/*
		 * The limit is less than a whole buffer, so that the call can't have run between
		 * the allocations of two buffers.
		 */
		returned_early = returns_beside_alloc(self, self->first_percent * 9 / 10,
					    probe_read);
		ASSERT_EQ(0, self->err);
		ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE,
					  NULL));
	}
	EXPECT_TRUE(returned_early);
}

static void probe_offline(FIXTURE_DATA(unlocked) *self)
{
	cpu_set_online(self->online, "0");
}

TEST_F(unlocked, cpu_goes_offline_during_alloc)
{
	bool returned_early = false;
	int i;

	for (i = 0; i < TRIES && !returned_early; i++) {
		returned_early = returns_beside_alloc(self, 100, probe_offline);
		ASSERT_EQ(0, self->err);
		ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_FREE_TRACE,
					  NULL));
		ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	}
	EXPECT_TRUE(returned_early);
}

TEST_F(unlocked, call_does_not_wait_for_free)
{
	bool returned_early = false;
	pthread_t thread;
	int i;

	for (i = 0; i < TRIES && !returned_early; i++) {
		ASSERT_EQ(0, trace_alloc_buffers(self->fd, cpu_ids(),
						 self->pages));
		ASSERT_TRUE(start_thread(self, &thread, free_thread));
		/* FREE_TRACE changes the state first. */
		while (!is_idle(self))
			;
		returned_early = allocated_percent(self) > 10;
		pthread_join(thread, NULL);
		ASSERT_EQ(0, self->err);
	}
	EXPECT_TRUE(returned_early);
}

/* A close frees the counters first, and allows the next writer last. */
TEST_F(unlocked, call_does_not_wait_for_close)
{
	bool returned_early = false;
	pthread_t thread;
	struct pmc pmc;
	int i;

	for (i = 0; i < TRIES && !returned_early; i++) {
		ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS,
				       PMCF_USR));
		ASSERT_EQ(0, trace_alloc_buffers(self->fd, cpu_ids(),
						 self->pages));
		ASSERT_TRUE(start_thread(self, &thread, close_thread));
		while (pmc_get(self->reader, 0, &pmc) != -EBUSY)
			;
		returned_early = allocated_percent(self) > 10;
		pthread_join(thread, NULL);
		ASSERT_EQ(0, self->err);
		self->fd = open_device(_metadata, O_RDWR);
	}
	EXPECT_TRUE(returned_early);
}

TEST_HARNESS_MAIN
