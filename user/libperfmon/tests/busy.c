// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks the messages if other programs have the counters. Replaces the functions of libc that the
 * library calls, so that the test needs no driver.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/perfmon.h>
#include <perfmon.h>

#define OWNERS	5

/* The owners of the first counters. */
static struct perfmon_counter_owner owners[OWNERS] = {
	{ .kind = PERFMON_OWNER_EVENTS, .pid = 0, .comm = "make" },
	{ .kind = PERFMON_OWNER_EVENTS, .pid = 0, .comm = "perf" },
	{ .kind = PERFMON_OWNER_EVENTS, .pid = 12, .comm = "perf" },
	{ .kind = PERFMON_OWNER_EVENTS, .pid = 12, .comm = "perf" },
	{ .kind = PERFMON_OWNER_EVENTS, .pid = 0, .comm = "" },
};
/* Number of counters that have owners. */
static int owned_counters;
/* Opening an event fails with EBUSY. */
static bool is_busy;

int open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	return dup(STDERR_FILENO);
}

int ioctl(int fd, unsigned long call, ...)
{
	struct perfmon_counter_owner *answer;
	va_list arguments;

	if (call == PERFMON_GET_OWNER) {
		va_start(arguments, call);
		answer = va_arg(arguments, struct perfmon_counter_owner *);
		va_end(arguments);
		if (answer->num < owned_counters)
			*answer = owners[answer->num];
		else
			answer->kind = PERFMON_OWNER_NONE;
		return 0;
	}
	if (_IOC_TYPE(call) == '$')
		return 0;
	if (is_busy) {
		errno = EBUSY;
		return -1;
	}
	return dup(fd);
}

ssize_t read(int fd, void *words, size_t size)
{
	const uint64_t reading[] = { 1, 0, 0, 5 };

	(void)fd;
	if (size != sizeof(reading))
		return 0;
	memcpy(words, reading, size);
	return size;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	(void)address;
	(void)length;
	(void)protection;
	(void)flags;
	(void)fd;
	(void)offset;
	errno = EPERM;
	return MAP_FAILED;
}

/* Returns whether the last message has @words; prints it if not. */
static bool says(const char *words)
{
	if (strstr(perfmon_error(), words))
		return true;
	printf("not `%s`: %s\n", words, perfmon_error());
	return false;
}

int main(void)
{
	struct perfmon_counters *counters = perfmon_open("r1c0:u", 0);
	bool is_right = true;

	if (!counters || perfmon_page(counters, 0)) {
		puts(counters ? "an event's page is mapped" : perfmon_error());
		return 1;
	}
	is_right &= says("this user may not lock so much memory");
	perfmon_close(counters);
	is_busy = true;
	is_right &= !perfmon_open("r1c0:u", 0) && says("no counter is free for this event: no program has one:");
	owned_counters = OWNERS;
	is_right &= !perfmon_open("r1c0:u", 0) &&
		 says(": make has 1 counter, perf has 1 counter, perf (pid 12) has 2 counters, another program has 1 counter. ");
	return !is_right;
}
