// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

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

/*
 * A hierarchy of version 1 ends some time after an umount(2), if its last cgroup was released
 * before, which is some time after rmdir(2): so once a second there is another umount(2).
 */
void perfs_cgroups_end_version_1(const char *place)
{
	int i;

	umount(place);
	/* A minute at least, since the host may be busy. */
	for (i = 1; i < 1200 && perfs_cgroups_hierarchy() > 0; i++) {
		usleep(50000);
		if (i % 20 == 0 && !mount("none", place, "cgroup", 0, "perf_event"))
			umount(place);
	}
}
