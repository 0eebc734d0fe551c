/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linux perf: the other user of the counters, and the reference for counts.
 */
#ifndef SELFTESTS_PERF_H
#define SELFTESTS_PERF_H

/**
 * perf_open_instructions() - open a perf event: instructions in user mode
 *
 * It belongs to the calling thread, on any CPU, and is disabled.
 *
 * Return: a descriptor, or a negative errno.
 */
int perf_open_instructions(void);

/*
 * The same, enabled: it counts while the thread runs, and so perf has the counters. A
 * place-holder takes them from an event that does not count.
 */
int perf_hold_counters(void);

/*
 * Lets perf count a short loop: 0, or a negative errno; -EBUSY if it is refused, or if
 * its event waits for a place-holder.
 */
int perf_try(void);

/* The same for all that runs on CPU @cpu, with an interrupt each @period. */
int perf_open_sampling(int cpu, unsigned int period);

/* As the first for the kernel's task clock, which needs no hardware counter. */
int perf_open_task_clock(void);

/*
 * Samples of all that runs on a CPU, the kernel included, by its clock: it needs
 * no hardware counter, and the same rights.
 */
int perf_open_cpu_samples(int cpu);

/**
 * perf_count_loop() - enable the event, execute loop(@n), disable it
 *
 * Return: what the event counted since it was opened, or a negative errno: -EBUSY if
 * it had no counter all the time.
 */
long long perf_count_loop(int fd, unsigned long n);

/* The same with an event of its own, perf_open_instructions(). */
long long perf_count_loop_once(unsigned long n);

/*
 * Lifts perf's limits to the time of interrupts, which depends on the host: 0 or a
 * negative errno.
 */
int perf_lift_limits(void);

#endif
