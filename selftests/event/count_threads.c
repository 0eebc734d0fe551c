// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the instructions of a piece of code in each of two threads, in user mode. Each thread
 * opens its own event, maps its page, and reads the counter by RDPMC, without a system call
 * around the code.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/perfmon.h>

#define THREADS	2
#define ROUNDS	1000000UL

static int device;

/* Opens an event of the calling thread and maps its page. Returns NULL on failure. */
static struct perf_event_mmap_page *count_this_thread(int *event)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
	};
	struct perfmon_event_open self = {
		.attr = (uintptr_t)&attr, .cpu = -1, .group_fd = -1,
	};
	void *page;

	*event = ioctl(device, PERFMON_EVENT_OPEN, &self);
	if (*event < 0)
		return NULL;
	page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, *event, 0);
	return page == MAP_FAILED ? NULL : page;
}

/* Returns the current count of the calling thread, whose event must have this page. */
static inline uint64_t count_now(struct perf_event_mmap_page *page)
{
	uint32_t sequence, index, low, high;
	uint64_t count;

	do {
		sequence = page->lock;
		__asm__ volatile("" ::: "memory");
		index = page->index;
		count = page->offset;
		if (page->cap_user_rdpmc && index) {
			int unused = 64 - page->pmc_width;

			__asm__ volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1));
			count += (int64_t)(((uint64_t)high << 32 | low) << unused) >> unused;
		}
		__asm__ volatile("" ::: "memory");
	} while (page->lock != sequence);
	return count;
}

static void *work(void *arg)
{
	struct perf_event_mmap_page *page;
	uint64_t *count = arg, before;
	unsigned long n = ROUNDS;
	int event;

	page = count_this_thread(&event);
	if (!page) {
		perror("PERFMON_EVENT_OPEN or mmap");
		return NULL;
	}
	before = count_now(page);
	__asm__ volatile("1: dec %0; jnz 1b" : "+r" (n) : : "cc");
	*count = count_now(page) - before;
	munmap(page, getpagesize());
	close(event);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	uint64_t counts[THREADS] = { 0 };
	int i;

	device = open(_PATH_PERFMON, O_RDONLY);
	if (device < 0)
		return perror(_PATH_PERFMON), 1;
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &counts[i]))
			return perror("pthread_create"), 1;
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		printf("thread %d: %llu instructions\n", i, (unsigned long long)counts[i]);
	}
	return 0;
}
