// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

#define DEBUGFS	"/sys/kernel/debug/"

/* The beginning of the names of the kernel's unbound workers. */
#define UNBOUND	"kworker/u"

/*
 * The file fail-nth of this thread. It stays open, because opening it would itself be a call that
 * can fail.
 */
static int fail_nth = -1;

/* The files fail-nth of the workers that are armed. */
static int worker_fail_nth[64];
static unsigned int armed_workers;

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
	 * Reads the number of calls until the call that fails. If the next call is to fail, this
	 * read itself fails when it copies the number: then no earlier call has failed.
	 */
	if (pread(fail_nth, number, sizeof(number) - 1, 0) < 0)
		return errno == EFAULT ? 0 : -errno;
	/* The write copies as well, so it may be the call that fails. A failed write disarms, too. */
	if (pwrite(fail_nth, "0", 1, 0) != 1 && errno != EFAULT)
		return -errno;
	return atoi(number) == 0;
}

/* Returns whether a process is one of the kernel's unbound workers. */
static bool is_unbound_worker(const char *pid)
{
	char path[32], name[sizeof(UNBOUND)];
	FILE *f;
	bool is_one;

	snprintf(path, sizeof(path), "/proc/%.10s/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	is_one = fgets(name, sizeof(name), f) && !strcmp(name, UNBOUND);
	fclose(f);
	return is_one;
}

int fault_arm_workers(unsigned int n)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char path[32];
	int fd;

	if (!dir)
		return -errno;
	armed_workers = 0;
	while ((entry = readdir(dir)) && armed_workers < sizeof(worker_fail_nth) / sizeof(int)) {
		if (!isdigit(*entry->d_name) || !is_unbound_worker(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%.10s/fail-nth", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		/* A worker that is idle for long may exit. */
		if (fd < 0)
			continue;
		if (dprintf(fd, "%u", n) > 0)
			worker_fail_nth[armed_workers++] = fd;
		else
			close(fd);
	}
	closedir(dir);
	return armed_workers ? 0 : -ESRCH;
}

int fault_disarm_workers(void)
{
	int faults = 0;
	unsigned int i;

	for (i = 0; i < armed_workers; i++) {
		char number[16] = "";

		if (pread(worker_fail_nth[i], number, sizeof(number) - 1, 0) > 0 && !atoi(number))
			faults = 1;
		/* Fails if the worker has exited. */
		if (pwrite(worker_fail_nth[i], "0", 1, 0) != 1 && errno != ESRCH)
			faults = -errno;
		close(worker_fail_nth[i]);
	}
	armed_workers = 0;
	return faults;
}
