// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "idle.h"
#include "loop.h"
#include "workers.h"

static void work(int cpu, unsigned long n, int in)
{
	char byte;

	if (pin_to_cpu(cpu) || read(in, &byte, 1) != 1)
		_exit(1);
	loop(n);
	_exit(0);
}

int workers_start(struct workers *w, const cpu_set_t *cpus, unsigned long n)
{
	int pipes[2], cpu;
	pid_t pid;

	*w = (struct workers) { .start_pipe = -1, .wait = -1 };
	if (pipe(pipes))
		return -errno;
	w->wait = pipes[0];
	w->start_pipe = pipes[1];
	for_each_cpu_in(cpu, cpus) {
		pid = fork();
		if (pid < 0)
			return -errno;
		if (!pid) {
			/*
			 * Closes the child's copy of the write end. So the child ends, instead of
			 * waiting, when no process has the write end open any more.
			 */
			close(w->start_pipe);
			work(cpu, n, w->wait);
		}
		w->count++;
	}
	return wait_until_idle();
}

int workers_release(struct workers *w)
{
	int i;

	for (i = 0; i < w->count; i++) {
		if (write(w->start_pipe, "", 1) != 1)
			return -EIO;
	}
	return 0;
}

int workers_wait(struct workers *w)
{
	int status, err = 0;

	for (; w->count; w->count--) {
		if (wait(&status) < 0 || status)
			err = -ECHILD;
	}
	return err;
}

int workers_run(struct workers *w)
{
	int err = workers_release(w);

	return err ? err : workers_wait(w);
}

void workers_end(struct workers *w)
{
	close(w->start_pipe);
	close(w->wait);
	workers_wait(w);
}
