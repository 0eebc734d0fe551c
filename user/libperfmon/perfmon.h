/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libperfmon: exact counts of a program's own code, through /dev/perfmon.
 *
 * Counters are opened by the names of their events, started, stopped and read; markers
 * count what is between two points of the program, without a system call. The functions
 * are in section 3 of the manual: perfmon_open, perfmon_rdpmc, perfmon_begin,
 * perfmon_error. A function that fails returns -1 or NULL, sets errno, and perfmon_error()
 * says what happened and what to do. All may be called by several threads at once; none
 * but perfmon_rdpmc() by a signal handler.
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

/* The events that one perfmon_open() takes at most. */
#define PERFMON_MAX_EVENTS	32

/* Flags of perfmon_open(): count also the threads and processes created from then on. */
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

/* Counts from now on; the counts go on from where they are. */
int perfmon_start(struct perfmon_counters *counters);

/* Counts no more; the counts stay. */
int perfmon_stop(struct perfmon_counters *counters);

/* Sets the counts to 0. */
int perfmon_reset(struct perfmon_counters *counters);

/* Writes the counts, of one moment, in the order of the list. */
int perfmon_read(struct perfmon_counters *counters, uint64_t *counts);

/* Returns the number of events. */
unsigned int perfmon_size(const struct perfmon_counters *counters);

/* Returns the name of an event, as it was given; NULL if there are fewer. */
const char *perfmon_name(const struct perfmon_counters *counters, unsigned int event);

/*
 * Returns what an empty start and stop counts of an event: the ends of the two calls, give or
 * take an instruction or two of the way in which the program calls them.
 */
uint64_t perfmon_overhead(const struct perfmon_counters *counters, unsigned int event);

/*
 * Returns the page of an event for perfmon_rdpmc(), until perfmon_close(). It is for the thread
 * that opened the event, and not with PERFMON_INHERIT. A child of fork(2) does not have it.
 */
const struct perf_event_mmap_page *perfmon_page(struct perfmon_counters *counters, unsigned int event);

/* Returns why the calling thread's last call failed, and what to do; never NULL. */
const char *perfmon_error(void);

/*
 * Markers.
 */

/* The events that markers count at most. */
#define PERFMON_MARKED		4

/* The sums of a region over all its passes, in all threads. */
struct perfmon_total {
	const char *name;
	/* How often it was passed and counted. */
	uint64_t passes;
	/* Passes that could not be counted; perfmon_failure() says why. */
	uint64_t failed;
	/* The number of events, and what was counted of each. */
	unsigned int events;
	uint64_t counts[PERFMON_MARKED];
};

/*
 * Chooses the events of the markers, before the first of them. Without it they are those of the
 * environment variable PERFMON_EVENTS, or instructions:u.
 */
int perfmon_mark_events(const char *events);

/* Fills up to @n totals, in the order of the first passes; returns how many regions there are. */
size_t perfmon_totals(struct perfmon_total *totals, size_t n);

/* Prints a table of the totals. */
int perfmon_report(FILE *out);

/*
 * Writes the counts of the last pass that ended in the calling thread; returns how many there
 * are, 1 to PERFMON_MARKED.
 */
int perfmon_last(uint64_t *counts);

/* Returns the name of an event of the calling thread's markers; NULL if there are fewer. */
const char *perfmon_marked(unsigned int event);

/* Returns why passes could not be counted: the first reason; NULL if there is none. */
const char *perfmon_failure(void);

/* For the macros: the part of a marker that is a function. */
void perfmon_enter(const char *name);
void perfmon_leave(const char *name);

/* For the macros: one reading of all events of the calling thread's markers. */
struct perfmon_reading {
	uint64_t count[PERFMON_MARKED];
	/* How often something was read again, up to and with this event. */
	uint64_t retries[PERFMON_MARKED];
	/* The same of all events. */
	uint64_t all_retries;
	/* An event was on no counter. */
	uint64_t failed;
};

/* For the macros: what the markers of a thread read, and where to. */
struct perfmon_marks {
	/* 0 as long as the thread has no events. */
	uint64_t events;
	const struct perf_event_mmap_page *page[PERFMON_MARKED];
	struct perfmon_reading arrival;
	struct perfmon_reading departure;
};

extern __thread struct perfmon_marks perfmon_marks __attribute__((tls_model("initial-exec")));

/*
 * Reads all events of the markers, the last one first, into a member of perfmon_marks. It is
 * one piece of assembly, so that the number of instructions before its first RDPMC and behind
 * its last one is the same wherever it stands and however the program is compiled: the library
 * takes them off. Where the kernel has changed a page meanwhile (seqlock, <linux/perf_event.h>),
 * an event is read again: 19 instructions, 4 of them branches (PERFMON_RETRY_*).
 *
 * In the page: 8 lock, 12 index, 16 offset, 40 capabilities with cap_user_rdpmc as bit 2,
 * 48 pmc_width.
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
		"	movq	16(%%r9), %%rdi\n"				\
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
		"	addq	%%rdi, %%rax\n"					\
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
		"	movq	%%r8, %c[failed](%%rsi)\n"			\
		: : [pages] "i" (offsetof(struct perfmon_marks, page)),		\
		    [counts] "i" (offsetof(struct perfmon_marks, member.count)),	\
		    [retries] "i" (offsetof(struct perfmon_marks, member.retries)), \
		    [all] "i" (offsetof(struct perfmon_marks, member.all_retries)), \
		    [failed] "i" (offsetof(struct perfmon_marks, member.failed))	\
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",	\
		  "cc", "memory");						\
}))

/* The instructions and the branches from label 2 to 3 and back. */
#define PERFMON_RETRY_INSNS	19
#define PERFMON_RETRY_BRANCHES	4

/*
 * Begins a pass of the region @name, any string. Regions may be in each other, and overlap; what
 * the markers execute belongs to none. No `do`: without optimization its end may be a jump.
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
 * Reads an event without a system call, in some 25 instructions. Returns 0, or -1 where the event
 * is on no counter, as one that is stopped, or programs may not use RDPMC: perfmon_read() has
 * the count then. errno is left alone.
 */
static inline int perfmon_rdpmc(const struct perf_event_mmap_page *page, uint64_t *count)
{
	uint32_t lock, index, low, high;
	uint64_t offset;
	int unused;

	do {
		lock = __atomic_load_n(&page->lock, __ATOMIC_RELAXED);
		/* The kernel writes on the CPU where this thread runs: a compiler's barrier is enough. */
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
