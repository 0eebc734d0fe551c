// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/capability.h>

#include "file.h"
#include "rights.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON	38
#endif

#define NOBODY	65534

int paranoid_read(void)
{
	return read_number(PARANOID);
}

int paranoid_write(int value)
{
	FILE *f = fopen(PARANOID, "w");
	int err = 0;

	if (!f)
		return -errno;
	if (fprintf(f, "%d\n", value) < 0)
		err = -EIO;
	if (fclose(f))
		err = -errno;
	return err;
}

int drop_rights(bool capable)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	/*
	 * Changing the effective user id from 0 to another id clears the set of effective
	 * capabilities.
	 */
	if (seteuid(NOBODY))
		return -errno;
	if (!capable)
		return 0;
	if (syscall(SYS_capget, &header, caps))
		return -errno;
	caps[CAP_TO_INDEX(CAP_PERFMON)].effective |= CAP_TO_MASK(CAP_PERFMON);
	return syscall(SYS_capset, &header, caps) ? -errno : 0;
}

int become_user(unsigned int uid, unsigned long long capabilities)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {};
	int i;

	/* Keeps the permitted capabilities when the user ids change. */
	if (prctl(PR_SET_KEEPCAPS, 1) || setresuid(uid, uid, uid))
		return -errno;
	for (i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		caps[i].permitted = capabilities >> 32 * i;
		caps[i].effective = caps[i].permitted;
	}
	return syscall(SYS_capset, &header, caps) ? -errno : 0;
}

int policy_errno(int err, bool capable)
{
	struct utsname system;

	if (!capable && !uname(&system) && !strncmp(system.release, "7.2.", 4))
		return -EACCES;
	return -err;
}

int lockdown(const char *level)
{
	int fd = open(LOCKDOWN, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, level, strlen(level)) < 0)
		err = -errno;
	close(fd);
	return err;
}
