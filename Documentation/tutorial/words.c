// SPDX-License-Identifier: GPL-2.0-only
/* words FILE [WORD]... : how many words FILE has, and how often each WORD is there. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096

struct entry {
	struct entry *next;
	unsigned long count;
	char word[];
};

static struct entry *slots[SLOTS];

void lower(char *text)
{
	for (size_t i = 0; i < strlen(text); i++)
		text[i] = tolower((unsigned char)text[i]);
}

/* The entry of a word; a new one if there is none. */
struct entry *find(const char *word)
{
	size_t length = strlen(word);
	unsigned int hash = 5381;
	struct entry *entry;

	for (size_t i = 0; i < length; i++)
		hash = hash * 33 + (unsigned char)word[i];
	for (entry = slots[hash % SLOTS]; entry; entry = entry->next)
		if (!strcmp(entry->word, word))
			return entry;
	entry = calloc(1, sizeof(*entry) + length + 1);
	if (!entry)
		exit(1);
	memcpy(entry->word, word, length + 1);
	entry->next = slots[hash % SLOTS];
	slots[hash % SLOTS] = entry;
	return entry;
}

char *load(const char *path)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");

	if (!file)
		exit(1);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	lower(text);
	return text;
}

int main(int argc, char *argv[])
{
	static const char between[] = " \t\n.,;:()[]{}<>'\"&*+-/=!?#%|";
	unsigned long words = 0;
	char *word;

	if (argc < 2)
		return 2;
	for (word = strtok(load(argv[1]), between); word; word = strtok(NULL, between), words++)
		find(word)->count++;
	printf("%lu words\n", words);
	for (int i = 2; i < argc; i++) {
		lower(argv[i]);
		printf("%6lu %s\n", find(argv[i])->count, argv[i]);
	}
	return 0;
}
