/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls of /dev/perfmon as functions that return 0 or a negative errno.
 */
#ifndef SELFTESTS_DEVICE_H
#define SELFTESTS_DEVICE_H

#include <stdbool.h>

#include <linux/perfmon.h>

/* Event select and unit mask of "instructions retired". */
#define EVENT_INSTRUCTIONS	0xc0

/*
 * The maximum number of instructions that a test executes between PMIOSTART and PMIOSTOP outside
 * of its loop: the end of one system call wrapper and the beginning of the next.
 */
#define CALL_OVERHEAD	100

/**
 * pmu_expected() - whether this machine should have a /dev/perfmon
 *
 * True if the device exists, or if CPUID shows a PMU that the module supports: then a
 * missing device means that the module failed to load, and the test must not be skipped.
 */
bool pmu_expected(void);

/* Opens the device, close-on-exec. Returns a descriptor or a negative errno. */
int device_open(int flags);

int device_ioctl(int fd, unsigned int cmd, void *arg);

int device_properties(int fd, struct perfmon_properties *p);

/* Reads the properties through a descriptor of its own. */
int machine_properties(struct perfmon_properties *p);

int pmc_setup(int fd, int num, __u8 event, __u8 flags);

/* Sets counter @num up for instructions. Fixed counter 0 counts nothing else, so its event is 0. */
int pmc_setup_instructions(int fd, int num, __u8 flags);

/* Sets a counter up by PMIOSETUP2, with all 64 bits of an event select. */
int pmc_setup2(int fd, int num, __u64 select);

int pmc_start(int fd, int num);
int pmc_stop(int fd, int num);
int pmc_reset(int fd, int num);
int pmc_get(int fd, int num, struct pmc *pmc);
int pmc_get2(int fd, int num, __u64 *select);
int pmc_read(int fd, int num, __s64 *value);

/* pmc_read() for expressions: the value, or a negative errno. */
__s64 pmc_value(int fd, int num);

/* Returns the value on CPU @cpu alone, or a negative errno. */
__s64 pmc_value_on(int fd, int num, int cpu);

/**
 * pmc_count_loop() - start counter @num, execute loop(@n), stop it
 *
 * The function is in a file of its own, so that the compiler can't inline it: the instructions
 * around the loop are the same at each call.
 *
 * Return: 0, or the negative errno of the call that failed.
 */
int pmc_count_loop(int fd, int num, unsigned long n);

/* Resets the counter and calls pmc_count_loop(). Returns the count, or a negative errno. */
__s64 pmc_loop_count(int fd, int num, unsigned long n);

#endif
