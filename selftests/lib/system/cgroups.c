// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "cgroups.h"
#include "file.h"

int cgroups_mount(const char *place)
{
	mkdir(place, 0755);
	umount2(place, MNT_DETACH);
	return mount("none", place, "cgroup2", 0, NULL) ? -errno : 0;
}

int cgroup_move(const char *cgroup, pid_t pid)
{
	char path[160], number[16];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	snprintf(number, sizeof(number), "%d", pid);
	return write_file(path, number);
}
