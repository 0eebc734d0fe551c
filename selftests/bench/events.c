// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of events of tasks in instructions, compared with Linux perf's in the same boot: of a
 * context switch, of reading, of enabling and disabling, of mapping memory.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount), with one
 * CPU.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "event.h"
#include "event_page.h"
#include "msr.h"
#include "partner.h"

#define MAX_EVENTS	8

static const __u64 kinds[] = {
	PERF_COUNT_HW_INSTRUCTIONS,
	PERF_COUNT_HW_CPU_CYCLES,
	PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	PERF_COUNT_HW_REF_CPU_CYCLES,
};

/* The partner, which alternates with this task on the CPU, and a sleeping task. */
static pid_t partner, sleeper;

/* The open events. */
static int fds[MAX_EVENTS];
static int count;
static struct perf_event_mmap_page *page;
static int program;

static void do_nothing(void)
{
}

static void read_one(void)
{
	__u64 value;

	if (read(fds[0], &value, sizeof(value)) != sizeof(value))
		perror("read");
}

static void read_group(void)
{
	__u64 values[1 + MAX_EVENTS];

	if (read(fds[0], values, sizeof(values)) < 0)
		perror("read");
}

static void read_page(void)
{
	if (!page_read(page).index)
		fprintf(stderr, "the page has no counter\n");
}

static void disable_enable(void)
{
	if (ioctl(fds[0], PERF_EVENT_IOC_DISABLE, 0) ||
	    ioctl(fds[0], PERF_EVENT_IOC_ENABLE, 0))
		perror("bench_events: PERF_EVENT_IOC_DISABLE or PERF_EVENT_IOC_ENABLE");
}

/* Maps and unmaps an executable page of this program, which events may record. */
static void map_unmap(void)
{
	void *at = mmap(NULL, getpagesize(), PROT_READ | PROT_EXEC, MAP_PRIVATE, program, 0);

	if (at == MAP_FAILED || munmap(at, getpagesize()))
		perror("mmap");
}

/* Opens @n events of a task, as one group if @read_format has PERF_FORMAT_GROUP. */
static void add_events(const struct event_maker *maker, pid_t tid, int n, __u64 read_format,
		bool records)
{
	int i, first = count;

	for (i = 0; i < n; i++) {
		struct perf_event_attr attr = event_instructions();
		bool grouped = read_format & PERF_FORMAT_GROUP && i;

		attr.disabled = 0;
		attr.config = kinds[i];
		attr.read_format = read_format;
		attr.mmap = records;
		attr.mmap2 = records;
		fds[count] = maker->open(&attr, tid, -1, grouped ? fds[first] : -1, 0);
		if (fds[count] < 0) {
			fprintf(stderr, "%s: open: %s\n", maker->name, strerror(-fds[count]));
			exit(EXIT_FAILURE);
		}
		count++;
	}
}

static void close_events(void)
{
	while (count)
		close(fds[--count]);
}

/* A row shows the cost with events, minus the cost without events. */
enum { ROWS = 11 };

static const struct bench_row {
	const char *name;
	void (*operation)(void);
	int own, others, asleep;	/* number of events of this task, the partner, the sleeper */
	int parts;			/* switches per round */
	__u64 read_format;
	bool maps;
	bool records;			/* record mappings, in a ring that never fills */
} rows[ROWS] = {
	{ "switch, of others", partner_yield, .asleep = 1, .parts = 2 },
	{ "switch, 1 event in one", partner_yield, .own = 1, .parts = 2 },
	{ "switch, 1 event in each", partner_yield, .own = 1, .others = 1, .parts = 2 },
	{ "switch, 2 events in each", partner_yield, .own = 2, .others = 2, .parts = 2 },
	{ "switch, 4 events in each", partner_yield, .own = 4, .others = 4, .parts = 2 },
	{ "read(2)", read_one, .own = 1, .parts = 1 },
	{ "read(2), group of 4", read_group, .own = 4, .parts = 1,
	  .read_format = PERF_FORMAT_GROUP },
	{ "page, by RDPMC", read_page, .own = 1, .parts = 1, .maps = true },
	{ "disable + enable", disable_enable, .own = 1, .parts = 1 },
	{ "mmap + munmap", map_unmap, .own = 1, .parts = 1 },
	{ "mmap + munmap, recorded", map_unmap, .own = 1, .parts = 1, .maps = true,
	  .records = true },
};

static unsigned long long measure(const struct event_maker *maker, const struct bench_row *row,
				  bool marked)
{
	bool is_compared = row->operation == partner_yield || row->operation == map_unmap;
	size_t size = getpagesize() * (row->records ? 2 : 1);
	unsigned long long without, with;

	/* The module removes its hook in the context switch a second after the last event. */
	sleep(2);
	without = partner_least_cost(is_compared ? row->operation : do_nothing);
	/* The first event is this task's, which read_one() reads. */
	add_events(maker, 0, row->own, row->read_format, row->records);
	add_events(maker, partner, row->others, 0, false);
	add_events(maker, sleeper, row->asleep, 0, false);
	/*
	 * Waits, because a kernel thread replaces the breakpoint of a kprobe by a jump after a
	 * while.
	 */
	if (row->records)
		sleep(1);
	if (row->maps) {
		page = mmap(NULL, size, PROT_READ, MAP_SHARED, fds[0], 0);
		if (page == MAP_FAILED) {
			perror("mmap");
			exit(EXIT_FAILURE);
		}
	}
	with = partner_least_cost(row->operation);
	if (marked) {
		partner_continue();
		msr_mark();
		row->operation();
		msr_mark();
		partner_stop();
	}
	if (row->maps)
		munmap(page, size);
	close_events();
	return (with - without) / row->parts;
}

int main(void)
{
	unsigned long long cost[ROWS];
	int i;

	program = open("/proc/self/exe", O_RDONLY);
	if (program < 0) {
		perror("/proc/self/exe");
		return EXIT_FAILURE;
	}
	partner = partner_start();
	sleeper = fork();
	if (!sleeper)
		for (;;)
			pause();
	if (partner < 0 || sleeper < 0) {
		fprintf(stderr, "the other tasks can't be started\n");
		return EXIT_FAILURE;
	}
	usleep(10000);

	for (i = 0; i < ROWS; i++)
		cost[i] = measure(&event_maker_perfmon, &rows[i], true);
	/* A line for each row: name, instructions, perf's, and number of marked executions. */
	for (i = 0; i < ROWS; i++)
		printf("%s\t%llu\t%llu\t%d\n", rows[i].name, cost[i],
		       measure(&event_maker_perf, &rows[i], false), rows[i].parts);
	partner_end();
	kill(sleeper, SIGKILL);
	while (wait(NULL) > 0)
		;
	return EXIT_SUCCESS;
}
