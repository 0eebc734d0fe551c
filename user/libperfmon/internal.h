/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of the library share.
 */
#ifndef PERFMON_INTERNAL_H
#define PERFMON_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "perfmon.h"

/* What is seen from outside is in libperfmon.map, too. */
#define EXPORT __attribute__((visibility("default")))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The bytes that an event's name may have, with its end. */
#define NAME_SIZE	64

/* An event as perf_event_open(2) asks for it. */
struct event {
	char name[NAME_SIZE];
	uint32_t type;
	uint64_t config;
	bool user;
	bool kernel;
};

struct perfmon_counters {
	unsigned int size;
	unsigned int flags;
	/* The thread that opened it. */
	pid_t thread;
	/* The process that has the pages: a child of fork(2) has none. */
	pid_t process;
	/* A descriptor for each event; the first is the leader's. */
	int fd[PERFMON_MAX_EVENTS];
	/* Mapped by perfmon_page(). */
	const struct perf_event_mmap_page *page[PERFMON_MAX_EVENTS];
	uint64_t overhead[PERFMON_MAX_EVENTS];
	struct event event[PERFMON_MAX_EVENTS];
};

/* What was attempted: it chooses the words for an errno. */
enum attempt {
	TO_OPEN_DEVICE,
	TO_OPEN_EVENT,
	TO_CONTROL,
	TO_READ,
	TO_MAP,
};

/*
 * Parses a list of events into @events, which has room for @most. Returns their number, or
 * -1 with the error.
 */
int events_parse(const char *list, struct event *events, int most);

/*
 * Makes the text of perfmon_error() of @attempt at @what and @error, and sets errno to @error.
 * @device is asked for the owners of the counters, or -1. Returns -1.
 */
int fail_at(enum attempt attempt, int error, const char *what, int device);

/* The same of a text as printf(3) makes it. */
int fail_with(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
