// SPDX-License-Identifier: GPL-2.0-only
/*
 * exec PROGRAM [ARGUMENT...]: becomes PROGRAM, with an empty environment.
 *
 * The number of a program's instructions depends a little on its environment, and pmctl and perf
 * pass on different environments. This program has no C library, so it executes the same
 * instructions under both tools.
 */
#include <asm/unistd.h>

#include "start.h"

void run(long argc, char **argv)
{
	char *const envp[] = { 0 };
	long result;

	if (argc > 1)
		__asm__ volatile("syscall"
				 : "=a" (result)
				 : "a" (__NR_execve), "D" (argv[1]),
				   "S" (argv + 1), "d" (envp)
				 : "rcx", "r11", "memory");
	__asm__ volatile("syscall" : : "a" (__NR_exit_group), "D" (127L));
}
