// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

/* Returns the value after @name in a file with a name and a number in each line, or -1. */
static long read_kb(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	size_t length = strlen(name);
	char line[128];
	long value = -1;

	if (!f)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, length) && line[length] == ':')
			value = atol(line + length + 1);
	}
	fclose(f);
	return value;
}

long memory_kb(const char *name)
{
	return read_kb("/proc/meminfo", name);
}

long memory_pinned_kb(void)
{
	return read_kb("/proc/self/status", "VmPin");
}

long memory_slab_kb(void)
{
	if (!access("/sys/kernel/debug/kmemleak", F_OK))
		return 0;
	return memory_kb("SUnreclaim");
}

int memory_buffers(void)
{
	/*
	 * vmallocinfo lists each area with the function that allocated it. For a buffer, this is
	 * some function of the module, depending on the compiler.
	 */
	FILE *f = fopen("/proc/vmallocinfo", "r");
	char line[512];
	int count = 0;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		count += !!strstr(line, "[perfmon]");
	fclose(f);
	return count;
}
