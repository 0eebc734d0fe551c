/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inputs of Linux's own policy for perf events: the caller's rights, the
 * system's settings.
 *
 * Documentation/admin-guide/perf-security.rst: counting on a CPU rather than
 * in a task needs CAP_PERFMON, or perf_event_paranoid below 1.
 */
#ifndef SELFTESTS_RIGHTS_H
#define SELFTESTS_RIGHTS_H

#include <stdbool.h>

#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define LOCKDOWN	"/sys/kernel/security/lockdown"

int paranoid_read(void);

/* Return 0 or a negative errno. */
int paranoid_write(int value);

/* Drops root's rights, but for CAP_PERFMON if @capable. seteuid(0) undoes it. */
int drop_rights(bool capable);

/* For become_user(): CAP_PERFMON, which lets it count, and CAP_IPC_LOCK. */
#define MAY_COUNT	(1ULL << 38)
#define MAY_LOCK	(1ULL << 14)

/* Makes the process one of user @uid with these capabilities. There is no way back. */
int become_user(unsigned int uid, unsigned long long capabilities);

/*
 * The result of a call that the policy is asked for, as a negative errno: -@err
 * where the module knows perf_event_paranoid. A module of Linux 7.2 can't see
 * it, and refuses to count without CAP_PERFMON.
 */
int policy_errno(int err, bool capable);

/*
 * Locks the kernel down, at the level "integrity" or "confidentiality", until it
 * is booted.
 */
int lockdown(const char *level);

#endif
