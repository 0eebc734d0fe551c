// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "restore.h"

int restore_begin(struct restore *r)
{
	int cpu, err = machine_properties(&r->p);

	if (!err)
		err = cpus_online(&r->cpus);
	if (err)
		return err;
	for_each_cpu_in(cpu, &r->cpus) {
		if (cpu >= TRACE_MAX_CPUS)
			return -E2BIG;
		err = snapshot_read(&r->p, cpu, &r->undisturbed[cpu]);
		if (!err)
			err = snapshot_disturb(&r->p, cpu, &r->undisturbed[cpu]);
		if (!err)
			err = snapshot_read(&r->p, cpu, &r->before[cpu]);
		if (err)
			return err;
	}
	/* snapshot_read() has pinned the thread. */
	return sched_setaffinity(0, sizeof(r->cpus), &r->cpus) ? -errno : 0;
}

int restore_fork(struct restore *r, struct restore_pipes *pipes)
{
	int in[2], out[2];

	if (pipe(in) || pipe(out))
		return -errno;
	r->to_child = in[1];
	r->from_child = out[0];
	r->child = fork();
	if (r->child < 0)
		return -errno;
	close(r->child ? in[0] : in[1]);
	close(r->child ? out[1] : out[0]);
	*pipes = (struct restore_pipes) { .in = in[0], .out = out[1] };
	return r->child;
}

int restore_report_step(const struct restore_pipes *pipes)
{
	char byte;

	return write(pipes->out, "", 1) == 1 && read(pipes->in, &byte, 1) == 1 ?
		0 : -EPIPE;
}

int restore_wait_until_used(const struct restore *r)
{
	char byte;

	return read(r->from_child, &byte, 1) == 1 ? 0 : -EPIPE;
}

int restore_end_child(const struct restore *r, enum restore_end end)
{
	if (end == KILL)
		kill(r->child, SIGKILL);
	else if (write(r->to_child, "", 1) != 1)
		return -EPIPE;
	if (end == CLOSE || end == STOP)
		return restore_wait_until_used(r);
	return waitpid(r->child, NULL, 0) == r->child ? 0 : -ECHILD;
}

const char *restore_difference(const struct restore *r)
{
	return snapshot_difference_now(&r->p, &r->cpus, r->before);
}

void restore_finish(const struct restore *r)
{
	int cpu;

	close(r->to_child);
	for_each_cpu_in(cpu, &r->cpus)
		snapshot_write(&r->p, cpu, &r->undisturbed[cpu]);
}
