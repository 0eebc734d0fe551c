// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts regions whose numbers of instructions are known for every compiler: an empty region, a loop,
 * and a region around both. Prints the counts.
 */
#include <inttypes.h>

#include <perfmon.h>

int main(void)
{
	struct perfmon_total totals[3];
	size_t n, i;

	PERFMON_BEGIN("around");
	PERFMON_BEGIN("nothing");
	PERFMON_END("nothing");
	PERFMON_BEGIN("loop");
	__asm__ volatile("	movl	$1000, %%ecx\n"
			 "1:	decl	%%ecx\n"
			 "	jnz	1b"
			 : : : "ecx", "cc");
	PERFMON_END("loop");
	PERFMON_END("around");
	n = perfmon_totals(totals, 3);
	for (i = 0; i < n; i++)
		printf("%s %" PRIu64 "%c", totals[i].name, totals[i].counts[0], i == n - 1 ? '\n' : ' ');
	if (perfmon_failure())
		puts(perfmon_failure());
	return 0;
}
