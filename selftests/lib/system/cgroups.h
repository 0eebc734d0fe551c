/* SPDX-License-Identifier: GPL-2.0-only */
/* The cgroups of a test. */
#ifndef SELFTESTS_CGROUPS_H
#define SELFTESTS_CGROUPS_H

#include <sys/types.h>

/*
 * Mounts the hierarchy of version 2 at @place. Makes the directory @place if it is missing. If a
 * failed test has left a mount there, detaches that mount first. Returns 0 or a negative errno.
 */
int cgroups_mount(const char *place);

/*
 * Moves process @pid, or this process if it is 0, to a cgroup of version 1 or 2. Returns 0 or a
 * negative errno.
 */
int cgroup_move(const char *cgroup, pid_t pid);

#endif
