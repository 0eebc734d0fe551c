// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "file.h"
#include "loop.h"
#include "perf.h"

static int perf_open(struct perf_event_attr attr, int pid, int cpu)
{
	int fd;

	attr.size = sizeof(attr);
	attr.disabled = 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			   PERF_FORMAT_TOTAL_TIME_RUNNING;
	fd = syscall(SYS_perf_event_open, &attr, pid, cpu, -1,
		     PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int perf_open_instructions(void)
{
	return perf_open((struct perf_event_attr) {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
	}, 0, -1);
}

int perf_open_sampling(int cpu, unsigned int period)
{
	return perf_open((struct perf_event_attr) {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period = period,
		.sample_type = PERF_SAMPLE_IP,
	}, -1, cpu);
}

int perf_open_task_clock(void)
{
	return perf_open((struct perf_event_attr) {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
	}, 0, -1);
}

int perf_open_cpu_samples(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
			 PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

long long perf_count_loop(int fd, unsigned long n)
{
	struct {
		__u64 value;
		__u64 enabled;
		__u64 running;
	} count;

	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	loop(n);
	if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
		return -errno;
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return -errno;
	return count.running == count.enabled ? (long long)count.value : -EBUSY;
}

int perf_hold_counters(void)
{
	int fd = perf_open_instructions();

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		close(fd);
		return -errno;
	}
	return fd;
}

long long perf_count_loop_once(unsigned long n)
{
	int fd = perf_open_instructions();
	long long value;

	if (fd < 0)
		return fd;
	value = perf_count_loop(fd, n);
	close(fd);
	return value;
}

int perf_count_short_loop(void)
{
	long long count = perf_count_loop_once(1000);

	return count < 0 ? (int)count : 0;
}

int perf_lift_limits(void)
{
	/* The kernel refuses to change the rate while the limit of the time is switched off. */
	int err = write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "25");

	if (!err)
		err = write_file("/proc/sys/kernel/perf_event_max_sample_rate", "100000000");
	return err ? err : write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
}
