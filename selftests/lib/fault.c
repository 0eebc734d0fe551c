// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

#define DEBUGFS	"/sys/kernel/debug/"

/* Open all the time, so that what is done between the two has no faults. */
static int nth = -1;

static int set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int fault_enable(void)
{
	static const struct {
		const char *path;
		const char *value;
	} settings[] = {
		{ DEBUGFS "failslab/ignore-gfp-wait", "N" },
		{ DEBUGFS "failslab/verbose", "0" },
		{ DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N" },
		{ DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N" },
		{ DEBUGFS "fail_page_alloc/min-order", "0" },
		{ DEBUGFS "fail_page_alloc/verbose", "0" },
		{ DEBUGFS "fail_usercopy/verbose", "0" },
		{ NULL, NULL },
	}, *s;
	int err;

	for (s = settings; s->path; s++) {
		err = set(s->path, s->value);
		if (err)
			return err;
	}
	if (nth < 0)
		nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return nth < 0 ? -errno : 0;
}

int fault_arm(unsigned int n)
{
	char number[16];
	int length = snprintf(number, sizeof(number), "%u", n);

	return pwrite(nth, number, length, 0) == length ? 0 : -errno;
}

int fault_disarm(void)
{
	char number[16] = "";

	/*
	 * Reading tells how many are still to come before the one that fails.
	 * If that is the next, it is this read's own copy: then there was none.
	 */
	if (pread(nth, number, sizeof(number) - 1, 0) < 0)
		return errno == EFAULT ? 0 : -errno;
	/* Or it is the copy of this write, which ends it as well. */
	if (pwrite(nth, "0", 1, 0) != 1 && errno != EFAULT)
		return -errno;
	return atoi(number) == 0;
}
