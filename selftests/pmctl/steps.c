// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_steps COMMANDS ANSWERS : for each line N that is written into the FIFO COMMANDS, executes
 * LOOP_INSNS * N instructions and a constant number of others, and then writes a byte into the FIFO
 * ANSWERS. Runs until it is killed.
 *
 * The program has no C library, so the constant is the same for every N with the same number of
 * digits.
 */
#include <asm/unistd.h>
#include <fcntl.h>

#include "../lib/loop.h"
#include "start.h"

void run(long argc, char **argv)
{
	/* FIFOs that are open for reading and writing do not end when the other side is closed. */
	long commands = argc > 2 ? call(__NR_open, (long)argv[1], O_RDWR, 0) : -1;
	long answers = argc > 2 ? call(__NR_open, (long)argv[2], O_RDWR, 0) : -1;
	unsigned long n = 0;
	char c;

	if (commands < 0 || answers < 0)
		call(__NR_exit_group, 2, 0, 0);
	while (call(__NR_read, commands, (long)&c, 1) == 1) {
		if (c != '\n') {
			n = 10 * n + (c - '0');
			continue;
		}
		if (n)
			loop(n);
		n = 0;
		call(__NR_write, answers, (long)"\n", 1);
	}
	call(__NR_exit_group, 1, 0, 0);
}
