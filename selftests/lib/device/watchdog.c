// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "watchdog.h"

int watchdog_set(char value)
{
	int fd = open("/proc/sys/kernel/nmi_watchdog", O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, &value, 1) != 1)
		err = -errno;
	close(fd);
	return err;
}
