/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine's CPUs, and the one that runs the thread.
 */
#ifndef SELFTESTS_CPU_H
#define SELFTESTS_CPU_H

#include <sched.h>

/*
 * Fills @cpus with the CPUs that the calling thread may run on: the online
 * ones, unless it has been pinned. Returns 0 or a negative errno.
 */
int cpus_online(cpu_set_t *cpus);

/* The first of them, or a negative errno. */
int cpu_first(void);

/* Lets the calling thread run on CPU @cpu only: 0 or a negative errno. */
int pin_to_cpu(int cpu);

/* The same with the first of cpus_online(): its number, or a negative errno. */
int pin_to_first_cpu(void);

/* The number of possible CPU numbers, from 0 on; 0 if it is not known. */
int cpu_ids(void);

/* The first member of @set above @cpu, or -1. */
int cpu_next(const cpu_set_t *set, int cpu);

#define for_each_cpu_in(cpu, set)				\
	for ((cpu) = cpu_next((set), -1); (cpu) >= 0;		\
	     (cpu) = cpu_next((set), (cpu)))

/*
 * Opens the switch of CPU @cpu: a descriptor for cpu_switch(), or a negative errno.
 * The boot CPU may have none.
 */
int cpu_open_switch(int cpu);

/* Switches a CPU off ("0") or on ("1"): 0 or a negative errno. */
int cpu_switch(int fd, const char *value);

/*
 * Finds a CPU that can be switched, its switch, and a CPU before it that stays.
 * Returns 0, -ENODEV on a machine with one CPU, or another negative errno.
 */
int cpu_open_second(int *home, int *cpu, int *online);

/* The interrupts that the first CPU has had, without NMIs and PMIs; -1 if that is not known. */
long long cpu_interrupts(void);

#endif
