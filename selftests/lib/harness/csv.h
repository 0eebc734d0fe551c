/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables that a test checks and the documentation shows. The first line has the names of the
 * columns. The first columns are keys, whose cells have one or more words.
 */
#ifndef SELFTESTS_CSV_H
#define SELFTESTS_CSV_H

#define CSV_MAX_ROWS	32
#define CSV_MAX_COLUMNS	16

struct csv {
	int rows, columns;	/* without the line of names */
	char *name[CSV_MAX_COLUMNS];
	char *cell[CSV_MAX_ROWS][CSV_MAX_COLUMNS];
};

/*
 * Reads table @file, which lies beside the program. Ends the program with a message if
 * it can't be read, or a row is too short.
 */
void csv_read(struct csv *t, const char *program, const char *file, int columns);

/*
 * Returns the row that has @words[i] in column i, for each of the first @keys columns. Returns NULL
 * if there is no such row, or if there are several. A cell may list several words, separated by
 * blanks.
 */
char **csv_find(struct csv *t, const char *const *words, int keys);

#endif
