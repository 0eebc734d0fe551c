/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The start of a program without a C library, because the instructions of the library's start
 * depend on the environment. The program defines run(), which does not return.
 */
#ifndef SELFTESTS_START_H
#define SELFTESTS_START_H

void run(long argc, char **argv);

/* argc is on top of the stack, argv above it (System V ABI, AMD64, 3.4.1). */
__asm__(".globl	_start\n"
	"_start:\n"
	"	mov	(%rsp), %rdi\n"
	"	lea	8(%rsp), %rsi\n"
	"	and	$-16, %rsp\n"
	"	call	run\n");

/* Makes a system call. Returns its result, or a negative errno. */
static inline long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall" : "=a" (result) : "a" (number), "D" (a), "S" (b), "d" (c)
			 : "rcx", "r11", "memory");
	return result;
}

#endif
