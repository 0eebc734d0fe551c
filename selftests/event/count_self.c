// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the instructions of a loop in user mode. Needs only the headers.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/perfmon.h>

int main(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
	};
	struct perfmon_event_open this_thread = {
		.attr = (uintptr_t)&attr,
		.cpu = -1,
		.group_fd = -1,
	};
	int device = open(_PATH_PERFMON, O_RDONLY);
	int event = ioctl(device, PERFMON_EVENT_OPEN, &this_thread);
	uint64_t count;
	int i;

	for (i = 0; i < 1000000; i++)
		__asm__ volatile("");	/* Keeps the compiler from removing the loop. */
	if (event < 0 || read(event, &count, sizeof(count)) != sizeof(count))
		return perror(_PATH_PERFMON), 1;
	printf("%llu instructions\n", (unsigned long long)count);
	return 0;
}
