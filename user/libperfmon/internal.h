/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Declarations that the files of the library share.
 */
#ifndef PERFMON_INTERNAL_H
#define PERFMON_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "perfmon.h"

/* Marks a function or variable of the ABI, which libperfmon.map has to list, too. */
#define EXPORT __attribute__((visibility("default")))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The advice for a program that ran on a core that lacks an event. */
#define ONE_KIND_OF_CORE	"Run the program on one kind of core: `taskset -c $(cat /sys/devices/cpu_core/cpus) PROGRAM`."

/* The largest size of an event's name in bytes, with its end. */
#define NAME_SIZE	64

/* An event by the numbers of perf_event_open(2), and its modes. */
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
	/* The ID of the thread that opened the events. */
	pid_t thread;
	/* The ID of the process that has mapped the pages, which a child of fork(2) does not inherit. */
	pid_t process;
	/* A descriptor for each event; the first is the leader's. */
	int fd[PERFMON_MAX_EVENTS];
	/*
	 * The time in ns, up to the last reset, for which the events were enabled and not counted,
	 * since a core lacked an event.
	 */
	uint64_t uncounted;
	/* The pages that perfmon_page() has mapped, or NULL. */
	const struct perf_event_mmap_page *page[PERFMON_MAX_EVENTS];
	/* The count of each event in an empty start and stop. */
	uint64_t overhead[PERFMON_MAX_EVENTS];
	struct event event[PERFMON_MAX_EVENTS];
};

/* The attempt that failed, which determines the meaning of an errno. */
enum attempt {
	TO_OPEN_DEVICE,
	TO_OPEN_EVENT,
	TO_CONTROL,
	TO_READ,
	TO_MAP,
};

/*
 * Parses a list of at most @max events into @events. Returns their number, or -1 after setting
 * the message of perfmon_error().
 */
int events_parse(const char *list, struct event *events, int max);

/*
 * Sets the message of perfmon_error(), and sets errno to @error, after @attempt has failed with
 * @error. @object is the name of the event, or the path. The owners of the counters are read from
 * @device, unless it is -1. Returns -1.
 */
int fail_at(enum attempt attempt, int error, const char *object, int device);

/* Sets the message of perfmon_error() as printf(3) formats it, and errno to @error. Returns -1. */
int fail_with(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
