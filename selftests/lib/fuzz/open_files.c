// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "open_files.h"

void open_files_init(struct open_files *o)
{
	memset(o, 0, sizeof(*o));
	memset(o->fd, -1, sizeof(o->fd));
}

bool open_files_close(struct open_files *o, int i)
{
	if (o->fd[i] < 0)
		return false;
	close(o->fd[i]);
	o->fd[i] = -1;
	if (--o->of[i]->users || !o->of[i]->writer)
		return false;
	o->has_writer = false;
	return true;
}

int open_files_open(struct open_files *o, int i, int flags)
{
	const bool writer = flags != O_RDONLY;
	struct open_file *file = o->file;
	int fd = device_open(flags);

	if (fd < 0)
		return fd;
	while (file->users)
		file++;
	*file = (struct open_file) { .users = 1, .writer = writer };
	o->fd[i] = fd;
	o->of[i] = file;
	o->has_writer |= writer;
	return 0;
}

int open_files_dup(struct open_files *o, int from, int to)
{
	int fd = dup(o->fd[from]);

	if (fd < 0)
		return -errno;
	o->fd[to] = fd;
	o->of[to] = o->of[from];
	o->of[to]->users++;
	return 0;
}

bool open_files_is_writer(const struct open_files *o, int i)
{
	return o->fd[i] >= 0 && o->of[i]->writer;
}

int open_files_writer(const struct open_files *o)
{
	int i;

	for (i = 0; i < OPEN_FILES; i++) {
		if (open_files_is_writer(o, i))
			return i;
	}
	return -1;
}
