/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page of an event: reading a count without a system call, as <linux/perf_event.h>
 * describes it at struct perf_event_mmap_page.
 */
#ifndef SELFTESTS_EVENT_PAGE_H
#define SELFTESTS_EVENT_PAGE_H

#include <stdbool.h>
#include <sys/cdefs.h>

#include <linux/perf_event.h>
#include <linux/types.h>

static __always_inline __u64 rdpmc(__u32 counter)
{
	__u32 low, high;

	__asm__ volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (counter));
	return low | (__u64)high << 32;
}

struct page_value {
	__s64 count;
	__u64 enabled, running;	/* times at the last update of the page */
	__u32 index;		/* the number of the counter for RDPMC, plus 1; 0: the count is in the page alone */
	__u32 tries;		/* more than 1 if the page changed while it was read */
};

/*
 * Reads the page, and the counter by RDPMC. The function is not inlined, so that the instructions
 * around the reading are the same at each call.
 */
static __attribute__((noinline, unused)) struct page_value
page_read(const struct perf_event_mmap_page *page)
{
	struct page_value v = { .tries = 0 };
	__u32 lock;
	__s64 pmc;
	int unused;

	do {
		v.tries++;
		lock = __atomic_load_n(&page->lock, __ATOMIC_RELAXED);
		__asm__ volatile("" : : : "memory");
		v.enabled = page->time_enabled;
		v.running = page->time_running;
		v.index = page->cap_user_rdpmc ? page->index : 0;
		v.count = page->offset;
		if (v.index) {
			unused = 64 - page->pmc_width;
			pmc = rdpmc(v.index - 1) << unused;
			v.count += pmc >> unused;
		}
		__asm__ volatile("" : : : "memory");
	} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != lock);
	return v;
}

#endif
