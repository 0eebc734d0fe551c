/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events of two makers, Linux perf and the module. A test makes the same calls with both makers,
 * and expects the same results. The members of struct event_maker are the known
 * differences, which "DOC: Events" in <linux/perfmon.h> describes.
 */
#ifndef SELFTESTS_EVENT_H
#define SELFTESTS_EVENT_H

#include <stdbool.h>
#include <sys/types.h>

#include <linux/perf_event.h>
#include <linux/types.h>

struct event_maker {
	const char *name;
	/* Calls perf_event_open(2) or its equivalent. Returns a descriptor or a negative errno. */
	int (*open)(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
		    unsigned long flags);
	/* If counters are too few, events take turns on them. If unset, open() fails with EBUSY. */
	bool takes_turns;
	/* The flag of open() that asks for turns; 0: events take turns without a flag. */
	unsigned long turns_flag;
	/*
	 * PERF_EVENT_IOC_RESET may keep the counts of exited tasks, except the counts of tasks that
	 * have swapped contexts with their parent at a context switch.
	 */
	bool reset_may_keep_exited;
	/* time_enabled of an event of a CPU grows while the task runs on another CPU. */
	bool time_on_other_cpus;
	/* poll(2) of an event without a mapping is always ready. */
	bool polls_pages_only;
	/* A child that is forked while a page is mapped keeps the right to execute RDPMC. */
	bool children_keep_rdpmc;
	/*
	 * A task that swaps contexts with a task with the same inherited events continues with
	 * the rest of that task's period.
	 */
	bool children_swap_periods;
	/* PERF_FORMAT_LOST counts all lost records, not samples alone. */
	bool counts_lost_records;
	/*
	 * A sample whose stack is empty, or cut at the end of the record, is shorter than its
	 * size fields say.
	 */
	bool has_wrong_stack_sizes;
};

extern const struct event_maker event_maker_perf, event_maker_perfmon;

/*
 * Opens the device, calls PERFMON_EVENT_OPEN with these arguments, and closes the device.
 * Returns a descriptor or a negative errno.
 */
struct perfmon_event_open;
int event_open_raw(const struct perfmon_event_open *arguments);

/* Returns the attributes of an event of instructions in user mode, disabled. */
struct perf_event_attr event_instructions(void);

/* Returns the attributes of a disabled event that counts nothing and only has records. */
struct perf_event_attr event_dummy(void);

/* Opens event_instructions() for a thread on any CPU. Returns a descriptor or -errno. */
int event_open_instructions(const struct event_maker *maker, pid_t tid);

/*
 * Opens an event of the tasks of the cgroup with the directory @path, on @cpu, or on all CPUs if
 * that is -1. Returns a descriptor or -errno.
 */
int event_open_of_cgroup(const struct event_maker *maker, struct perf_event_attr attr,
			 const char *path, int cpu);

/*
 * Waits until no event of the other maker is open, since such an event excludes events of @maker.
 * If @meanwhile is not NULL, calls it before each wait. Returns false after a minute.
 */
bool event_wait_until_possible(const struct event_maker *maker, void (*meanwhile)(void));

/* Calls ioctl(2). Returns its result, or a negative errno. */
int event_ioctl(int fd, unsigned long cmd, unsigned long arg);

int event_enable(int fd);
int event_disable(int fd);
int event_reset(int fd);

/* Returns the ID of the event, or 0. */
__u64 event_id(int fd);

/* Returns the number after @name in the descriptor's fdinfo, or -1. */
long long event_fdinfo_number(int fd, const char *name);

/* Returns the count, which is the first number of the result of read(2); or a negative errno. */
__s64 event_count(int fd);

/*
 * Enables the event, executes loop(@n), disables it. Returns the growth of the count, or a negative
 * errno. The function is in a file of its own, so that the instructions around the loop are the
 * same at each call.
 */
__s64 event_loop_count(int fd, unsigned long n);

/*
 * Returns the growth of the count like event_loop_count(), for an event that is enabled already and
 * stays enabled.
 */
__s64 event_loop_count_running(int fd, unsigned long n);

#endif
