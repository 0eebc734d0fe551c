/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libperfmon: exact counts of a program's own code, through /dev/perfmon.
 *
 * Counters are opened by the names of their events, started, stopped and read. Markers
 * count what the program executes between two points, without a system call. Section 3 of
 * the manual describes the functions: perfmon_open, perfmon_rdpmc, perfmon_begin,
 * perfmon_error. A function that fails returns -1 or NULL and sets errno; perfmon_error()
 * then returns what happened and what to do. Several threads may call all functions at
 * once. A signal handler may call only perfmon_rdpmc().
 */
#ifndef PERFMON_H
#define PERFMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <linux/perf_event.h>

#if !defined(__x86_64__) || defined(__ILP32__)
#error "libperfmon is for x86-64"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of events of one perfmon_open(). */
#define PERFMON_MAX_EVENTS	32

/* Flag of perfmon_open(): also counts the threads and processes that are created afterwards. */
#define PERFMON_INHERIT		0x1

/* Events that count together. */
struct perfmon_counters;

/*
 * Opens the events of a list, as in "instructions:u,branches:u", for the calling thread on
 * all CPUs: stopped, at 0.
 */
struct perfmon_counters *perfmon_open(const char *events, unsigned int flags);

/* Closes the events and frees the memory. NULL is allowed. */
void perfmon_close(struct perfmon_counters *counters);

/* Starts counting. The counts continue from their values. */
int perfmon_start(struct perfmon_counters *counters);

/* Stops counting. The counts are kept. */
int perfmon_stop(struct perfmon_counters *counters);

/* Sets the counts to 0. Fails as perfmon_read() does if events were missed. */
int perfmon_reset(struct perfmon_counters *counters);

/*
 * Writes the counts, read at one moment, in the order of the list. Fails with EIO if events were
 * missed, or if the thread ran on a core of a hybrid processor that lacks an event.
 */
int perfmon_read(struct perfmon_counters *counters, uint64_t *counts);

/*
 * Writes the number of tasks that are no longer counted, because they executed a program with more
 * rights (setuid, setgid, file capabilities) or an unreadable program. The counts lack the work of
 * these tasks from then on.
 */
int perfmon_tasks_not_followed(struct perfmon_counters *counters, uint64_t *tasks);

/* Returns the number of events. */
unsigned int perfmon_size(const struct perfmon_counters *counters);

/* Returns the name of event number @event as it was given; NULL if there are not so many events. */
const char *perfmon_name(const struct perfmon_counters *counters, unsigned int event);

/*
 * Returns the count of an event between a start and a stop with nothing in between. The actual
 * overhead can differ by an instruction or two, depending on how the program calls the two
 * functions.
 */
uint64_t perfmon_overhead(const struct perfmon_counters *counters, unsigned int event);

/*
 * Returns the page of an event for perfmon_rdpmc(), which is valid until perfmon_close(). Only the
 * thread that opened the event gets it, and only without PERFMON_INHERIT. A child of fork(2) does
 * not inherit the mapping.
 */
const struct perf_event_mmap_page *perfmon_page(struct perfmon_counters *counters, unsigned int event);

/* Returns the message of the calling thread's last failed call, with advice; never NULL. */
const char *perfmon_error(void);

/*
 * Markers.
 */

/* The largest number of events that markers count. */
#define PERFMON_MARKED		4

/* The sums of a region over all its passes, in all threads. */
struct perfmon_total {
	const char *name;
	/* Number of passes that were counted. */
	uint64_t passes;
	/* Number of passes that could not be counted; perfmon_failure() says why. */
	uint64_t failed;
	/* The number of events, and the count of each. */
	unsigned int events;
	uint64_t counts[PERFMON_MARKED];
};

/*
 * Chooses the events of the markers; call it before the first marker. By default the environment
 * variable PERFMON_EVENTS names the events, or the event is instructions:u.
 */
int perfmon_mark_events(const char *events);

/* Fills up to @n totals, in the order of the first passes; returns the number of all regions. */
size_t perfmon_totals(struct perfmon_total *totals, size_t n);

/* Prints a table of the totals. */
int perfmon_report(FILE *out);

/*
 * Writes the counts of the last pass that ended in the calling thread; returns the number of
 * counts, from 1 to PERFMON_MARKED.
 */
int perfmon_last(uint64_t *counts);

/*
 * Returns the name of event number @event of the calling thread's markers; NULL if there are not so
 * many events.
 */
const char *perfmon_marked(unsigned int event);

/* Returns the first reason why a pass could not be counted; NULL if all were counted. */
const char *perfmon_failure(void);

/* For the macros: the parts of the markers between their two readings. */
void perfmon_enter(const char *name);
void perfmon_leave(const char *name);

/* For the macros: one reading of all events of the calling thread's markers. */
struct perfmon_reading {
	uint64_t count[PERFMON_MARKED];
	/*
	 * Number of repeated readings of pages, from the first event that is read up to this event.
	 */
	uint64_t retries[PERFMON_MARKED];
	/* Number of repeated readings of all events. */
	uint64_t all_retries;
	/* The time in ns in which the first event was enabled and had no counter; the events are a group. */
	uint64_t uncounted;
	/* Not 0 if an event had no counter. */
	uint64_t failed;
};

/* For the macros: the pages that the markers of a thread read, and their last readings. */
struct perfmon_marks {
	/* Number of events; 0 as long as the thread has none. */
	uint64_t events;
	const struct perf_event_mmap_page *page[PERFMON_MARKED];
	struct perfmon_reading arrival;
	struct perfmon_reading departure;
};

extern __thread struct perfmon_marks perfmon_marks __attribute__((tls_model("initial-exec")));

/*
 * Reads all events of the markers into a member of perfmon_marks, the last event first. The macro
 * is one piece of assembly, so that the number of instructions before its first RDPMC and after its
 * last RDPMC does not depend on the caller and the compiler; the library subtracts these
 * instructions. If the kernel has changed a page meanwhile (seqlock, <linux/perf_event.h>), the
 * event is read again, which takes 20 instructions, 4 of them branches (PERFMON_RETRY_*).
 *
 * Offsets in the page: 8 lock, 12 index, 16 offset, 24 time_enabled, 32 time_running,
 * 40 capabilities (bit 2 is cap_user_rdpmc), 48 pmc_width.
 */
#define PERFMON_READ_MARKS_(member) (__extension__ ({				\
	__asm__ volatile(							\
		"	movq	perfmon_marks@gottpoff(%%rip), %%rsi\n"		\
		"	addq	%%fs:0, %%rsi\n"				\
		"	movq	(%%rsi), %%r8\n"				\
		"	xorl	%%r11d, %%r11d\n"				\
		"	testq	%%r8, %%r8\n"					\
		"	jz	5f\n"						\
		"1:	movq	%c[pages]-8(%%rsi,%%r8,8), %%r9\n"		\
		"2:	movl	8(%%r9), %%r10d\n"				\
		"	movl	12(%%r9), %%ecx\n"				\
		"	movq	24(%%r9), %%rdi\n"				\
		"	subq	32(%%r9), %%rdi\n"				\
		"	testb	$4, 40(%%r9)\n"					\
		"	jz	4f\n"						\
		"	subl	$1, %%ecx\n"					\
		"	jc	4f\n"						\
		"	rdpmc\n"						\
		"	shlq	$32, %%rdx\n"					\
		"	orq	%%rdx, %%rax\n"					\
		"	movzwl	48(%%r9), %%ecx\n"				\
		"	negl	%%ecx\n"					\
		"	shlq	%%cl, %%rax\n"					\
		"	sarq	%%cl, %%rax\n"					\
		"	addq	16(%%r9), %%rax\n"				\
		"	cmpl	%%r10d, 8(%%r9)\n"				\
		"	jne	3f\n"						\
		"	movq	%%rax, %c[counts]-8(%%rsi,%%r8,8)\n"		\
		"	movq	%%r11, %c[retries]-8(%%rsi,%%r8,8)\n"		\
		"	decq	%%r8\n"						\
		"	jnz	1b\n"						\
		"	jmp	5f\n"						\
		"3:	incl	%%r11d\n"					\
		"	jmp	2b\n"						\
		"4:	movl	$1, %%r8d\n"					\
		"5:	movq	%%r11, %c[all](%%rsi)\n"			\
		"	movq	%%rdi, %c[uncounted](%%rsi)\n"			\
		"	movq	%%r8, %c[failed](%%rsi)\n"			\
		: : [pages] "i" (offsetof(struct perfmon_marks, page)),		\
		    [counts] "i" (offsetof(struct perfmon_marks, member.count)),	\
		    [retries] "i" (offsetof(struct perfmon_marks, member.retries)), \
		    [all] "i" (offsetof(struct perfmon_marks, member.all_retries)), \
		    [uncounted] "i" (offsetof(struct perfmon_marks, member.uncounted)), \
		    [failed] "i" (offsetof(struct perfmon_marks, member.failed))	\
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",	\
		  "cc", "memory");						\
}))

/* The numbers of instructions and of branches from label 2 to 3 and back. */
#define PERFMON_RETRY_INSNS	20
#define PERFMON_RETRY_BRANCHES	4

/*
 * Begins a pass of the region @name, any string. Regions may nest and overlap; the instructions of
 * the markers belong to no region. The macro is a statement expression, because in code that is not
 * optimized the end of a `do` loop may be a jump, which would be counted.
 */
#define PERFMON_BEGIN(name) (__extension__ ({					\
	PERFMON_READ_MARKS_(arrival);						\
	perfmon_enter(name);							\
	PERFMON_READ_MARKS_(departure);						\
}))

/* Ends the pass of the region @name that the same thread began last. */
#define PERFMON_END(name) (__extension__ ({					\
	PERFMON_READ_MARKS_(arrival);						\
	perfmon_leave(name);							\
	PERFMON_READ_MARKS_(departure);						\
}))

/*
 * Reads the count of an event, without the times, in about 25 instructions and without a system
 * call. Returns 0, or -1 if the event has no counter now (for example because it is stopped), or if
 * programs may not use RDPMC. Then use perfmon_read(). Does not change errno.
 */
static inline int perfmon_rdpmc(const struct perf_event_mmap_page *page, uint64_t *count)
{
	uint32_t lock, index, low, high;
	uint64_t offset;
	int unused;

	do {
		lock = __atomic_load_n(&page->lock, __ATOMIC_RELAXED);
		/* The kernel writes the page on the CPU where this thread runs: a compiler barrier is enough. */
		__asm__ volatile("" : : : "memory");
		index = __atomic_load_n(&page->index, __ATOMIC_RELAXED);
		offset = (uint64_t)__atomic_load_n(&page->offset, __ATOMIC_RELAXED);
		/* Bit 2 is cap_user_rdpmc. */
		if (!index || !(__atomic_load_n(&page->capabilities, __ATOMIC_RELAXED) & 4))
			return -1;
		unused = 64 - __atomic_load_n(&page->pmc_width, __ATOMIC_RELAXED);
		__asm__ volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1) : "memory");
	} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != lock);
	*count = offset + (uint64_t)((int64_t)(((uint64_t)high << 32 | low) << unused) >> unused);
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
