/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events by descriptor, of two makers: Linux perf and the module. A test does the
 * same with both and expects the same. The members of struct event_maker are the
 * known differences: DOC: Events in <linux/perfmon.h> describes them.
 */
#ifndef SELFTESTS_EVENT_H
#define SELFTESTS_EVENT_H

#include <stdbool.h>
#include <sys/types.h>

#include <linux/perf_event.h>
#include <linux/types.h>

struct event_maker {
	const char *name;
	/* perf_event_open(2) with @attr as it is: a descriptor or a negative errno */
	int (*open)(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
		    unsigned long flags);
	/* Events that do not fit take turns; else EBUSY. */
	bool takes_turns;
	/* The flag of open() with which they do. */
	unsigned long turns;
	/*
	 * RESET leaves what tasks that are gone have counted, unless they had changed
	 * places with their parent at a context switch.
	 */
	bool reset_may_keep_the_gone;
	/* time_enabled goes on while the task runs on another CPU than the event's. */
	bool time_on_other_cpus;
	/* poll(2) is ready at all times if no page is mapped. */
	bool polls_pages_only;
	/* A child that is forked beside a mapped page may use RDPMC, for ever. */
	bool children_keep_rdpmc;
	/*
	 * A task that changes places with one that inherits the same goes on with what
	 * is left of that one's period.
	 */
	bool children_swap_periods;
	/* PERF_FORMAT_LOST counts lost records that are no samples, too. */
	bool counts_lost_records;
	/*
	 * A sample whose stack is empty, or cut at the end of the record, is not as
	 * long as it says.
	 */
	bool breaks_stacks;
};

extern const struct event_maker event_maker_perf, event_maker_perfmon;

/*
 * The arguments of PERFMON_EVENT_OPEN as they are, with a descriptor of the device
 * that is closed again: a descriptor or a negative errno.
 */
struct perfmon_event_open;
int event_open_raw(const struct perfmon_event_open *arguments);

/* Instructions in user mode, disabled. */
struct perf_event_attr event_instructions(void);

/* by->open() of event_instructions(), of a thread on any CPU. */
int event_open_instructions(const struct event_maker *by, pid_t tid);

/*
 * Waits for the end of the other maker's events, which refuse those of @by, and calls
 * meanwhile() before each wait if it is not NULL. Returns whether that came within a minute.
 */
bool event_wait_until_possible(const struct event_maker *by, void (*meanwhile)(void));

/* ioctl(2): its result or a negative errno. */
int event_ioctl(int fd, unsigned long cmd, unsigned long arg);

int event_enable(int fd);
int event_disable(int fd);
int event_reset(int fd);

/* The id, or 0. */
__u64 event_id(int fd);

/* The number behind a name in the descriptor's fdinfo, or -1. */
long long event_described(int fd, const char *name);

/* The first number that read(2) gives, which is the count; or a negative errno. */
__s64 event_count(int fd);

/*
 * Enables the event, executes loop(@n), disables it. In a file of its own, so that
 * the instructions around the loop are the same at each call. Returns what the count
 * has grown by, or a negative errno.
 */
__s64 event_loop_count(int fd, unsigned long n);

/* event_loop_count() where the event is enabled and stays so. */
__s64 event_loop_count_running(int fd, unsigned long n);

#endif
