// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_interrupted MICROSECONDS CALLS [restart]: opens and closes an event CALLS times
 * while a timer sends a signal every MICROSECONDS; with `restart` the handler has
 * SA_RESTART. Prints the number of interrupted calls, and of calls with another error.
 *
 * The process stays on its CPU, and opens an event before the signals begin: from then on
 * pmctl handles its calls on that CPU.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/perf_event.h>

static void tick(int number)
{
	(void)number;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
	};
	struct sigaction action = { .sa_handler = tick, .sa_flags = argc > 3 ? SA_RESTART : 0 };
	struct itimerval timer = { 0 };
	cpu_set_t this_cpu;
	int i, fd, calls, interrupted = 0, failed = 0;

	if (argc < 3)
		return 2;
	timer.it_interval.tv_usec = atoi(argv[1]);
	timer.it_value = timer.it_interval;
	calls = atoi(argv[2]);
	CPU_ZERO(&this_cpu);
	CPU_SET(sched_getcpu(), &this_cpu);
	sched_setaffinity(0, sizeof(this_cpu), &this_cpu);
	close(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (i = 0; i < calls; i++) {
		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
		if (fd >= 0)
			close(fd);
		else if (errno == EINTR)
			interrupted++;
		else
			failed++;
	}
	printf("%d calls: %d interrupted, %d failed\n", calls, interrupted, failed);
	return interrupted || failed;
}
