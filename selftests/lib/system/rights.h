/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inputs of Linux's policy for perf events: the caller's capabilities and the
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

/* Drops root's rights, except CAP_PERFMON if @capable. seteuid(0) restores them. */
int drop_rights(bool capable);

/* Capabilities for become_user(): CAP_PERFMON and CAP_IPC_LOCK. */
#define MAY_COUNT	(1ULL << 38)
#define MAY_LOCK	(1ULL << 14)

/* Gives the process user id @uid and these capabilities only, for good. */
int become_user(unsigned int uid, unsigned long long capabilities);

/*
 * Returns the expected result of a call that is subject to perf_event_paranoid: -@err if the module
 * can read that setting. On Linux 7.2 a module can't read the setting, and this module refuses to
 * count without CAP_PERFMON.
 */
int policy_errno(int err, bool capable);

/*
 * Locks the kernel down, at the level "integrity" or "confidentiality", until the next
 * boot. Returns 0 or a negative errno.
 */
int lockdown(const char *level);

#endif
