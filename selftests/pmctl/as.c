// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_as USER COMMAND... : runs COMMAND as the user with number USER, with CAP_PERFMON and no
 * other capability; with a minus sign in front of USER, without any capability.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "rights.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON	38
#endif

/* Makes programs that are executed keep the capabilities. Returns 0 or -1. */
static int keep_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	int i;

	if (syscall(SYS_capget, &header, caps))
		return -1;
	for (i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		caps[i].inheritable = caps[i].permitted;
	if (syscall(SYS_capset, &header, caps))
		return -1;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_PERFMON, 0, 0);
}

int main(int argc, char **argv)
{
	int user = argc > 2 ? atoi(argv[1]) : 0;

	if (user > 0 && !become_user(user, MAY_COUNT) && !keep_capabilities())
		execvp(argv[2], argv + 2);
	else if (user < 0 && !become_user(-user, 0))
		execvp(argv[2], argv + 2);
	perror("pmctl_as");
	return 127;
}
