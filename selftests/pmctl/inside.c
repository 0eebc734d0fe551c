// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_inside CGROUP.PROCS COMMAND... : moves to the cgroup of the file CGROUP.PROCS, and executes
 * COMMAND in it. The instructions between the move and the exec are the same each time.
 *
 * The program has no C library, whose start depends on the environment.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "start.h"

void run(long argc, char **argv)
{
	/* The environment is above argv and its NULL (System V ABI, AMD64, 3.4.1). */
	char **envp = argv + argc + 1;
	long fd = call(SYS_open, (long)argv[1], O_WRONLY | O_CLOEXEC, 0);

	/* 0 stands for the writing process. */
	if (call(SYS_write, fd, (long)"0", 1) == 1)
		call(SYS_execve, (long)argv[2], (long)(argv + 2), (long)envp);
	call(SYS_exit_group, 127, 0, 0);
}
