// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Opens, starts, stops and reads events that count together.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/perfmon.h>

#include "internal.h"

#define PAGE_SIZE	4096

/* Number of empty passes. The smallest of their counts is the overhead. */
#define EMPTY_PASSES	4

/*
 * The words of a reading that precede the counts: the number of events, and the group's times
 * enabled and running.
 */
enum {
	WORD_EVENTS,
	WORD_ENABLED,
	WORD_RUNNING,
	HEADER_WORDS,
};

/* Opens an event of the calling thread, in the group of @leader or, if that is -1, as a leader. */
static int open_event(int device, const struct event *event, int leader, unsigned int flags)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = leader < 0,
		.inherit = !!(flags & PERFMON_INHERIT),
		.exclude_user = !event->user,
		.exclude_kernel = !event->kernel,
	};
	struct perfmon_event_open open = {
		.attr = (uintptr_t)&attr,
		.cpu = -1,
		.group_fd = leader,
		.flags = PERF_FLAG_FD_CLOEXEC,
	};
	int fd = ioctl(device, PERFMON_EVENT_OPEN, &open);

	return fd < 0 ? fail_at(TO_OPEN_EVENT, errno, event->name, device) : fd;
}

static int control_group(struct perfmon_counters *counters, unsigned long call)
{
	if (ioctl(counters->fd[0], call, PERF_IOC_FLAG_GROUP))
		return fail_at(TO_CONTROL, errno, counters->event[0].name, -1);
	return 0;
}

EXPORT int perfmon_start(struct perfmon_counters *counters)
{
	return control_group(counters, PERF_EVENT_IOC_ENABLE);
}

EXPORT int perfmon_stop(struct perfmon_counters *counters)
{
	return control_group(counters, PERF_EVENT_IOC_DISABLE);
}

/* Reads the times and the counts of the events at one moment. */
static int read_group(struct perfmon_counters *counters, uint64_t words[HEADER_WORDS + PERFMON_MAX_EVENTS])
{
	size_t size = (HEADER_WORDS + counters->size) * sizeof(words[0]);
	ssize_t bytes = read(counters->fd[0], words, size);

	if (bytes != (ssize_t)size)
		return fail_at(TO_READ, bytes < 0 ? errno : EIO, counters->event[0].name, -1);
	return 0;
}

EXPORT int perfmon_reset(struct perfmon_counters *counters)
{
	uint64_t words[HEADER_WORDS + PERFMON_MAX_EVENTS];

	/*
	 * A reset does not change the times. They are read before the reset, so that running events
	 * do not count this reading.
	 */
	if (read_group(counters, words) || control_group(counters, PERF_EVENT_IOC_RESET))
		return -1;
	/* Other threads may read the member at the same time. */
	__atomic_store_n(&counters->uncounted, words[WORD_ENABLED] - words[WORD_RUNNING], __ATOMIC_RELAXED);
	return 0;
}

EXPORT int perfmon_read(struct perfmon_counters *counters, uint64_t *counts)
{
	uint64_t words[HEADER_WORDS + PERFMON_MAX_EVENTS];

	if (read_group(counters, words))
		return -1;
	if (words[WORD_ENABLED] - words[WORD_RUNNING] > __atomic_load_n(&counters->uncounted, __ATOMIC_RELAXED))
		return fail_with(EIO,
				 "can't read %s: it ran on a core that lacks the event, so the count would be too low. " ONE_KIND_OF_CORE,
				 counters->event[0].name);
	memcpy(counts, words + HEADER_WORDS, counters->size * sizeof(words[0]));
	return 0;
}

EXPORT int perfmon_tasks_not_followed(struct perfmon_counters *counters, uint64_t *tasks)
{
	static const char field[] = "left:";
	char path[64], line[128];
	FILE *fdinfo;

	snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", counters->fd[0]);
	fdinfo = fopen(path, "re");
	if (!fdinfo)
		return fail_at(TO_READ, errno, path, -1);
	/* An older driver without this field in fdinfo follows all tasks. */
	*tasks = 0;
	while (fgets(line, sizeof(line), fdinfo))
		if (!strncmp(line, field, strlen(field)))
			*tasks = strtoull(line + strlen(field), NULL, 10);
	fclose(fdinfo);
	return 0;
}

/* Measures the counts of an empty start and stop, and leaves the counts at 0. */
static int measure_overhead(struct perfmon_counters *counters)
{
	uint64_t counts[PERFMON_MAX_EVENTS];
	unsigned int i, pass;

	for (pass = 0; pass < EMPTY_PASSES; pass++) {
		if (perfmon_start(counters) || perfmon_stop(counters) || perfmon_read(counters, counts) ||
		    perfmon_reset(counters))
			return -1;
		for (i = 0; i < counters->size; i++)
			if (!pass || counts[i] < counters->overhead[i])
				counters->overhead[i] = counts[i];
	}
	return 0;
}

static int open_events(struct perfmon_counters *counters, const char *events)
{
	int n = events_parse(events, counters->event, PERFMON_MAX_EVENTS), device, fd = 0, error;

	if (n < 0)
		return -1;
	device = open(_PATH_PERFMON, O_RDONLY | O_CLOEXEC);
	if (device < 0)
		return fail_at(TO_OPEN_DEVICE, errno, _PATH_PERFMON, -1);
	while (counters->size < (unsigned int)n && fd >= 0) {
		fd = open_event(device, &counters->event[counters->size],
				counters->size ? counters->fd[0] : -1, counters->flags);
		if (fd >= 0)
			counters->fd[counters->size++] = fd;
	}
	error = errno;
	/* Open events don't need the device's descriptor. */
	close(device);
	errno = error;
	return fd < 0 ? -1 : measure_overhead(counters);
}

EXPORT struct perfmon_counters *perfmon_open(const char *events, unsigned int flags)
{
	struct perfmon_counters *counters;
	int error;

	if (flags & ~PERFMON_INHERIT) {
		fail_with(EINVAL, "can't count `%s`: there is no flag 0x%x", events, flags & ~PERFMON_INHERIT);
		return NULL;
	}
	counters = calloc(1, sizeof(*counters));
	if (!counters) {
		fail_at(TO_OPEN_EVENT, ENOMEM, events, -1);
		return NULL;
	}
	counters->flags = flags;
	counters->thread = gettid();
	counters->process = getpid();
	if (open_events(counters, events)) {
		error = errno;
		perfmon_close(counters);
		errno = error;
		return NULL;
	}
	return counters;
}

EXPORT void perfmon_close(struct perfmon_counters *counters)
{
	unsigned int i;

	if (!counters)
		return;
	for (i = counters->size; i-- > 0;) {
		/* A child of fork(2) does not inherit the mapping, and may have mapped something else there. */
		if (counters->page[i] && counters->process == getpid())
			munmap((void *)counters->page[i], PAGE_SIZE);
		close(counters->fd[i]);
	}
	free(counters);
}

EXPORT unsigned int perfmon_size(const struct perfmon_counters *counters)
{
	return counters->size;
}

EXPORT const char *perfmon_name(const struct perfmon_counters *counters, unsigned int event)
{
	return event < counters->size ? counters->event[event].name : NULL;
}

EXPORT uint64_t perfmon_overhead(const struct perfmon_counters *counters, unsigned int event)
{
	return event < counters->size ? counters->overhead[event] : 0;
}

EXPORT const struct perf_event_mmap_page *perfmon_page(struct perfmon_counters *counters, unsigned int event)
{
	void *page;

	if (event >= counters->size) {
		fail_with(EINVAL, "can't map the page of event %u: there are %u", event, counters->size);
		return NULL;
	}
	if (counters->thread != gettid() || counters->flags & PERFMON_INHERIT) {
		fail_with(EINVAL,
			  "can't map the page of %s: only the thread that opened the event has it, and only without PERFMON_INHERIT. Use perfmon_read().",
			  counters->event[event].name);
		return NULL;
	}
	/* Needs no lock: only the thread that opened the event gets here. */
	if (!counters->page[event]) {
		page = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, counters->fd[event], 0);
		if (page == MAP_FAILED) {
			fail_at(TO_MAP, errno, counters->event[event].name, -1);
			return NULL;
		}
		counters->page[event] = page;
	}
	return counters->page[event];
}
