/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linux perf: the other user of the counters, and the reference for counts.
 */
#ifndef SELFTESTS_PERF_H
#define SELFTESTS_PERF_H

/**
 * perf_open_instructions() - open an event of Linux perf: instructions in user mode
 *
 * The event belongs to the calling thread, on any CPU, and is disabled.
 *
 * Return: a descriptor, or a negative errno.
 */
int perf_open_instructions(void);

/*
 * Opens the event of perf_open_instructions() enabled, so that perf holds the counters while the
 * thread runs. A place-holder can take the counters from perf only while no event of perf counts.
 */
int perf_hold_counters(void);

/*
 * Counts a short loop by perf. Returns 0 or a negative errno; -EBUSY if perf is refused, or
 * if its event has to wait for the end of a place-holder.
 */
int perf_count_short_loop(void);

/*
 * Opens a disabled event: instructions in user mode of all tasks on CPU @cpu, with a PMI after
 * each @period.
 */
int perf_open_sampling(int cpu, unsigned int period);

/* Opens the task clock of the thread, disabled, which needs no hardware counter. */
int perf_open_task_clock(void);

/*
 * Opens an event that samples all tasks of a CPU by the CPU's clock, in user mode and in the
 * kernel. The event needs no hardware counter, but it needs the same rights as an event with a
 * hardware counter.
 */
int perf_open_cpu_samples(int cpu);

/**
 * perf_count_loop() - enable the event, execute loop(@n), disable it
 *
 * Return: the count of the event since it was opened, or a negative errno: -EBUSY if it had no
 * counter for some of the time.
 */
long long perf_count_loop(int fd, unsigned long n);

/* Opens an event as perf_open_instructions(), and returns as perf_count_loop(). */
long long perf_count_loop_once(unsigned long n);

/*
 * Lifts perf's limits of the sample rate and of the time of PMIs, since times depend on the
 * host. Returns 0 or a negative errno.
 */
int perf_lift_limits(void);

#endif
