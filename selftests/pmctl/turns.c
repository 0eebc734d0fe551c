// SPDX-License-Identifier: GPL-2.0-only
/*
 * turns N: executes LOOP_INSNS * N instructions and prints a line, again and again without an end.
 * The number of lines shows the progress.
 */
#include <stdlib.h>
#include <unistd.h>

#include "../lib/loop.h"

static __attribute__((noinline)) void turn(unsigned long n)
{
	loop(n);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;

	while (write(STDOUT_FILENO, "\n", 1) == 1)
		turn(n);
	return 1;
}
