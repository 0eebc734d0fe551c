// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of events of cgroups in instructions, beside Linux perf's in the same boot if its kernel
 * counts cgroups: of a context switch within a cgroup and between two cgroups, for several numbers
 * of cgroups with events.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount), with one
 * CPU.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "event.h"
#include "file.h"
#include "msr.h"
#include "partner.h"

#define ROOT		"/tmp/cgroup"
#define CGROUPS		500
#define MAX_EVENTS	4
#define NOT_POSSIBLE	~0ULL

static const __u64 kinds[MAX_EVENTS] = {
	PERF_COUNT_HW_INSTRUCTIONS,
	PERF_COUNT_HW_CPU_CYCLES,
	PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	PERF_COUNT_HW_REF_CPU_CYCLES,
};

/* A row shows the cost with events, minus the cost without events. Each round has two switches. */
enum { ROWS = 9, PARTS = 2 };

static const struct bench_row {
	const char *name;
	int observed;		/* the number of cgroups with events: the first ones */
	int events;		/* the number of events of each of these cgroups */
	int other;		/* the cgroup of the partner; this task is in the first */
} rows[ROWS] = {
	{ "within a cgroup, of 1", 1, 1, 0 },
	{ "within a cgroup, of 500", 500, 1, 0 },
	{ "and one without events", 1, 1, 1 },
	{ "between two of 10", 10, 1, 1 },
	{ "between two of 500", 500, 1, 1 },
	{ "within one, 2 events", 10, 2, 0 },
	{ "between two, 2 events", 10, 2, 1 },
	{ "within one, 4 events", 10, 4, 0 },
	{ "between two, 4 events", 10, 4, 1 },
};

static pid_t partner;
static int fds[CGROUPS * MAX_EVENTS], count;

static const char *cgroup_path(int number, const char *file)
{
	static char path[64];

	snprintf(path, sizeof(path), ROOT "/%d/%s", number, file);
	return path;
}

static void give_up(const char *what)
{
	perror(what);
	partner_end();
	exit(EXIT_FAILURE);
}

/* perf finds a cgroup of version 2 only after some controller was enabled. */
static void enable_a_controller(void)
{
	FILE *controllers = fopen(ROOT "/cgroup.controllers", "r");
	char text[33] = "+";

	if (!controllers || fscanf(controllers, "%31s", text + 1) != 1 ||
	    write_file(ROOT "/cgroup.subtree_control", text))
		give_up("cgroup.subtree_control");
	fclose(controllers);
}

static void make_cgroups(void)
{
	int i;

	mkdir(ROOT, 0755);
	if (mount("none", ROOT, "cgroup2", 0, NULL))
		give_up("mount");
	enable_a_controller();
	for (i = 0; i < CGROUPS; i++)
		if (mkdir(cgroup_path(i, ""), 0755))
			give_up("mkdir");
}

static void move_to(int number, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	if (write_file(cgroup_path(number, "cgroup.procs"), text))
		give_up("cgroup.procs");
}

static void close_events(void)
{
	while (count)
		close(fds[--count]);
}

/* Opens the events of a row on the CPU. Returns false if the maker's kernel counts no cgroups. */
static bool open_events(const struct event_maker *maker, const struct bench_row *row)
{
	int i, k, dir;

	for (i = 0; i < row->observed; i++) {
		dir = open(cgroup_path(i, ""), O_RDONLY | O_DIRECTORY);
		for (k = 0; k < row->events; k++) {
			struct perf_event_attr attr = event_instructions();

			attr.disabled = 0;
			attr.config = kinds[k];
			fds[count] = maker->open(&attr, dir, 0, -1, PERF_FLAG_PID_CGROUP);
			if (fds[count] < 0) {
				if (maker == &event_maker_perf)
					return false;
				give_up("open");
			}
			count++;
		}
		close(dir);
	}
	return true;
}

/* Returns the cost of a switch, or NOT_POSSIBLE. */
static unsigned long long measure(const struct event_maker *maker, const struct bench_row *row,
				  bool marked)
{
	unsigned long long without, with;

	/* The module removes its hook in the context switch a second after the last event. */
	sleep(2);
	move_to(row->other, partner);
	without = partner_least_cost(partner_yield);
	if (!open_events(maker, row)) {
		close_events();
		return NOT_POSSIBLE;
	}
	with = partner_least_cost(partner_yield);
	if (marked) {
		partner_continue();
		msr_mark();
		partner_yield();
		msr_mark();
		partner_stop();
	}
	close_events();
	return (with - without) / PARTS;
}

/* Prints a line: name, instructions, perf's or -, and number of marked executions. */
static void print_row(const struct bench_row *row, unsigned long long cost,
		      unsigned long long perf)
{
	printf("%s\t%llu\t", row->name, cost);
	if (perf == NOT_POSSIBLE)
		printf("-");
	else
		printf("%llu", perf);
	printf("\t%d\n", PARTS);
}

int main(void)
{
	const struct rlimit files = { CGROUPS * MAX_EVENTS + 100, CGROUPS * MAX_EVENTS + 100 };
	unsigned long long cost[ROWS];
	int i;

	if (setrlimit(RLIMIT_NOFILE, &files)) {
		perror("setrlimit");
		return EXIT_FAILURE;
	}
	partner = partner_start();
	if (partner < 0) {
		fprintf(stderr, "partner: %s\n", strerror(-partner));
		return EXIT_FAILURE;
	}
	make_cgroups();
	move_to(0, getpid());
	for (i = 0; i < ROWS; i++)
		cost[i] = measure(&event_maker_perfmon, &rows[i], true);
	for (i = 0; i < ROWS; i++)
		print_row(&rows[i], cost[i], measure(&event_maker_perf, &rows[i], false));
	partner_end();
	return EXIT_SUCCESS;
}
