/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Descriptors of the device. Several may share one open file description (open(2)).
 */
#ifndef SELFTESTS_OPEN_FILES_H
#define SELFTESTS_OPEN_FILES_H

#include <stdbool.h>

#define OPEN_FILES	3

/* An open file description. */
struct open_file {
	int users;	/* descriptors that share it */
	bool writer;
};

struct open_files {
	int fd[OPEN_FILES];			/* -1: none */
	struct open_file *of[OPEN_FILES];	/* the open file description of each fd */
	struct open_file file[OPEN_FILES];
	bool has_writer;
};

void open_files_init(struct open_files *o);

/*
 * Closes descriptor @i, if it is open. Returns true if it was the last descriptor of the writer.
 */
bool open_files_close(struct open_files *o, int i);

/* Opens the device as descriptor @i, which is unused. Returns 0 or a negative errno. */
int open_files_open(struct open_files *o, int i, int flags);

/* Duplicates @from as @to, which is unused. Returns 0 or a negative errno. */
int open_files_dup(struct open_files *o, int from, int to);

/* Returns true if descriptor @i is open for writing. */
bool open_files_is_writer(const struct open_files *o, int i);

/* Returns the first descriptor that is open for writing, or -1. */
int open_files_writer(const struct open_files *o);

#endif
