// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_names N: executes about 4 * N instructions in two functions whose names
 * are also mangled names of C++ types.
 */
#include <stdlib.h>

#include "../lib/loop.h"

void i(unsigned long n)
{
	loop(n);
}

void f(unsigned long n)
{
	loop(n);
}

/* Called through these pointers, the functions are not inlined. */
void (*turns[])(unsigned long) = { i, f };

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;

	turns[0](n);
	turns[1](n);
	return 0;
}
