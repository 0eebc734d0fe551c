// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "file.h"
#include "perfs_cgroups.h"

int perfs_cgroups_hierarchy(void)
{
	FILE *table = fopen("/proc/cgroups", "r");
	int hierarchy = -1;
	char line[80];

	while (table && hierarchy < 0 && fgets(line, sizeof(line), table))
		sscanf(line, "perf_event %d", &hierarchy);
	if (table)
		fclose(table);
	return hierarchy;
}

bool perfs_cgroups_exist(void)
{
	return perfs_cgroups_hierarchy() >= 0;
}

int perfs_cgroups_control(const char *root, const char *cgroup, char sign)
{
	char path[128], name[32] = "", text[40];
	FILE *controllers;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", root);
	controllers = fopen(path, "re");
	if (!controllers)
		return -errno;
	if (fscanf(controllers, "%31s", name) != 1)
		name[0] = '\0';
	fclose(controllers);
	if (!*name)
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", cgroup);
	snprintf(text, sizeof(text), "%c%s", sign, name);
	return write_file(path, text);
}

/*
 * Unmounting ends a hierarchy of version 1 only after its last cgroup was released, which is some
 * time after rmdir(2). So the hierarchy is mounted and unmounted again once a second.
 */
void perfs_cgroups_end_version_1(const char *place)
{
	int i;

	umount(place);
	/* Waits for at least a minute, since the host may be busy. */
	for (i = 1; i < 1200 && perfs_cgroups_hierarchy() > 0; i++) {
		usleep(50000);
		if (i % 20 == 0 && !mount("none", place, "cgroup", 0, "perf_event"))
			umount(place);
	}
}
