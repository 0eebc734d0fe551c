// SPDX-License-Identifier: GPL-2.0-only
/*
 * loop N: executes LOOP_INSNS * N instructions and a constant number of
 * others, and exits with N modulo 256 if a second argument is given, else 0.
 *
 * The program has no C library, so the constant is the same for every N with
 * the same number of digits.
 */
#include <asm/unistd.h>

#include "../lib/loop.h"

/* Called by _start below. */
void run(long argc, char **argv)
{
	unsigned long n = 0;
	const char *p;
	long status;

	for (p = argc > 1 ? argv[1] : ""; *p; p++)
		n = 10 * n + (*p - '0');
	if (n)
		loop(n);
	status = argc > 2 ? n & 0xff : 0;
	__asm__ volatile("syscall" : : "a" (__NR_exit_group), "D" (status));
}

/* argc is on top of the stack, argv above it (System V ABI, AMD64, 3.4.1). */
__asm__(".globl	_start\n"
	"_start:\n"
	"	mov	(%rsp), %rdi\n"
	"	lea	8(%rsp), %rsi\n"
	"	and	$-16, %rsp\n"
	"	call	run\n");
