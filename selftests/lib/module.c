// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "module.h"

int module_load_with(const char *parameters)
{
	int fd = open(MODULE_PATH, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, parameters, 0))
		err = -errno;
	close(fd);
	return err;
}

int module_load(void)
{
	return module_load_with("");
}

int module_unload(void)
{
	/* O_NONBLOCK, as rmmod(8): a module in use is refused at once. */
	return syscall(SYS_delete_module, "perfmon", O_NONBLOCK) ? -errno : 0;
}

bool module_loaded(void)
{
	return access("/sys/module/perfmon/initstate", F_OK) == 0;
}
