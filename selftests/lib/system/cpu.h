/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine's CPUs, and the CPU of the calling thread.
 */
#ifndef SELFTESTS_CPU_H
#define SELFTESTS_CPU_H

#include <sched.h>
#include <stdbool.h>

/*
 * Fills @cpus with the CPUs that the calling thread may run on: the online
 * CPUs, unless the thread has been pinned. Returns 0 or a negative errno.
 */
int cpus_online(cpu_set_t *cpus);

/* Sleeps until the calling thread was switched out. (A short sleep may return without a switch.) */
void switch_out(void);

/* Returns the number of context switches of the calling thread so far. */
unsigned long thread_switches(void);

/* Returns the first CPU of cpus_online(), or a negative errno. */
int cpu_first(void);

/* Lets the calling thread run on CPU @cpu only. Returns 0 or a negative errno. */
int pin_to_cpu(int cpu);

/* Pins the thread to the first CPU of cpus_online(). Returns the CPU, or a negative errno. */
int pin_to_first_cpu(void);

/* Returns one more than the highest possible CPU number; 0 if it is not known. */
int cpu_ids(void);

/* Returns the first member of @set above @cpu, or -1. */
int cpu_next(const cpu_set_t *set, int cpu);

#define for_each_cpu_in(cpu, set)				\
	for ((cpu) = cpu_next((set), -1); (cpu) >= 0;		\
	     (cpu) = cpu_next((set), (cpu)))

/*
 * Opens the file "online" of CPU @cpu for cpu_set_online(). Returns a descriptor or a negative
 * errno: the boot CPU may have no such file.
 */
int cpu_open_online(int cpu);

/* Takes a CPU offline ("0") or brings it online ("1"). Returns 0 or a negative errno. */
int cpu_set_online(int fd, const char *value);

/*
 * Finds a CPU that can go offline, opens its file "online", and finds another CPU that stays
 * online (@home).
 * Returns 0, -ENODEV on a machine with one CPU, or another negative errno.
 */
int cpu_find_hotpluggable(int *home, int *cpu, int *online);

/*
 * Returns the interrupts of a row of /proc/interrupts, such as "NMI", or "CAL" for calls of
 * functions, on the @n-th online CPU, or on all CPUs if @n is negative; -1 on failure.
 */
long long cpu_interrupts_of(const char *row, int n);

/* Returns the number of NMIs of the first CPU, or -1. */
long long cpu_nmis(void);

/* Returns the number of interrupts of the first CPU, without NMIs and PMIs; -1 on failure. */
long long cpu_interrupts(void);

/* Returns whether the processor is a Skylake, whose tables of events say which counters an event can have. */
bool cpu_is_skylake(void);

#endif
