/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lines of the module in the kernel log.
 */
#ifndef SELFTESTS_KMSG_H
#define SELFTESTS_KMSG_H

#include <stdbool.h>

#define KMSG_MAX_LINES	16
#define KMSG_MAX_LENGTH	512

/* Lines of the module, without its prefix "perfmon: ". */
struct kmsg_lines {
	int count;	/* lines seen; `line` keeps the first KMSG_MAX_LINES */
	char line[KMSG_MAX_LINES][KMSG_MAX_LENGTH];
};

/*
 * Open the kernel log at its end, or at its oldest record. Return a descriptor or a
 * negative errno.
 */
int kmsg_open_end(void);
int kmsg_open_start(void);

/*
 * Collects the module's lines since the log was opened or last read. Leaves out the lines that the
 * kernel prints when a module taints the kernel. Returns 0 or a negative errno.
 */
int kmsg_read_module(int fd, struct kmsg_lines *lines);

/*
 * Calls @each with the text of every line since the log was opened or last
 * read. Returns 0 or a negative errno.
 */
int kmsg_for_each(int fd, void (*each)(const char *text, void *data),
		  void *data);

/* Returns true if a line contains "perf", other than in "perfmon". */
bool kmsg_names_perf(const char *line);

#endif
