/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of sysfs, procfs and tracefs. */
#ifndef SELFTESTS_FILE_H
#define SELFTESTS_FILE_H

/* Replaces the content of a file. Returns 0 or a negative errno. */
int write_file(const char *path, const char *text);

/* Returns the number that a file begins with; -EIO if it begins with none, or another errno. */
long long read_number(const char *path);

#endif
