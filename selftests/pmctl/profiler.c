// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_profiler N: profiles its own threads as async-profiler does. Each thread has an event
 * of perf_event_open(2), a ring of one page, and a signal at each sample, whose handler
 * reads the ring. Each thread calls a function recursively, to a different depth, and executes
 * 2 * N instructions in the deepest call.
 *
 * Prints for each thread the file of its event, and whether its samples are as expected:
 * a sample for each period of the count, in the thread's own loop and with its call chain.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "event_ring.h"
#include "samples.h"

#define THREADS		3
#define PERIOD		100003
#define TYPE		(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN)

struct thread {
	pthread_t handle;
	unsigned long iterations;
	unsigned int depth;
	int fd, error;
	struct event_ring ring;
	struct event_record record;
	unsigned long signals, samples, elsewhere, shallow, foreign;
	/* The event's count and its lost samples, read at the end. */
	struct { __u64 count, lost; } total;
};

static struct thread threads[THREADS];
static __thread struct thread *self;

static void read_ring(struct thread *t)
{
	const struct sample_parts parts = { .type = TYPE };
	struct sample sample;

	while (event_ring_next(&t->ring, &t->record)) {
		/* The event itself counts lost samples; throttling does no harm. */
		if (t->record.header.type == PERF_RECORD_LOST ||
		    t->record.header.type == PERF_RECORD_THROTTLE ||
		    t->record.header.type == PERF_RECORD_UNTHROTTLE)
			continue;
		if (t->record.header.type != PERF_RECORD_SAMPLE ||
		    !sample_parse(&t->record, &parts, &sample)) {
			t->foreign++;
			continue;
		}
		t->samples++;
		t->foreign += sample.tid != (__u32)gettid();
		/* A few samples are in the handler and around the loop. */
		if (!in_labelled_loop(sample.ip)) {
			t->elsewhere++;
			continue;
		}
		/* A chain: a mark, the loop, as many calls as the thread's depth, and the start. */
		t->shallow += sample.chain_length < 2 + t->depth;
	}
}

/* Runs in the thread that was sampled. */
static void on_sample(int signal, siginfo_t *info, void *context)
{
	int before = errno;

	(void)signal;
	(void)context;
	if (!self || info->si_fd != self->fd)
		return;
	self->signals++;
	read_ring(self);
	errno = before;
}

static __attribute__((noinline)) unsigned int descend(unsigned int depth, unsigned long n)
{
	if (!depth)
		labelled_loop(n);
	else
		depth += descend(depth - 1, n);
	__asm__ volatile("");
	return depth;
}

/* Opens an event for this thread, on any CPU. Returns 0 or an error number. */
static int begin(struct thread *t)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = gettid() };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period = PERIOD,
		.sample_type = TYPE,
		.read_format = PERF_FORMAT_LOST,
		.disabled = 1,
		.wakeup_events = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int error;

	t->fd = syscall(SYS_perf_event_open, &attr, gettid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (t->fd < 0)
		return errno;
	error = event_ring_map(&t->ring, t->fd, 0, false);
	if (error)
		return -error;
	self = t;
	if (fcntl(t->fd, F_SETFL, O_ASYNC | O_NONBLOCK) || fcntl(t->fd, F_SETSIG, SIGPROF) ||
	    fcntl(t->fd, F_SETOWN_EX, &owner) || ioctl(t->fd, PERF_EVENT_IOC_RESET, 0) ||
	    ioctl(t->fd, PERF_EVENT_IOC_ENABLE, 0))
		return errno;
	return 0;
}

static void *run(void *argument)
{
	struct thread *t = argument;
	sigset_t signals;

	t->error = begin(t);
	if (t->error)
		return NULL;
	descend(t->depth, t->iterations);
	ioctl(t->fd, PERF_EVENT_IOC_DISABLE, 0);
	/* A last signal may be pending: its handler or this function reads the ring. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGPROF);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	read_ring(t);
	if (read(t->fd, &t->total, sizeof(t->total)) != sizeof(t->total))
		t->error = errno;
	return NULL;
}

static void print(const struct thread *t)
{
	unsigned long periods = t->total.count / PERIOD;
	char path[32], file[64] = "";

	if (t->error) {
		printf("thread: %s\n", strerror(t->error));
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	if (readlink(path, file, sizeof(file) - 1) < 0)
		perror(path);
	printf("thread: %s samples %s signals %s places %s chains %s\n", file,
	       t->samples && t->samples + t->total.lost == periods ? "all" : "missing",
	       t->signals >= t->samples / 2 ? "come" : "missing",
	       !t->foreign && t->elsewhere <= periods / 10 ? "right" : "wrong",
	       t->shallow ? "short" : "whole");
	printf("# depth %u: %lu samples, %lu lost, %lu periods, %lu signals, %lu elsewhere, %lu short, %lu foreign\n",
	       t->depth, t->samples, (unsigned long)t->total.lost, periods, t->signals,
	       t->elsewhere, t->shallow, t->foreign);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART };
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 10000000;
	int i;

	if (sigaction(SIGPROF, &action, NULL))
		return 1;
	for (i = 0; i < THREADS; i++) {
		threads[i].iterations = n;
		threads[i].depth = 5 * i + 1;
		if (pthread_create(&threads[i].handle, NULL, run, &threads[i]))
			return 1;
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i].handle, NULL);
	for (i = 0; i < THREADS; i++)
		print(&threads[i]);
	return 0;
}
