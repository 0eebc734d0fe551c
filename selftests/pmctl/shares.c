// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_shares N: executes about 20 * N instructions in three functions, which
 * take turns and have 10, 30 and 60 percent of the instructions.
 */
#include <stdlib.h>

#include "../lib/loop.h"

static void share_10(unsigned long unit)
{
	loop(unit);
}

static void share_30(unsigned long unit)
{
	loop(3 * unit);
}

static void share_60(unsigned long unit)
{
	loop(6 * unit);
}

/* Called through these pointers, which are not static, the functions are not inlined. */
void (*turns[])(unsigned long) = { share_10, share_30, share_60 };

int main(int argc, char **argv)
{
	/* A turn is short compared with any period, and does not divide one. */
	const unsigned long unit = 101;
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;

	for (unsigned long done = 0; done < n; done += unit) {
		for (int i = 0; i < 3; i++)
			turns[i](unit);
	}
	return 0;
}
