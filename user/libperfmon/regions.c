// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Markers: counts between two points of a program, summed up over all passes.
 *
 * A marker reads the counters when it begins (the arrival) and when it ends (the departure). From a
 * departure to the next arrival the program itself runs: this is a stretch. The count of a stretch
 * includes a fixed number of instructions of the two readings. This number is measured in an empty
 * stretch, and subtracted. Each thread adds its stretches to a clock, so the clock does not advance
 * in markers. The count of a pass is the difference of two values of the clock, whatever markers
 * lie between them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The largest number of passes that a thread may have begun at once. */
#define MAX_DEPTH	64

/* Number of empty stretches that are measured. The smallest of their counts is the overhead. */
#define EMPTY_STRETCHES		8

EXPORT __thread struct perfmon_marks perfmon_marks;

/* A region, which is never removed from the list. */
struct region {
	struct region *next;
	char *name;
	uint64_t passes;
	uint64_t failed;
	uint64_t counts[PERFMON_MARKED];
};

/* A pass that has begun. */
struct pass {
	struct region *region;
	/* The clock when the pass began. */
	uint64_t begin[PERFMON_MARKED];
	/* The meter's `gaps` when the pass began. */
	uint64_t gaps;
};

/* The state of a thread's markers, from its first marker on. */
struct meter {
	struct perfmon_counters *counters;
	/* The sum of the stretches, for each event. */
	uint64_t clock[PERFMON_MARKED];
	/* Number of stretches that could not be counted. */
	uint64_t gaps;
	/* There has been a departure, so the next arrival ends a stretch. */
	bool has_departed;
	/* The count of each event in an empty stretch. */
	uint64_t overhead[PERFMON_MARKED];
	/* The count of each event in a repeated reading of its page. */
	uint64_t retry_cost[PERFMON_MARKED];
	/* Number of passes that have begun. */
	unsigned int depth;
	struct pass passes[MAX_DEPTH];
	/* `last` holds the counts of the pass that ended last. */
	bool has_last;
	uint64_t last[PERFMON_MARKED];
};

static __thread struct meter *meter;
/* The thread's events could not be opened; no further attempt is made. */
static __thread bool has_no_meter;

/* The list of the regions, and the link at its end; a thread that appends holds the mutex. */
static struct region *first_region, **last_region = &first_region;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *chosen_events;
/* A marker has read `chosen_events`, so they can't be changed any more. */
static bool events_are_fixed;
/* Number of events of markers; 0 until a thread has opened them. */
static unsigned int marked_events;
/* The first reason why a pass could not be counted. */
static char *failure;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t meter_key;
/* Without a key (a process has 1024) threads can't have markers, because nothing would close their events. */
static bool has_key;

static void free_meter(void *thread_meter)
{
	struct meter *m = thread_meter;

	perfmon_marks.events = 0;
	meter = NULL;
	perfmon_close(m->counters);
	free(m);
}

/* Resets the state in a child of fork(2), which has one thread, no mapped pages, and no counts. */
static void reset_child(void)
{
	struct region *r;

	for (r = first_region; r; r = r->next) {
		r->passes = r->failed = 0;
		memset(r->counts, 0, sizeof(r->counts));
	}
	failure = NULL;
	if (meter) {
		pthread_setspecific(meter_key, NULL);
		free_meter(meter);
	}
	has_no_meter = false;
}

static void prepare_process(void);

/* Makes fork(2) wait while another thread changes the list, so that the child has a consistent list. */
static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_regions(void)
{
	pthread_once(&once, prepare_process);
	pthread_mutex_lock(&lock);
}

static void unlock_regions(void)
{
	pthread_mutex_unlock(&lock);
}

static void unlock_regions_in_child(void)
{
	unlock_regions();
	reset_child();
}

static void prepare_process(void)
{
	has_key = !pthread_key_create(&meter_key, free_meter);
	pthread_atfork(lock_for_fork, unlock_regions, unlock_regions_in_child);
}

static void note_failure(const char *why)
{
	lock_regions();
	if (!failure)
		failure = strdup(why);
	unlock_regions();
}

EXPORT const char *perfmon_failure(void)
{
	const char *why;

	lock_regions();
	why = failure;
	unlock_regions();
	return why;
}

static struct region *find_region(const char *name)
{
	struct region *r = __atomic_load_n(&first_region, __ATOMIC_ACQUIRE);

	while (r && strcmp(r->name, name))
		r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE);
	return r;
}

/* Finds or creates a region; returns NULL without memory. */
static struct region *find_or_create_region(const char *name)
{
	struct region *r = find_region(name);

	if (r)
		return r;
	lock_regions();
	r = find_region(name);
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (r)
			r->name = strdup(name);
		if (r && !r->name) {
			free(r);
			r = NULL;
		}
		if (r) {
			__atomic_store_n(last_region, r, __ATOMIC_RELEASE);
			last_region = &r->next;
		}
	}
	unlock_regions();
	return r;
}

EXPORT int perfmon_mark_events(const char *events)
{
	struct event parsed[PERFMON_MARKED];
	char *copy;
	int result = 0;

	if (events_parse(events, parsed, PERFMON_MARKED) < 0)
		return -1;
	copy = strdup(events);
	if (!copy)
		return fail_at(TO_OPEN_EVENT, ENOMEM, events, -1);
	lock_regions();
	if (events_are_fixed) {
		result = fail_with(EBUSY, "can't choose the events of markers: a marker was executed already. Call %s() before the first one.",
				   __func__);
	} else {
		free(chosen_events);
		chosen_events = copy;
		copy = NULL;
	}
	unlock_regions();
	free(copy);
	return result;
}

/* Returns the events of markers, and fixes them: perfmon_mark_events() fails from now on. */
static const char *fix_events(void)
{
	const char *events, *environment = secure_getenv("PERFMON_EVENTS");

	lock_regions();
	events_are_fixed = true;
	if (!chosen_events)
		chosen_events = strdup(environment && *environment ? environment : "instructions:u");
	events = chosen_events;
	unlock_regions();
	return events;
}

/*
 * Returns the count of an event in a repeated reading of its page. For events other than instructions
 * and branches this count is unknown and small, and 0 is returned.
 */
static uint64_t retry_cost_of(const struct event *event)
{
	if (event->type != PERF_TYPE_HARDWARE || !event->user)
		return 0;
	switch (event->config) {
	case PERF_COUNT_HW_INSTRUCTIONS:
		return PERFMON_RETRY_INSNS;
	case PERF_COUNT_HW_BRANCH_INSTRUCTIONS:
		return PERFMON_RETRY_BRANCHES;
	default:
		return 0;
	}
}

/* Returns the count of an event from the departure to the arrival, without the repeated readings. */
static uint64_t stretch_count(const struct meter *m, unsigned int i)
{
	const struct perfmon_reading *from = &perfmon_marks.departure, *to = &perfmon_marks.arrival;
	/*
	 * A stretch contains the repeated readings after the event's own reading at the departure,
	 * and before the event's own reading at the arrival.
	 */
	uint64_t retries = from->all_retries - from->retries[i] + to->retries[i];

	return to->count[i] - from->count[i] - retries * m->retry_cost[i];
}

/* Measures the count of each event in an empty stretch. */
static int measure_overhead(struct meter *m)
{
	unsigned int i, stretch;
	uint64_t overhead;

	for (stretch = 0; stretch < EMPTY_STRETCHES; stretch++) {
		PERFMON_READ_MARKS_(departure);
		PERFMON_READ_MARKS_(arrival);
		if (perfmon_marks.departure.failed || perfmon_marks.arrival.failed)
			return fail_with(EOPNOTSUPP,
					 "can't read %s without a system call: programs may not use RDPMC here",
					 m->counters->event[0].name);
		for (i = 0; i < m->counters->size; i++) {
			overhead = stretch_count(m, i);
			if (!stretch || overhead < m->overhead[i])
				m->overhead[i] = overhead;
		}
	}
	return 0;
}

static int open_meter(struct meter *m)
{
	const char *events = fix_events();
	unsigned int i;

	if (!events)
		return fail_with(ENOMEM, "can't count: there is no memory for the names of the events");
	m->counters = perfmon_open(events, 0);
	if (!m->counters)
		return -1;
	if (m->counters->size > PERFMON_MARKED)
		return fail_with(EINVAL, "can't count `%s`: markers have %d events at most", events, PERFMON_MARKED);
	for (i = 0; i < m->counters->size; i++) {
		m->retry_cost[i] = retry_cost_of(&m->counters->event[i]);
		perfmon_marks.page[i] = perfmon_page(m->counters, i);
		if (!perfmon_marks.page[i])
			return -1;
	}
	if (perfmon_start(m->counters))
		return -1;
	perfmon_marks.events = m->counters->size;
	__atomic_store_n(&marked_events, m->counters->size, __ATOMIC_RELAXED);
	return measure_overhead(m);
}

/* Returns the thread's meter, which its first marker creates; NULL if the thread can't count. */
static struct meter *meter_of_thread(void)
{
	struct meter *m = meter;

	if (m || has_no_meter)
		return m;
	pthread_once(&once, prepare_process);
	m = calloc(1, sizeof(*m));
	if (m && has_key && !open_meter(m) && !pthread_setspecific(meter_key, m)) {
		meter = m;
		return m;
	}
	has_no_meter = true;
	perfmon_marks.events = 0;
	note_failure(m && has_key ? perfmon_error() : "there is no memory for the markers of a thread");
	if (m) {
		perfmon_close(m->counters);
		free(m);
	}
	return NULL;
}

/*
 * Returns why the stretch that ends with the arrival was not counted, or a part of it; NULL if it was
 * counted. Both readings have a counter also if the thread ran on a core without the event between
 * them. The difference of the page's times grows only then.
 */
static const char *gap_in_stretch(void)
{
	const struct perfmon_reading *from = &perfmon_marks.departure, *to = &perfmon_marks.arrival;

	if (from->failed || to->failed)
		return "an event had no counter for a while, so a part of the pass was not counted";
	if (from->uncounted != to->uncounted)
		return "the thread ran on a core that lacks an event, so a part of the pass was not counted. " ONE_KIND_OF_CORE;
	return NULL;
}

/* Adds the stretch that ends with the arrival to the clock. */
static void advance_clock(struct meter *m)
{
	const char *gap = m->has_departed ? gap_in_stretch() : NULL;
	unsigned int i;

	if (gap) {
		m->gaps++;
		note_failure(gap);
	} else if (m->has_departed) {
		for (i = 0; i < m->counters->size; i++)
			m->clock[i] += stretch_count(m, i) - m->overhead[i];
	}
	m->has_departed = true;
}

static void count_failed_pass(struct region *region)
{
	if (region)
		__atomic_fetch_add(&region->failed, 1, __ATOMIC_RELAXED);
}

/*
 * Makes all begun passes of a region fail, after a further pass could not be begun: the end of that
 * pass can't be distinguished from the ends of the others.
 */
static void fail_passes(struct meter *m, const struct region *region)
{
	unsigned int i;

	for (i = 0; region && i < m->depth; i++)
		if (m->passes[i].region == region)
			m->passes[i].gaps = UINT64_MAX;
}

EXPORT void perfmon_enter(const char *name)
{
	int error = errno;
	struct meter *m = meter_of_thread();
	struct region *region = find_or_create_region(name);

	if (m) {
		advance_clock(m);
		if (region && m->depth < MAX_DEPTH) {
			struct pass *pass = &m->passes[m->depth++];

			pass->region = region;
			pass->gaps = m->gaps;
			memcpy(pass->begin, m->clock, sizeof(pass->begin));
		} else {
			/*
			 * Each end counts a failed pass: the ends of the begun passes, and the end
			 * of the pass that was not begun.
			 */
			fail_passes(m, region);
			note_failure("a thread has begun too many regions at once");
		}
	}
	errno = error;
}

/* Removes the begun pass of this name that began last, and writes it to @pass; returns false if there is none. */
static bool take_pass(struct meter *m, const char *name, struct pass *pass)
{
	unsigned int i = m->depth;

	while (i && strcmp(m->passes[i - 1].region->name, name))
		i--;
	if (!i)
		return false;
	*pass = m->passes[i - 1];
	memmove(&m->passes[i - 1], &m->passes[i], (m->depth - i) * sizeof(*pass));
	m->depth--;
	return true;
}

static void end_pass(struct meter *m, const struct pass *pass)
{
	unsigned int i;

	m->has_last = pass->gaps == m->gaps;
	if (!m->has_last) {
		count_failed_pass(pass->region);
		return;
	}
	for (i = 0; i < m->counters->size; i++) {
		int64_t counted = (int64_t)(m->clock[i] - pass->begin[i]);

		/* The overhead of events like cycles varies, so an empty pass may count less than the overhead. */
		m->last[i] = counted > 0 ? counted : 0;
		__atomic_fetch_add(&pass->region->counts[i], m->last[i], __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&pass->region->passes, 1, __ATOMIC_RELAXED);
}

EXPORT void perfmon_leave(const char *name)
{
	int error = errno;
	struct meter *m = meter;
	struct pass pass;

	if (m)
		advance_clock(m);
	if (m && take_pass(m, name, &pass)) {
		end_pass(m, &pass);
	} else {
		if (m)
			m->has_last = false;
		count_failed_pass(find_or_create_region(name));
		note_failure("a region ended that the thread had not begun, or that was begun before fork()");
	}
	errno = error;
}

EXPORT const char *perfmon_marked(unsigned int event)
{
	return meter && event < meter->counters->size ? perfmon_name(meter->counters, event) : NULL;
}

EXPORT int perfmon_last(uint64_t *counts)
{
	if (!meter || !meter->has_last)
		return fail_with(ENODATA, "no pass was counted: %s",
				 perfmon_failure() ? perfmon_failure() : "none has ended in this thread");
	memcpy(counts, meter->last, meter->counters->size * sizeof(counts[0]));
	return meter->counters->size;
}

EXPORT size_t perfmon_totals(struct perfmon_total *totals, size_t n)
{
	struct region *r = __atomic_load_n(&first_region, __ATOMIC_ACQUIRE);
	unsigned int events = __atomic_load_n(&marked_events, __ATOMIC_RELAXED), i;
	size_t number = 0;

	for (; r; r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE), number++) {
		if (number >= n)
			continue;
		totals[number].name = r->name;
		totals[number].passes = __atomic_load_n(&r->passes, __ATOMIC_RELAXED);
		totals[number].failed = __atomic_load_n(&r->failed, __ATOMIC_RELAXED);
		totals[number].events = events;
		for (i = 0; i < events; i++)
			totals[number].counts[i] = __atomic_load_n(&r->counts[i], __ATOMIC_RELAXED);
	}
	return number;
}

/* Prints a line for each event of a region, and a line for the passes that were not counted. */
static void report_region(FILE *out, const struct perfmon_total *total, const struct event *events)
{
	unsigned int i;

	for (i = 0; total->passes && i < total->events; i++)
		fprintf(out, "%-20s  %10llu  %-24s  %16llu  %14.1f\n", total->name, (unsigned long long)total->passes,
			events[i].name, (unsigned long long)total->counts[i],
			(double)total->counts[i] / (double)total->passes);
	if (total->failed)
		fprintf(out, "%-20s  %10llu  not counted\n", total->name, (unsigned long long)total->failed);
}

EXPORT int perfmon_report(FILE *out)
{
	size_t n = perfmon_totals(NULL, 0), i;
	struct perfmon_total *totals = calloc(n + 1, sizeof(*totals));
	struct event events[PERFMON_MARKED];
	const char *why = perfmon_failure(), *names = NULL;

	if (!totals)
		return fail_with(ENOMEM, "can't print the totals: there is no memory for them");
	/* Regions that are created between the two calls are left out. */
	perfmon_totals(totals, n);
	if (n)
		names = fix_events();
	if (names)
		events_parse(names, events, PERFMON_MARKED);
	fprintf(out, "%-20s  %10s  %-24s  %16s  %14s\n", "region", "passes", "event", "count", "each pass");
	for (i = 0; i < n; i++)
		report_region(out, &totals[i], events);
	if (why)
		fprintf(out, "not counted: %s\n", why);
	free(totals);
	return ferror(out) ? fail_with(EIO, "can't print the totals") : 0;
}
