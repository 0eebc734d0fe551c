// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "kselftest.h"

static void split_row(const char *path, const char *line, int columns, char **cell)
{
	char *rest = strdup(line);
	int i;

	for (i = 0; i < columns; i++) {
		cell[i] = strsep(&rest, ",");
		if (!cell[i])
			ksft_exit_fail_msg("%s: too short: %s\n", path, line);
	}
}

void csv_read(struct csv *t, const char *program, const char *file, int columns)
{
	char line[512], *path;
	FILE *f;

	*t = (struct csv) { .rows = -1, .columns = columns };
	if (asprintf(&path, "%s/%s", dirname(strdup(program)), file) < 0)
		ksft_exit_fail_msg("no memory\n");
	f = fopen(path, "r");
	if (!f)
		ksft_exit_fail_msg("%s: %s\n", path, strerror(errno));
	for (; fgets(line, sizeof(line), f) && t->rows < CSV_MAX_ROWS; t->rows++) {
		line[strcspn(line, "\n")] = '\0';
		split_row(path, line, columns, t->rows < 0 ? t->name : t->cell[t->rows]);
	}
	if (!feof(f))
		ksft_exit_fail_msg("%s: more than %d rows\n", path, CSV_MAX_ROWS);
	fclose(f);
}

/* Returns whether @list, words that are separated by blanks, has @word. */
static bool list_has_word(const char *word, const char *list)
{
	size_t length = strlen(word);
	const char *at = list;

	while ((at = strstr(at, word))) {
		if ((at == list || at[-1] == ' ') &&
		    (!at[length] || at[length] == ' '))
			return true;
		at += length;
	}
	return false;
}

static bool has_words(char **row, const char *const *words, int keys)
{
	int i;

	for (i = 0; i < keys; i++)
		if (!list_has_word(words[i], row[i]))
			return false;
	return true;
}

char **csv_find(struct csv *t, const char *const *words, int keys)
{
	char **row = NULL;
	int i;

	for (i = 0; i < t->rows; i++) {
		if (!has_words(t->cell[i], words, keys))
			continue;
		if (row)
			return NULL;
		row = t->cell[i];
	}
	return row;
}
