// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_inside CGROUP.PROCS COMMAND... : moves to the cgroup of the file CGROUP.PROCS, and executes
 * COMMAND in it. The instructions between the move and the exec are the same each time.
 *
 * The program has no C library, whose start depends on the environment.
 */
#include <fcntl.h>
#include <sys/syscall.h>

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall" : "=a" (result) : "a" (number), "D" (a), "S" (b), "d" (c)
			 : "rcx", "r11", "memory");
	return result;
}

/* Called by _start below with the address of argc on the stack (System V ABI, AMD64, 3.4.1). */
void run(long *stack)
{
	char **argv = (char **)(stack + 1), **envp = argv + stack[0] + 1;
	long fd = call(SYS_open, (long)argv[1], O_WRONLY | O_CLOEXEC, 0);

	/* 0 stands for the writing process. */
	if (call(SYS_write, fd, (long)"0", 1) == 1)
		call(SYS_execve, (long)argv[2], (long)(argv + 2), (long)envp);
	call(SYS_exit_group, 127, 0, 0);
}

__asm__(".globl	_start\n"
	"_start:\n"
	"	mov	%rsp, %rdi\n"
	"	and	$-16, %rsp\n"
	"	call	run\n");
