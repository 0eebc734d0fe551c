// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts the instructions and the branches of a loop.
 *
 *     cc count.c $(pkg-config --cflags --libs libperfmon)
 */
#include <err.h>
#include <inttypes.h>

#include <perfmon.h>

int main(void)
{
	struct perfmon_counters *counters = perfmon_open("instructions:u,branches:u", 0);
	uint64_t counts[2];
	int i;

	if (!counters)
		errx(1, "%s", perfmon_error());
	perfmon_start(counters);
	for (i = 0; i < 1000000; i++)
		__asm__ volatile("");	/* Keeps the loop. */
	perfmon_stop(counters);
	if (perfmon_read(counters, counts))
		errx(1, "%s", perfmon_error());
	printf("%" PRIu64 " instructions, %" PRIu64 " branches\n", counts[0], counts[1]);
	perfmon_close(counters);
	return 0;
}
