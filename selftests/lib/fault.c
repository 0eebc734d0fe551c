// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

#define DEBUGFS	"/sys/kernel/debug/"

/* fail-nth of this thread. Stays open: opening it would be a call that can fail, too. */
static int fail_nth = -1;

static int write_setting(const char *path, const char *value)
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
		err = write_setting(s->path, s->value);
		if (err)
			return err;
	}
	if (fail_nth < 0)
		fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return fail_nth < 0 ? -errno : 0;
}

int fault_arm(unsigned int n)
{
	char number[16];
	int length = snprintf(number, sizeof(number), "%u", n);

	return pwrite(fail_nth, number, length, 0) == length ? 0 : -errno;
}

int fault_disarm(void)
{
	char number[16] = "";

	/*
	 * Reads the number of calls until the one that fails. If that is the next call, it is the
	 * copy of this read: no fault was made before.
	 */
	if (pread(fail_nth, number, sizeof(number) - 1, 0) < 0)
		return errno == EFAULT ? 0 : -errno;
	/* The write copies as well, so it may be the call that fails. A failed write disarms, too. */
	if (pwrite(fail_nth, "0", 1, 0) != 1 && errno != EFAULT)
		return -errno;
	return atoi(number) == 0;
}
