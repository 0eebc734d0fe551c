/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hierarchy of cgroups that has perf's controller: version 2, or a hierarchy of version 1 that
 * was mounted with the controller.
 */
#ifndef SELFTESTS_PERFS_CGROUPS_H
#define SELFTESTS_PERFS_CGROUPS_H

#include <stdbool.h>

/*
 * Returns the number of the hierarchy that has perf's controller, 0 for version 2; or -1 if the
 * kernel has no such controller. Debian's kernel has one.
 */
int perfs_cgroups_hierarchy(void);

/* Returns whether the kernel has perf's controller. */
bool perfs_cgroups_exist(void);

/*
 * Gives the cgroups within @cgroup perf's controller (@sign '+'), or takes the controller away
 * ('-'). In version 2, cgroups have perf's controller as long as they have any other controller.
 * @root is the mount point of the hierarchy. Returns 0 or a negative errno.
 */
int perfs_cgroups_control(const char *root, const char *cgroup, char sign);

/*
 * Unmounts the hierarchy of version 1 at @place, which has no cgroups left, and waits until
 * version 2 has perf's controller again.
 */
void perfs_cgroups_end_version_1(const char *place);

#endif
