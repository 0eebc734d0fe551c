// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts parts of a program, in two threads.
 *
 *     cc -pthread regions.c $(pkg-config --cflags --libs libperfmon)
 */
#include <pthread.h>
#include <stdlib.h>

#include <perfmon.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : 1;
}

static void *work(void *unused)
{
	int numbers[1000], i;

	PERFMON_BEGIN("work");
	PERFMON_BEGIN("fill");
	for (i = 0; i < 1000; i++)
		numbers[i] = (i * 7919) % 1000;
	PERFMON_END("fill");
	PERFMON_BEGIN("sort");
	qsort(numbers, 1000, sizeof(numbers[0]), compare);
	PERFMON_END("sort");
	PERFMON_END("work");
	return unused;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL))
		return perror("pthread_create"), 1;
	work(NULL);
	pthread_join(thread, NULL);
	return perfmon_report(stdout) || perfmon_failure() ? 1 : 0;
}
