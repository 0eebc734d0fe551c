// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mapping_probes.h"

/* The file that lists all kprobes, one in each line. */
#define LIST	"/sys/kernel/debug/kprobes/list"

/* The limit of a wait, at least a minute. The wait reaches it only if the kprobes stay. */
#define TRIES	600
#define TRY_US	100000

int mapping_probes(void)
{
	FILE *f = fopen(LIST, "re");
	char line[256];
	int probes = 0;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		probes += strstr(line, "perf_event_mmap") || strstr(line, "setup_new_exec");
	fclose(f);
	return probes;
}

int mapping_probes_wait_until_gone(void)
{
	int i, probes = mapping_probes();

	for (i = 0; i < TRIES && probes > 0; i++) {
		usleep(TRY_US);
		probes = mapping_probes();
	}
	return probes > 0 ? -ETIMEDOUT : probes;
}
