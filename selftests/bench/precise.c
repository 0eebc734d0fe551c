// SPDX-License-Identifier: GPL-2.0-only
/*
 * bench_precise FORMAT : prints the cost in instructions of a precise sample, which the processor
 * takes, compared with Linux perf's. FORMAT is the format of the processor's records, for the
 * titles.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount). Enables
 * an event, executes a loop in user mode and disables the event, once with a sample each PERIOD
 * instructions and once with none: the difference, divided by the number of samples, is the cost
 * of a sample. It includes the samples that are in the processor's buffer when the event is
 * disabled. Each figure is the least of many measurements, which contains no timer interrupt.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "event.h"
#include "event_ring.h"
#include "loop.h"
#include "msr.h"

#define ROUNDS	20
#define PERIOD	1009
#define NEVER_REACHED	(1UL << 30)
#define LOOPS	1000000UL
/* The ring has 2^ORDER pages. */
#define ORDER	9

/* The cost of a run of the loop. */
struct run_cost {
	unsigned long long insns;
	unsigned long samples;
	unsigned long bytes;
};

static struct event_record record;

/* Runs the loop once. @marking: writes marks before and after it, to find its register accesses. */
static int run_once(int fd, struct event_ring *ring, bool marking, struct run_cost *run)
{
	unsigned long long begin, end;
	int err;

	if (marking)
		msr_mark();
	begin = __rdtsc();
	err = event_enable(fd);
	loop(LOOPS);
	if (!err)
		err = event_disable(fd);
	end = __rdtsc();
	if (marking)
		msr_mark();
	*run = (struct run_cost) { .insns = end - begin };
	while (!err && event_ring_next(ring, &record)) {
		run->samples += record.header.type == PERF_RECORD_SAMPLE;
		run->bytes += record.header.size;
	}
	return err;
}

/*
 * Opens an event on CPU @cpu (-1: of this task), runs the loop ROUNDS times, and returns the
 * cheapest run in @best. With @marking, runs the loop once more between two marks.
 */
static int find_least(const struct event_maker *maker, struct perf_event_attr attr, int cpu,
		      bool marking, struct run_cost *best)
{
	struct event_ring ring;
	struct run_cost run;
	int i, err, fd = maker->open(&attr, cpu < 0 ? 0 : -1, cpu, -1, 0);

	if (fd < 0)
		return fd;
	*best = (struct run_cost) { .insns = ~0ULL };
	err = event_ring_map(&ring, fd, ORDER, false);
	if (!err) {
		for (i = 0; i < ROUNDS && !err; i++) {
			err = run_once(fd, &ring, false, &run);
			if (run.insns < best->insns)
				*best = run;
		}
		if (!err && marking)
			err = run_once(fd, &ring, true, &run);
		event_ring_unmap(&ring);
	}
	close(fd);
	return err;
}

/* Prints a row of the table: name, instructions, bytes, marked samples. */
static void print_row(const char *title, const char *format, const struct event_maker *maker,
		      __u64 parts, int cpu)
{
	struct perf_event_attr attr = event_instructions();
	struct run_cost none, best;
	int err;

	attr.precise_ip = 2;
	attr.sample_type = parts;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	attr.watermark = 1;
	attr.wakeup_watermark = NEVER_REACHED;
	attr.sample_period = NEVER_REACHED;
	err = find_least(maker, attr, cpu, false, &none);
	attr.sample_period = PERIOD;
	if (!err)
		err = find_least(maker, attr, cpu, true, &best);
	if (!err && !best.samples)
		err = -ENODATA;
	if (err) {
		printf("%s%s\tfailed: %s\n", title, format, strerror(-err));
		return;
	}
	/* The number of bytes per sample is rounded up. */
	printf("%s%s\t%llu\t%lu\t%lu\n", title, format,
	       (best.insns - none.insns + best.samples - 1) / best.samples,
	       best.bytes / best.samples, best.samples);
}

/* Keeps perf from lowering its rate because its PMIs take long. */
static void lift_perf_limit(void)
{
	int fd = open("/proc/sys/kernel/perf_cpu_time_max_percent", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		perror("perf_cpu_time_max_percent");
	close(fd);
}

#define USUAL	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME)
#define OTHERS	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)
#define ACCESS	(PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC)
#define CHAIN	PERF_SAMPLE_CALLCHAIN
#define BRANCHES	PERF_SAMPLE_BRANCH_STACK

int main(int argc, char **argv)
{
	const char *format = argc > 1 ? argv[1] : "";

	lift_perf_limit();
	print_row("event: precise, format ", format, &event_maker_perfmon, USUAL, -1);
	print_row("perf: precise, format ", format, &event_maker_perf, USUAL, -1);
	print_row("event: and id,cpu,period, ", format, &event_maker_perfmon, USUAL | OTHERS, -1);
	print_row("perf: and id,cpu,period, ", format, &event_maker_perf, USUAL | OTHERS, -1);
	print_row("event: and addr,weight,data_src, ", format, &event_maker_perfmon, USUAL | ACCESS, -1);
	print_row("perf: and addr,weight,data_src, ", format, &event_maker_perf, USUAL | ACCESS, -1);
	print_row("event: of a CPU, format ", format, &event_maker_perfmon, USUAL, 0);
	print_row("perf: of a CPU, format ", format, &event_maker_perf, USUAL, 0);
	print_row("event: and 32 branches, ", format, &event_maker_perfmon, USUAL | BRANCHES, -1);
	print_row("perf: and 32 branches, ", format, &event_maker_perf, USUAL | BRANCHES, -1);
	/* These samples have an interrupt each; with format 3, samples with branches do, too. */
	print_row("event: and a chain, format ", format, &event_maker_perfmon, USUAL | CHAIN, -1);
	print_row("perf: and a chain, format ", format, &event_maker_perf, USUAL | CHAIN, -1);
	return EXIT_SUCCESS;
}
