/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that execute the loop on several CPUs at the same time.
 */
#ifndef SELFTESTS_WORKERS_H
#define SELFTESTS_WORKERS_H

#include <sched.h>

struct workers {
	int count;
	int start_pipe;	/* write end of a pipe: each byte starts one process */
	int wait;	/* read end of that pipe */
};

/**
 * workers_start() - start a process on each CPU that will execute loop(@n)
 *
 * Returns when these processes, and every other process, sleep.
 *
 * Return: 0 or a negative errno; workers_end() is to be called in both cases.
 */
int workers_start(struct workers *w, const cpu_set_t *cpus, unsigned long n);

/* Lets the processes execute the loop, and waits until they have exited: 0 or a negative errno. */
int workers_run(struct workers *w);

/* The two halves of workers_run(): start the processes, wait for their end. */
int workers_release(struct workers *w);
int workers_wait(struct workers *w);

void workers_end(struct workers *w);

#endif
