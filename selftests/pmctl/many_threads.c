// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_many_threads N FILE [leave]: a process of N threads, which sleep until it is killed. The
 * last thread has a name that is not UTF-8. FILE is created when all threads run. With `leave`, the
 * first thread ends at SIGUSR1.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_barrier_t begun;

static void *sleep_as(void *name)
{
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&begun);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	char usual[] = "usual", odd[] = { 'a', '\xff', 'b', 0 };
	int i, number, n = argc > 2 ? atoi(argv[1]) : 0;
	pthread_attr_t small;
	pthread_t thread;
	sigset_t end;

	if (n < 2)
		return 2;
	/* A signal that comes before the first thread waits for it is not lost. */
	sigemptyset(&end);
	sigaddset(&end, SIGUSR1);
	sigprocmask(SIG_BLOCK, &end, NULL);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&begun, NULL, n);
	for (i = 1; i < n; i++) {
		if (pthread_create(&thread, &small, sleep_as, i + 1 < n ? usual : odd))
			return 1;
	}
	pthread_barrier_wait(&begun);
	close(creat(argv[2], 0600));
	sigwait(&end, &number);
	if (argc > 3)
		pthread_exit(NULL);
	return 0;
}
