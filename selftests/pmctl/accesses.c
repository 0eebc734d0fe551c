// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_accesses N: executes N rounds of one load from the variable `loaded` and one store to the variable `stored`.
 *
 * The program has no C library, so there are hardly any other accesses.
 */
#include <asm/unistd.h>

#include "start.h"

unsigned long loaded = 1, stored = 1;

void run(long argc, char **argv)
{
	unsigned long n = 0;
	const char *p;

	for (p = argc > 1 ? argv[1] : ""; *p; p++)
		n = 10 * n + (*p - '0');
	if (n)
		__asm__ volatile("1:	mov	%1, %%rax\n"
				 "	mov	%%rax, %2\n"
				 "	dec	%0\n"
				 "	jnz	1b\n"
				 : "+r" (n) : "m" (loaded), "m" (stored) : "rax", "cc", "memory");
	call(__NR_exit_group, 0, 0, 0);
}
