// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <unistd.h>

#include "child.h"

pid_t fork_waiting(int *start_pipe)
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	close(ends[pid ? 0 : 1]);
	*start_pipe = ends[1];
	if (!pid && read(ends[0], &byte, 1) != 1)
		_exit(1);
	return pid;
}
