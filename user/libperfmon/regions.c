// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Markers: counts between two points of a program, summed up over all passes.
 *
 * A marker reads the counters when it begins (the arrival) and when it ends (the departure).
 * Between a departure and the next arrival the program itself runs, and a fixed number of
 * instructions of the two readings, which an empty stretch has measured. So each thread has a
 * clock of events that stands still in markers; a pass is what the clock has gone meanwhile,
 * whatever markers there were in between.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The regions that a thread may have begun at once. */
#define DEPTH		64

/* Empty stretches of which the shortest is taken. */
#define TRIES		8

EXPORT __thread struct perfmon_marks perfmon_marks;

/* A region; it stays in the list for ever. */
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
	/* The clock at its beginning. */
	uint64_t begin[PERFMON_MARKED];
	/* The clock's breaks until then. */
	uint64_t breaks;
};

/* What a thread has, from its first marker on. */
struct meter {
	struct perfmon_counters *counters;
	uint64_t clock[PERFMON_MARKED];
	/* How often the clock missed something. */
	uint64_t breaks;
	/* There is a departure that the next arrival follows. */
	bool departed;
	/* What an empty stretch counts, and one more reading of an event's page. */
	uint64_t own[PERFMON_MARKED];
	uint64_t retry[PERFMON_MARKED];
	unsigned int depth;
	struct pass passes[DEPTH];
	bool has_last;
	uint64_t last[PERFMON_MARKED];
};

static __thread struct meter *meter;
/* The thread's events can't be opened: it is not tried again. */
static __thread bool is_refused;

/* The list of the regions, and its end; a thread that appends holds the mutex. */
static struct region *first_region, **last_region = &first_region;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *chosen_events;
static bool have_begun;
/* The number of events of markers; 0 until a thread has opened them. */
static unsigned int marked;
static char *failure;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t ends_with_thread;
/* Without a key, of which there are 1024, threads can't have markers: nothing would close their events. */
static bool has_key;

static void free_meter(void *of_thread)
{
	struct meter *m = of_thread;

	perfmon_marks.events = 0;
	meter = NULL;
	perfmon_close(m->counters);
	free(m);
}

/* A child of fork(2) has neither the pages nor counts of its own: it begins anew. It has one thread. */
static void begin_anew(void)
{
	struct region *r;

	for (r = first_region; r; r = r->next) {
		r->passes = r->failed = 0;
		memset(r->counts, 0, sizeof(r->counts));
	}
	failure = NULL;
	if (meter) {
		pthread_setspecific(ends_with_thread, NULL);
		free_meter(meter);
	}
	is_refused = false;
}

static void prepare_process(void);

/* A fork(2) meanwhile waits: the child has the list as a whole. */
static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_list(void)
{
	pthread_once(&once, prepare_process);
	pthread_mutex_lock(&lock);
}

static void unlock_list(void)
{
	pthread_mutex_unlock(&lock);
}

static void unlock_list_of_child(void)
{
	unlock_list();
	begin_anew();
}

static void prepare_process(void)
{
	has_key = !pthread_key_create(&ends_with_thread, free_meter);
	pthread_atfork(lock_for_fork, unlock_list, unlock_list_of_child);
}

static void note_failure(const char *why)
{
	lock_list();
	if (!failure)
		failure = strdup(why);
	unlock_list();
}

EXPORT const char *perfmon_failure(void)
{
	const char *why;

	lock_list();
	why = failure;
	unlock_list();
	return why;
}

static struct region *find_region(const char *name)
{
	struct region *r = __atomic_load_n(&first_region, __ATOMIC_ACQUIRE);

	while (r && strcmp(r->name, name))
		r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE);
	return r;
}

/* Finds or makes a region; NULL without memory. */
static struct region *region_of(const char *name)
{
	struct region *r = find_region(name);

	if (r)
		return r;
	lock_list();
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
	unlock_list();
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
	lock_list();
	if (have_begun) {
		result = fail_with(EBUSY, "can't choose the events of markers: there was a marker already");
	} else {
		free(chosen_events);
		chosen_events = copy;
		copy = NULL;
	}
	unlock_list();
	free(copy);
	return result;
}

/* Returns the events of markers, which nothing changes any more. */
static const char *events_of_markers(void)
{
	const char *events, *environment = secure_getenv("PERFMON_EVENTS");

	lock_list();
	have_begun = true;
	if (!chosen_events)
		chosen_events = strdup(environment && *environment ? environment : "instructions:u");
	events = chosen_events;
	unlock_list();
	return events;
}

/* What reading an event's page once more adds to its count; unknown of other events, and small. */
static uint64_t retry_of(const struct event *event)
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

/* Returns what an event has counted from the departure to the arrival, without what was read again. */
static uint64_t stretch_of(const struct meter *m, unsigned int i)
{
	const struct perfmon_reading *from = &perfmon_marks.departure, *to = &perfmon_marks.arrival;
	/* The last event is read first: those before it see its retries at the departure. */
	uint64_t retries = from->all_retries - from->retries[i] + to->retries[i];

	return to->count[i] - from->count[i] - retries * m->retry[i];
}

/* Measures what an empty stretch counts. */
static int measure_own(struct meter *m)
{
	unsigned int i, try;
	uint64_t own;

	for (try = 0; try < TRIES; try++) {
		PERFMON_READ_MARKS_(departure);
		PERFMON_READ_MARKS_(arrival);
		if (perfmon_marks.departure.failed || perfmon_marks.arrival.failed)
			return fail_with(EOPNOTSUPP,
					 "can't read %s without a system call: programs may not use RDPMC here",
					 m->counters->event[0].name);
		for (i = 0; i < m->counters->size; i++) {
			own = stretch_of(m, i);
			if (!try || own < m->own[i])
				m->own[i] = own;
		}
	}
	return 0;
}

static int open_meter(struct meter *m)
{
	const char *events = events_of_markers();
	unsigned int i;

	if (!events)
		return fail_with(ENOMEM, "can't count: there is no memory for the names of the events");
	m->counters = perfmon_open(events, 0);
	if (!m->counters)
		return -1;
	if (m->counters->size > PERFMON_MARKED)
		return fail_with(EINVAL, "can't count `%s`: markers have %d events at most", events, PERFMON_MARKED);
	for (i = 0; i < m->counters->size; i++) {
		m->retry[i] = retry_of(&m->counters->event[i]);
		perfmon_marks.page[i] = perfmon_page(m->counters, i);
		if (!perfmon_marks.page[i])
			return -1;
	}
	if (perfmon_start(m->counters))
		return -1;
	perfmon_marks.events = m->counters->size;
	__atomic_store_n(&marked, m->counters->size, __ATOMIC_RELAXED);
	return measure_own(m);
}

/* Returns the thread's meter, which its first marker makes; NULL if it can't count. */
static struct meter *meter_of_thread(void)
{
	struct meter *m = meter;

	if (m || is_refused)
		return m;
	pthread_once(&once, prepare_process);
	m = calloc(1, sizeof(*m));
	if (m && has_key && !open_meter(m) && !pthread_setspecific(ends_with_thread, m)) {
		meter = m;
		return m;
	}
	is_refused = true;
	perfmon_marks.events = 0;
	note_failure(m && has_key ? perfmon_error() : "there is no memory for a thread's markers");
	if (m) {
		perfmon_close(m->counters);
		free(m);
	}
	return NULL;
}

/* Sets the clock to the arrival. */
static void advance(struct meter *m)
{
	unsigned int i;

	if (m->departed && (perfmon_marks.departure.failed || perfmon_marks.arrival.failed)) {
		m->breaks++;
		note_failure("an event lost its counter for a while");
	} else if (m->departed) {
		for (i = 0; i < m->counters->size; i++)
			m->clock[i] += stretch_of(m, i) - m->own[i];
	}
	m->departed = true;
}

static void count_failed(struct region *region)
{
	if (region)
		__atomic_fetch_add(&region->failed, 1, __ATOMIC_RELAXED);
}

/* Has the passes of a region count as failed: the end of one that was not begun is taken for theirs. */
static void spoil_passes(struct meter *m, const struct region *region)
{
	unsigned int i;

	for (i = 0; region && i < m->depth; i++)
		if (m->passes[i].region == region)
			m->passes[i].breaks = UINT64_MAX;
}

EXPORT void perfmon_enter(const char *name)
{
	int error = errno;
	struct meter *m = meter_of_thread();
	struct region *region = region_of(name);

	if (m) {
		advance(m);
		if (region && m->depth < DEPTH) {
			struct pass *pass = &m->passes[m->depth++];

			pass->region = region;
			pass->breaks = m->breaks;
			memcpy(pass->begin, m->clock, sizeof(pass->begin));
		} else {
			spoil_passes(m, region);
			count_failed(region);
			note_failure("a thread has begun too many regions at once");
		}
	}
	errno = error;
}

/* Takes the pass of this name that began last out of those that have begun. */
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

	m->has_last = pass->breaks == m->breaks;
	if (!m->has_last) {
		count_failed(pass->region);
		return;
	}
	for (i = 0; i < m->counters->size; i++) {
		int64_t counted = (int64_t)(m->clock[i] - pass->begin[i]);

		/* The markers' own part varies, of events like cycles: an empty pass may have had less. */
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
		advance(m);
	if (m && take_pass(m, name, &pass)) {
		end_pass(m, &pass);
	} else {
		if (m)
			m->has_last = false;
		count_failed(region_of(name));
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
	unsigned int events = __atomic_load_n(&marked, __ATOMIC_RELAXED), i;
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

/* Prints a line for each event of a region; one that was never counted has no number. */
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
	/* Regions that came meanwhile are not among them. */
	perfmon_totals(totals, n);
	if (n)
		names = events_of_markers();
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
