// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "module.h"

char *module_read(size_t *size)
{
	int fd = open(MODULE_PATH, O_RDONLY | O_CLOEXEC);
	char *image = NULL;
	struct stat stat;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &stat)) {
		*size = stat.st_size;
		image = malloc(*size);
	}
	if (image && read(fd, image, *size) != (ssize_t)*size) {
		free(image);
		image = NULL;
	}
	close(fd);
	return image;
}

int module_load_image(const char *image, size_t size)
{
	return syscall(SYS_init_module, image, size, "") ? -errno : 0;
}

int module_load_file(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, parameters, 0))
		err = -errno;
	close(fd);
	return err;
}

bool module_has_place_holder(void)
{
	struct perfmon_info info = { .features = 0 };
	int fd = device_open(O_RDONLY);

	if (fd < 0)
		return false;
	device_ioctl(fd, PERFMON_GET_INFO, &info);
	close(fd);
	return info.features & PERFMON_FEATURE_PLACE_HOLDER;
}

/* Returns whether the kernel's command line has this parameter of the module. */
static bool is_on_command_line(const char *parameter)
{
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	char line[4096] = "";

	if (fd >= 0 && read(fd, line, sizeof(line) - 1) < 0)
		line[0] = 0;
	close(fd);
	return strstr(line, parameter);
}

int module_load_with(const char *parameters)
{
	char all[256];

	/* The kernel refuses a parameter of a Rust module that is given twice. */
	snprintf(all, sizeof(all), "%s%s%s%s",
		 strstr(parameters, "max_sample_rate") ? "" : MODULE_ANY_RATE,
		 strstr(parameters, "max_percent") ? "" : MODULE_ANY_TIME,
		 is_on_command_line("perfmon.placeholder=1") ? "placeholder=1 " : "",
		 parameters);
	return module_load_file(MODULE_PATH, all);
}

int module_load(void)
{
	return module_load_with("");
}

int module_reload(const char *parameters)
{
	int err = module_loaded() ? module_unload() : 0;

	return err ? err : module_load_with(parameters);
}

int module_unload(void)
{
	/* With O_NONBLOCK, as in rmmod(8), the call fails at once for a module in use. */
	return syscall(SYS_delete_module, "perfmon", O_NONBLOCK) ? -errno : 0;
}

bool module_loaded(void)
{
	return access("/sys/module/perfmon/initstate", F_OK) == 0;
}
