/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks to be counted: a process, or a thread of one, that executes known loops when
 * it is told to and sleeps in between. The instructions around the loops are the same
 * for the same steps, so two jobs that differ in @n alone differ by
 * LOOP_INSNS * @pieces for each of it.
 */
#ifndef SELFTESTS_TARGET_H
#define SELFTESTS_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include <linux/types.h>

struct job {
	unsigned long n;	/* at least 1 */
	unsigned long pieces;	/* each is labelled_loop(@n) and the step */
	enum step {
		STEP_NONE,
		STEP_YIELD,	/* sched_yield(2) */
		STEP_MOVE,	/* to the next online CPU */
		STEP_PASS,	/* the byte, to the next target of a ring */
		STEP_EXIT,	/* of the process, after the last piece */
	} step;
};

struct target {
	pid_t pid;		/* the process */
	pid_t tid;		/* the thread that executes the jobs */
	int jobs;		/* are written here */
	int done;		/* here is a byte after each */
	int from, to;		/* STEP_PASS: pipes */
};

/*
 * Starts a target, which may run on CPU @cpu only, or on any (-1). @threaded: its jobs
 * are for a second thread. Returns when it sleeps: 0 or a negative errno.
 */
int target_start(struct target *t, int cpu, bool threaded);

/* The same for @count targets on CPU @cpu, which pass a byte around. */
int target_start_ring(struct target *t, int count, int cpu);

/* Lets it execute a job, and waits for the end, when it sleeps or is gone. */
int target_run(struct target *t, struct job job);

/* The two halves of target_run(). */
int target_go(struct target *t, struct job job);
int target_wait(struct target *t);

/* Is it done? */
bool target_done(const struct target *t);

/* The number of context switches of its thread so far, or a negative errno. */
long target_switches(const struct target *t);

/* Kills it, if it is there, and waits. */
void target_end(struct target *t);

#endif
