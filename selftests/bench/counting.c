// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of calls in instructions, and of the same calls of Linux perf.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount). Each
 * figure is the least of many measurements, which contains no timer interrupt.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/perfmon.h>

#include "loop.h"
#include "msr.h"

#define ROUNDS	1000

/* Data of the operations. */
static int device, event;
static int zero;
static struct pmc instructions = { .pmc_event = 0xc0, .pmc_flags = PMCF_USR };
static struct pmc_data data;
static struct pmc_tstamp tstamp;
static __u64 perf_value;

/* Makes a system call without the C library. */
static long raw_syscall(long number, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall" : "=a" (ret)
			 : "a" (number), "D" (a), "S" (b), "d" (c)
			 : "rcx", "r11", "memory");
	return ret;
}

static long raw_ioctl(int fd, unsigned long cmd, void *arg)
{
	return raw_syscall(SYS_ioctl, fd, (long)cmd, (long)arg);
}

/* An operation returns 0, or another value if it failed. */
#define OPERATION(name, expression)	\
	static long name(void)		\
	{				\
		return expression;	\
	}

OPERATION(nothing, 0)
OPERATION(parent, raw_syscall(SYS_getppid, 0, 0, 0) < 0)
OPERATION(setup, raw_ioctl(device, PMIOSETUP, &instructions))
OPERATION(start, raw_ioctl(device, PMIOSTART, &zero))
OPERATION(stop, raw_ioctl(device, PMIOSTOP, &zero))
OPERATION(start_stop, start() | stop())
OPERATION(current, raw_ioctl(device, PMIOREAD, &data))
OPERATION(reset, raw_ioctl(device, PMIORESET, &zero))
OPERATION(get, raw_ioctl(device, PMIOGET, &instructions))
OPERATION(timestamp, raw_ioctl(device, PMIOTSTAMP, &tstamp))
OPERATION(perf_read, raw_syscall(SYS_read, event, (long)&perf_value, sizeof(perf_value)) != sizeof(perf_value))
OPERATION(perf_disable_enable, raw_ioctl(event, PERF_EVENT_IOC_DISABLE, NULL) |
			       raw_ioctl(event, PERF_EVENT_IOC_ENABLE, NULL))

static unsigned long long least_cost(long (*operation)(void))
{
	unsigned long long best = ~0ULL, begin, took;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		begin = __rdtsc();
		if (operation())
			return 0;
		took = __rdtsc() - begin;
		if (took < best)
			best = took;
	}
	return best;
}

struct bench_row {
	const char *name;
	long (*operation)(void);
};

/* Prints a line for each row: name, instructions. One execution is between two marks. */
static void print_rows(const struct bench_row *rows, size_t n)
{
	unsigned long long own = least_cost(nothing), cost;
	size_t i;

	for (i = 0; i < n; i++) {
		cost = least_cost(rows[i].operation);
		if (!cost) {
			printf("%s\tfailed\n", rows[i].name);
			continue;
		}
		msr_mark();
		rows[i].operation();
		msr_mark();
		printf("%s\t%llu\n", rows[i].name, cost - own);
	}
}

#define PRINT(rows)	print_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static const struct bench_row kernel[] = {
	{ "getppid(2)", parent },
};

static const struct bench_row stopped[] = {
	{ "PMIOSETUP", setup },
	{ "PMIOSTART + PMIOSTOP", start_stop },
	{ "PMIOREAD, stopped", current },
};

static const struct bench_row running[] = {
	{ "PMIOREAD, running", current },
	{ "PMIORESET, running", reset },
	{ "PMIOGET", get },
	{ "PMIOTSTAMP", timestamp },
};

static const struct bench_row perf[] = {
	{ "perf: read(2)", perf_read },
	{ "perf: disable + enable", perf_disable_enable },
};

/* A loop as long as ten timer ticks of the kernel, at one instruction a nanosecond. */
#define TICKS	10
#define TICK	4000000UL
/* The kernel does other work in some of its ticks, so the least count of several loops is taken. */
#define TICK_LOOPS	8

static unsigned long long least_loop(void)
{
	unsigned long long best = ~0ULL, begin, took;
	int i;

	for (i = 0; i < TICK_LOOPS; i++) {
		begin = __rdtsc();
		loop(TICKS * TICK / LOOP_INSNS);
		took = __rdtsc() - begin;
		if (took < best)
			best = took;
	}
	return best;
}

/*
 * Prints the cost of a running counter without its overflows, which is the cost of a tick of the
 * timer that watches its CPU.
 */
static void print_watch_cost(unsigned long long without)
{
	unsigned long long with = least_loop();

	msr_mark();
	loop(TICK / LOOP_INSNS);
	msr_mark();
	printf("a tick of the watching timer\t%llu\n", (with - without) / TICKS);
}

int main(void)
{
	unsigned long long undisturbed = least_loop();
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
	};

	PRINT(kernel);

	device = open(_PATH_PERFMON, O_RDWR | O_CLOEXEC);
	if (device < 0) {
		perror(_PATH_PERFMON);
		return EXIT_FAILURE;
	}
	PRINT(stopped);
	if (start()) {
		perror("PMIOSTART");
		return EXIT_FAILURE;
	}
	PRINT(running);
	print_watch_cost(undisturbed);
	close(device);

	/*
	 * perf counts on one CPU, like /dev/perfmon on this machine with one CPU. By now the
	 * counters are free for perf.
	 */
	event = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (event < 0) {
		fprintf(stderr, "perf_event_open: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	PRINT(perf);
	return EXIT_SUCCESS;
}
