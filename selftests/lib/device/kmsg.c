// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kmsg.h"

#define PREFIX	"perfmon: "

static int kmsg_open(int whence)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (lseek(fd, 0, whence) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int kmsg_open_end(void)
{
	return kmsg_open(SEEK_END);
}

int kmsg_open_start(void)
{
	/* SEEK_SET is the first record; see Documentation/ABI/testing/dev-kmsg */
	return kmsg_open(SEEK_SET);
}

int kmsg_for_each(int fd, void (*each)(const char *text, void *data),
		  void *data)
{
	char record[8192], *text, *end;
	ssize_t n;

	for (;;) {
		n = read(fd, record, sizeof(record) - 1);
		if (n < 0) {
			/*
			 * EPIPE: records were overwritten; continue with the oldest record that is
			 * left.
			 */
			if (errno == EPIPE)
				continue;
			return errno == EAGAIN ? 0 : -errno;
		}
		record[n] = '\0';

		/* "level,sequence,time,flags;text\n key=value\n" */
		text = strchr(record, ';');
		if (!text)
			continue;
		text++;
		end = strchr(text, '\n');
		if (end)
			*end = '\0';
		each(text, data);
	}
}

static void collect_line(const char *text, void *data)
{
	struct kmsg_lines *lines = data;

	if (strncmp(text, PREFIX, strlen(PREFIX)) || strstr(text, "taint"))
		return;
	if (lines->count < KMSG_MAX_LINES)
		snprintf(lines->line[lines->count], KMSG_MAX_LENGTH, "%s",
			 text + strlen(PREFIX));
	lines->count++;
}

int kmsg_read_module(int fd, struct kmsg_lines *lines)
{
	memset(lines, 0, sizeof(*lines));
	return kmsg_for_each(fd, collect_line, lines);
}

bool kmsg_names_perf(const char *line)
{
	while ((line = strstr(line, "perf"))) {
		line += strlen("perf");
		if (strncmp(line, "mon", strlen("mon")))
			return true;
	}
	return false;
}
