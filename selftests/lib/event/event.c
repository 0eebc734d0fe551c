// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "event.h"
#include "loop.h"

/* The words of the largest result of read(2) in the tests, which is the result for a group. */
#define MAX_WORDS	128

/* The limit of the wait for the end of the other maker's events, in units of 10 ms. */
#define PATIENCE	6000

static int open_perf(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
		     unsigned long flags)
{
	int fd = syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);

	return fd < 0 ? -errno : fd;
}

static int open_perfmon(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
			unsigned long flags)
{
	const struct perfmon_event_open arguments = {
		.attr = (uintptr_t)attr,
		.pid = pid,
		.cpu = cpu,
		.group_fd = group_fd,
		.flags = flags,
	};

	return event_open_raw(&arguments);
}

const struct event_maker event_maker_perf = {
	.name = "perf",
	.open = open_perf,
	.takes_turns = true,
	.reset_may_keep_exited = true,
	.time_on_other_cpus = true,
	.polls_pages_only = true,
	.children_keep_rdpmc = true,
	.children_swap_periods = true,
	.counts_lost_records = true,
	.has_wrong_stack_sizes = true,
};

const struct event_maker event_maker_perfmon = {
	.name = "perfmon",
	.open = open_perfmon,
	.turns_flag = PERFMON_EVENT_ROTATE,
};

int event_open_raw(const struct perfmon_event_open *arguments)
{
	int device = device_open(O_RDONLY), fd;

	if (device < 0)
		return device;
	fd = ioctl(device, PERFMON_EVENT_OPEN, arguments);
	if (fd < 0)
		fd = -errno;
	close(device);
	return fd;
}

struct perf_event_attr event_instructions(void)
{
	return (struct perf_event_attr) {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
}

struct perf_event_attr event_dummy(void)
{
	struct perf_event_attr attr = event_instructions();

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	return attr;
}

int event_open_instructions(const struct event_maker *maker, pid_t tid)
{
	struct perf_event_attr attr = event_instructions();

	return maker->open(&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int event_open_of_cgroup(const struct event_maker *maker, struct perf_event_attr attr,
			 const char *path, int cpu)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

	fd = maker->open(&attr, dir, cpu, -1, PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC);
	close(dir);
	return fd;
}

bool event_wait_until_possible(const struct event_maker *maker, void (*meanwhile)(void))
{
	int i, fd;

	for (i = 0; i < PATIENCE; i++) {
		fd = event_open_instructions(maker, 0);
		if (fd >= 0) {
			close(fd);
			return true;
		}
		if (meanwhile)
			meanwhile();
		usleep(10000);
	}
	return false;
}

int event_ioctl(int fd, unsigned long cmd, unsigned long arg)
{
	int result = ioctl(fd, cmd, arg);

	return result < 0 ? -errno : result;
}

int event_enable(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

int event_disable(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

int event_reset(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
}

__u64 event_id(int fd)
{
	__u64 id = 0;

	return ioctl(fd, PERF_EVENT_IOC_ID, &id) ? 0 : id;
}

long long event_fdinfo_number(int fd, const char *name)
{
	long long value = -1;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoll(line + strlen(name) + 1, NULL, 0);
	fclose(f);
	return value;
}

__s64 event_count(int fd)
{
	__s64 words[MAX_WORDS];
	ssize_t size = read(fd, words, sizeof(words));

	if (size < 0)
		return -errno;
	return size < (ssize_t)sizeof(*words) ? -ENODATA : *words;
}

__s64 event_loop_count(int fd, unsigned long n)
{
	__s64 before = event_count(fd), after;
	int err = event_enable(fd);

	loop(n);
	if (!err)
		err = event_disable(fd);
	after = event_count(fd);
	if (err)
		return err;
	return before < 0 ? before : after < 0 ? after : after - before;
}

__s64 event_loop_count_running(int fd, unsigned long n)
{
	__s64 before = event_count(fd), after;

	loop(n);
	after = event_count(fd);
	return before < 0 ? before : after < 0 ? after : after - before;
}
