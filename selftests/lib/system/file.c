// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ssize_t length = strlen(text);
	int err = fd < 0 || write(fd, text, length) != length ? -errno : 0;

	close(fd);
	return err;
}

long long read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long long number;

	if (!f)
		return -errno;
	if (fscanf(f, "%lld", &number) != 1)
		number = -EIO;
	fclose(f);
	return number;
}
