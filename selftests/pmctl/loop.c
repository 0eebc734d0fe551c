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
#include "start.h"

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
