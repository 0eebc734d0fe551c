// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Reads counters of a thread that runs on a core without the event. Replaces the functions of libc
 * that the library calls, so that the test needs neither the driver nor a hybrid processor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <perfmon.h>

/* The event's times enabled and running in ns. */
static uint64_t enabled, running;

int open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	return dup(STDERR_FILENO);
}

int ioctl(int fd, unsigned long call, ...)
{
	/*
	 * An ioctl of an event has perf's type '$'. The only other ioctl is the device's, which
	 * opens an event.
	 */
	return _IOC_TYPE(call) == '$' ? 0 : dup(fd);
}

ssize_t read(int fd, void *words, size_t size)
{
	const uint64_t reading[] = { 1, enabled, running, 5 };

	(void)fd;
	if (size != sizeof(reading))
		return 0;
	memcpy(words, reading, size);
	return size;
}

int main(void)
{
	struct perfmon_counters *counters = perfmon_open("r1c0:u", 0);
	uint64_t count = 0;

	if (!counters || perfmon_read(counters, &count) || count != 5) {
		printf("on a core with the event: %s\n", perfmon_error());
		return 1;
	}
	enabled = 20;
	running = 19;
	errno = 0;
	if (!perfmon_read(counters, &count) || errno != EIO || !strstr(perfmon_error(), "a core that lacks the event")) {
		printf("on a core without the event: %s\n", perfmon_error());
		return 1;
	}
	if (perfmon_reset(counters) || perfmon_read(counters, &count)) {
		printf("after a reset: %s\n", perfmon_error());
		return 1;
	}
	enabled = 40;
	running = 38;
	if (!perfmon_read(counters, &count)) {
		puts("again on a core without the event: the count is read");
		return 1;
	}
	perfmon_close(counters);
	return 0;
}
