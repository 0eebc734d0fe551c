/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks to be counted: a process, or a thread of it, executes jobs (known loops) on request
 * and sleeps in between. The instructions around the loops are the same for the same steps,
 * so the counts of two jobs that differ only in @n, by 1, differ by LOOP_INSNS * @pieces.
 */
#ifndef SELFTESTS_TARGET_H
#define SELFTESTS_TARGET_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include <linux/types.h>

struct job {
	unsigned long n;	/* rounds of each loop, at least 1 */
	unsigned long pieces;	/* how often labelled_loop(@n) and the step are executed */
	enum step {
		STEP_NONE,
		STEP_YIELD,	/* sched_yield(2) */
		STEP_MOVE,	/* moves to the next online CPU */
		STEP_PASS,	/* passes a byte to the next target of a ring */
		STEP_EXIT,	/* ends the process after the last piece */
	} step;
};

struct target {
	pid_t pid;		/* PID of the process */
	pid_t tid;		/* ID of the thread that executes the jobs */
	int jobs;		/* pipe to the task: jobs */
	int done;		/* pipe from the task: a byte after each job */
	int from, to;		/* pipes of STEP_PASS */
};

/*
 * Starts a target, pinned to CPU @cpu, or on any CPU (-1). If @threaded, a second thread
 * executes the jobs. Returns when the target sleeps, off its CPU: 0 or a negative errno.
 */
int target_start(struct target *t, int cpu, bool threaded);

/*
 * Starts a target that runs on @cpus, and moves between them. In contrast, a target of
 * target_start() runs on the caller's CPUs, and so stays on one CPU if the caller is pinned.
 */
int target_start_on(struct target *t, const cpu_set_t *cpus, bool threaded);

/* Starts @count targets on CPU @cpu, which pass a byte around. Returns 0 or a negative errno. */
int target_start_ring(struct target *t, int count, int cpu);

/* Starts a job, and waits until its end, when the target sleeps or has exited. */
int target_run_job(struct target *t, struct job job);

/* The two halves of target_run_job(): start a job, wait for its end. */
int target_start_job(struct target *t, struct job job);
int target_wait_job(struct target *t);

/* Waits until the target, which is about to sleep or is frozen, is off its CPU. */
int target_wait_until_off_cpu(const struct target *t);

/* Returns whether the last job has ended. */
bool target_is_done(const struct target *t);

/* Returns the context switches of the target's thread so far, or a negative errno. */
long target_switches(const struct target *t);

/* Kills the target, if it exists, and waits for its end. */
void target_kill(struct target *t);

#endif
