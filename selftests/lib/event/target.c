// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "idle.h"
#include "samples.h"
#include "target.h"

/* The state of the task, in its own memory. */
struct target_work {
	int jobs, done, from, to;
	int count;		/* number of online CPUs */
	int at;
	cpu_set_t cpu[CPU_SETSIZE];
};

/* Ends the task if a step failed. The parent notices that the task is gone. */
static void exit_unless(bool ok)
{
	if (!ok)
		_exit(1);
}

static void do_step(struct target_work *w, enum step what)
{
	char byte;

	switch (what) {
	case STEP_YIELD:
		sched_yield();
		break;
	case STEP_MOVE:
		exit_unless(!sched_setaffinity(0, sizeof(*w->cpu), &w->cpu[w->at]));
		w->at = (w->at + 1) % w->count;
		break;
	case STEP_PASS:
		exit_unless(read(w->from, &byte, 1) == 1 && write(w->to, &byte, 1) == 1);
		break;
	default:
		break;
	}
}

static void *run_jobs(void *data)
{
	struct target_work *w = data;
	struct job job;
	unsigned long i;

	for (;;) {
		exit_unless(read(w->jobs, &job, sizeof(job)) == sizeof(job));
		for (i = 0; i < job.pieces; i++) {
			labelled_loop(job.n);
			do_step(w, job.step);
		}
		if (job.step == STEP_EXIT)
			_exit(0);
		exit_unless(write(w->done, "", 1) == 1);
	}
	return NULL;
}

/* Arguments of the second thread: its work, and the pipe to report its thread id to. */
static struct {
	struct target_work *work;
	int tid_pipe;
} second_thread;

static void *run_jobs_in_thread(void *data)
{
	pid_t tid = gettid();

	exit_unless(write(second_thread.tid_pipe, &tid, sizeof(tid)) == sizeof(tid));
	return run_jobs(data);
}

static void run_target(struct target_work *w, int cpu, bool threaded, int tid_pipe)
{
	static pthread_t thread;
	pid_t tid = getpid();
	cpu_set_t cpus;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	exit_unless(!cpus_online(&cpus));
	for_each_cpu_in(i, &cpus)
		CPU_SET(i, &w->cpu[w->count++]);
	exit_unless(cpu < 0 || !pin_to_cpu(cpu));
	if (!threaded) {
		exit_unless(write(tid_pipe, &tid, sizeof(tid)) == sizeof(tid));
		run_jobs(w);
	}
	second_thread.tid_pipe = tid_pipe;
	exit_unless(!pthread_create(&thread, NULL, run_jobs_in_thread, w));
	for (;;)
		pause();
}

/*
 * Returns whether the CPU of a task that is about to sleep or to exit has switched to another task.
 * Reading the file /proc/PID/syscall waits for the switch, in the kernel's task_current_syscall().
 */
static bool is_off_cpu(pid_t tid)
{
	char path[32], line[128] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	f = fopen(path, "re");
	/* If the task has exited, the file is missing or empty. */
	if (!f)
		return true;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	return strncmp(line, "running", strlen("running"));
}

/*
 * Waits until the task sleeps and is off its CPU. A task leaves its CPU a little after its state
 * has changed to sleeping.
 */
static int wait_until_off_cpu(pid_t tid)
{
	int err = wait_until_asleep(tid);
	unsigned int waited_us = 0;

	while (!err && !is_off_cpu(tid))
		err = wait_longer(&waited_us) ? wait_until_asleep(tid) : -ETIMEDOUT;
	return err;
}

static int start_target(struct target *t, int cpu, bool threaded)
{
	static struct target_work work;
	int jobs[2], done[2], tid_pipe[2], err = 0;

	*t = (struct target) { .jobs = -1, .done = -1, .from = t->from, .to = t->to };
	if (pipe2(jobs, O_CLOEXEC) || pipe2(done, O_CLOEXEC) || pipe2(tid_pipe, O_CLOEXEC))
		return -errno;
	t->pid = fork();
	if (t->pid < 0)
		return -errno;
	if (!t->pid) {
		close(jobs[1]);
		close(done[0]);
		work.jobs = jobs[0];
		work.done = done[1];
		work.from = t->from;
		work.to = t->to;
		run_target(&work, cpu, threaded, tid_pipe[1]);
	}
	close(jobs[0]);
	close(done[1]);
	close(tid_pipe[1]);
	t->jobs = jobs[1];
	t->done = done[0];
	if (read(tid_pipe[0], &t->tid, sizeof(t->tid)) != sizeof(t->tid))
		err = -ECHILD;
	close(tid_pipe[0]);
	return err ? err : wait_until_off_cpu(t->tid);
}

int target_start(struct target *t, int cpu, bool threaded)
{
	t->from = -1;
	t->to = -1;
	return start_target(t, cpu, threaded);
}

int target_start_on(struct target *t, const cpu_set_t *cpus, bool threaded)
{
	cpu_set_t own;
	int err;

	if (sched_getaffinity(0, sizeof(own), &own) || sched_setaffinity(0, sizeof(*cpus), cpus))
		return -errno;
	err = target_start(t, -1, threaded);
	if (sched_setaffinity(0, sizeof(own), &own) && !err)
		err = -errno;
	return err;
}

int target_start_ring(struct target *t, int count, int cpu)
{
	int i, err = 0, ends[2];

	for (i = 0; i < count; i++) {
		if (pipe2(ends, O_CLOEXEC))
			return -errno;
		t[i].from = ends[0];
		t[(i + count - 1) % count].to = ends[1];
	}
	for (i = 0; i < count && !err; i++)
		err = start_target(&t[i], cpu, false);
	if (!err && write(t[count - 1].to, "", 1) != 1)
		err = -errno;
	for (i = 0; i < count; i++) {
		close(t[i].from);
		close(t[i].to);
	}
	return err;
}

int target_start_job(struct target *t, struct job job)
{
	return write(t->jobs, &job, sizeof(job)) == sizeof(job) ? 0 : -errno;
}

int target_wait_job(struct target *t)
{
	ssize_t size;
	char byte;

	/* read(2) returns 0 if the target has exited. */
	size = read(t->done, &byte, 1);
	if (size < 0)
		return -errno;
	return wait_until_off_cpu(t->tid);
}

int target_run_job(struct target *t, struct job job)
{
	int err = target_start_job(t, job);

	return err ? err : target_wait_job(t);
}

int target_wait_until_off_cpu(const struct target *t)
{
	return wait_until_off_cpu(t->tid);
}

bool target_is_done(const struct target *t)
{
	struct pollfd fd = { .fd = t->done, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

long target_switches(const struct target *t)
{
	char path[48], line[128];
	long sum = 0, n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", t->pid, t->tid);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %ld", &n) == 1)
			sum += n;
	fclose(f);
	return sum;
}

void target_kill(struct target *t)
{
	if (t->pid <= 0)
		return;
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	close(t->jobs);
	close(t->done);
	t->pid = 0;
}
