/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps of fuzz_event: each makes calls, and compares their results with the model's.
 */
#ifndef SELFTESTS_EVENT_FUZZ_H
#define SELFTESTS_EVENT_FUZZ_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "event_model.h"
#include "event_random.h"

#define FUZZ_PROCESSES	8
#define MAX_ERRNO	134
#define PIECES		12

/*
 * The directory where the caller has mounted cgroups of version 2. Each process makes its own
 * nested cgroups there.
 */
#define FUZZ_CGROUPS_AT	"/tmp/fuzz_cgroups"
#define FUZZ_CGROUPS	2

enum fuzz_action {
	OPEN, CLOSE, DUP, ENABLE, DISABLE, RESET, ID, PERIOD, OUTPUT, PAUSE, OTHER, READ, WRITE,
	POLL, ASYNC, MAP, UNMAP, REMAP, PROTECT, JUNK, TAIL, DRAIN, LOOP, FORK, HELPER, MOVE,
	ENTER, ACTIONS,
};

struct fuzz_step {
	enum fuzz_action action;
	unsigned int slot, other;	/* indexes of events */
	__u64 value;			/* random number that the step's details are derived from */
	union model_attr attr;
};

/* A mapping, or the part that remains after munmap(2) or mprotect(2) of another part. */
struct mapping_piece {
	char *at;		/* NULL: unused */
	size_t pages;
	int event;		/* index of the event */
	bool readable, writable;
	bool first;		/* the piece begins with the event's page */
	bool whole;		/* no part was split off */
};

/* Where this process has written in a ring: nowhere, only to the tail, or anywhere. */
enum ring_writes { CLEAN, TAIL_MOVED, SPOILED };

/* Counts that all processes share. */
struct event_fuzz_counts {
	unsigned long long calls[FUZZ_PROCESSES];
	unsigned long long answers[ACTIONS][MAX_ERRNO];
	unsigned long long loops, records;
	unsigned int events_open, exclusive_open;	/* open events, including those that are being opened */
	unsigned int opens_begun;		/* number of opens that have begun */
};

struct event_fuzz {
	struct event_fuzz_counts *counts;
	unsigned int process;
	struct event_model model;
	int device;
	int self;			/* thread id */
	int fd[MODEL_EVENTS], dup[MODEL_EVENTS];
	bool counted[MODEL_EVENTS];	/* the event is included in counts->events_open */
	bool exclusive[MODEL_EVENTS];	/* the event is included in counts->exclusive_open */
	enum ring_writes ring_writes[MODEL_EVENTS];
	bool overwrites[MODEL_EVENTS];
	struct mapping_piece piece[PIECES];
	pid_t helper;			/* a process that can be sampled */
	bool helper_lives;
	int cgroup[FUZZ_CGROUPS];	/* descriptors of the directories; the second cgroup is in the first */
	int procs[1 + FUZZ_CGROUPS];	/* descriptors of cgroup.procs: of the root, then of these cgroups */
	int cgroup_depth;		/* number of these cgroups that this process is in */
	char *unmapped;			/* an address without memory */
	char difference[200];
};

int event_fuzz_begin(struct event_fuzz *f, struct event_fuzz_counts *counts,
		     unsigned int process, __u64 max_rate);
void event_fuzz_end(struct event_fuzz *f);

/* Executes a step. Returns false if the device and the model differ: see f->difference. */
bool event_fuzz_step(struct event_fuzz *f, const struct fuzz_step *s);

/* Unmaps and closes all events, and leaves the cgroups. */
void event_fuzz_close_all(struct event_fuzz *f);

#endif
