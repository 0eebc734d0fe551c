// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "loop.h"
#include "perf.h"

static int perf_open(__u32 type, __u64 config)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			 PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int perf_open_instructions(void)
{
	return perf_open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
}

int perf_open_task_clock(void)
{
	return perf_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
}

long long perf_count_loop(int fd, unsigned long n)
{
	__u64 value;

	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	loop(n);
	if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
		return -errno;
	if (read(fd, &value, sizeof(value)) != sizeof(value))
		return -errno;
	return value;
}
