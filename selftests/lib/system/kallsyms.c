// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kallsyms.h"

int find_kernel_function(const char *name, struct kernel_function *f)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	unsigned long long address;
	char line[512], found[256];

	memset(f, 0, sizeof(*f));
	/* The file is sorted by address: a function ends where the next symbol begins. */
	while (symbols && !f->end && fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %*c %255s", &address, found) != 2)
			continue;
		if (f->start && address > f->start)
			f->end = address;
		else if (!strcmp(found, name))
			f->start = address;
	}
	if (symbols)
		fclose(symbols);
	return f->end ? 0 : -ENOENT;
}

int find_kernel_text(const char *first, const char *end, struct kernel_function *f)
{
	struct kernel_function behind;
	int err = find_kernel_function(first, f);

	if (!err)
		err = find_kernel_function(end, &behind);
	f->end = err ? 0 : behind.start;
	return err;
}

int find_kernel_module(const char *name, struct kernel_function *f)
{
	FILE *modules = fopen("/proc/modules", "r");
	unsigned long long address;
	char line[512], found[64];
	unsigned long size;

	memset(f, 0, sizeof(*f));
	while (modules && !f->end && fgets(line, sizeof(line), modules)) {
		if (sscanf(line, "%63s %lu %*s %*s %*s %llx", found, &size, &address) == 3 &&
		    !strcmp(found, name)) {
			f->start = address;
			f->end = address + size;
		}
	}
	if (modules)
		fclose(modules);
	return f->end ? 0 : -ENOENT;
}
