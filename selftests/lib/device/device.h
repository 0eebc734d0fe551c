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
 * The number of instructions that a test may execute between PMIOSTART and PMIOSTOP
 * beside those it knows: the ends of two system call wrappers.
 */
#define CALL_OVERHEAD	100

/**
 * pmu_expected() - whether this machine should have a /dev/perfmon
 *
 * True if the device is there, or if CPUID shows a PMU that the module
 * supports, so that a module which failed to load is not taken for a machine
 * without a PMU.
 */
bool pmu_expected(void);

/* open(2) of the device, close-on-exec: a descriptor or a negative errno. */
int device_open(int flags);

int device_ioctl(int fd, unsigned int cmd, void *arg);

int device_properties(int fd, struct perfmon_properties *p);

/* The same by a descriptor of its own. */
int machine_properties(struct perfmon_properties *p);

int pmc_setup(int fd, int num, __u8 event, __u8 flags);

/*
 * Sets counter @num up for instructions. Fixed counter 0 counts nothing else,
 * and takes no event.
 */
int pmc_setup_instructions(int fd, int num, __u8 flags);

/* The same by PMIOSETUP2, with all 64 bits of an event select. */
int pmc_setup2(int fd, int num, __u64 select);

int pmc_start(int fd, int num);
int pmc_stop(int fd, int num);
int pmc_reset(int fd, int num);
int pmc_get(int fd, int num, struct pmc *pmc);
int pmc_get2(int fd, int num, __u64 *select);
int pmc_read(int fd, int num, __s64 *value);

/* pmc_read() for expressions: the value, or a negative errno. */
__s64 pmc_value(int fd, int num);

/* The value on CPU @cpu alone, or a negative errno. */
__s64 pmc_value_on(int fd, int num, int cpu);

/**
 * pmc_count_loop() - start counter @num, execute loop(@n), stop it
 *
 * In a file of its own, so that it is not inlined: the instructions around the
 * loop are the same at each call.
 *
 * Return: 0, or the negative errno of the call that failed.
 */
int pmc_count_loop(int fd, int num, unsigned long n);

/* The same from zero: the count, or a negative errno. */
__s64 pmc_loop_count(int fd, int num, unsigned long n);

#endif
