/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs programs for other systems, which are in the test's folder.
 */
#ifndef SELFTESTS_COMPAT_PROGRAM_H
#define SELFTESTS_COMPAT_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "idle.h"

/* Runs the program @name. Returns the number that it prints, or a negative errno. */
static inline long long run_program(const char *name)
{
	char self[PATH_MAX - NAME_MAX] = "", path[PATH_MAX];
	long long value = -EIO;
	int out[2], status;
	FILE *f;
	pid_t pid;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/%s", dirname(self), name);
	if (pipe2(out, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		/*
		 * Waits until this process sleeps, so that the program does not count its
		 * instructions.
		 */
		if (dup2(out[1], STDOUT_FILENO) < 0 || wait_until_idle())
			_exit(1);
		execl(path, path, NULL);
		_exit(1);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	if (!f || fscanf(f, "%lld", &value) != 1)
		value = -EIO;
	if (f)
		fclose(f);
	if (waitpid(pid, &status, 0) != pid || status)
		value = -EIO;
	return value;
}

#endif
