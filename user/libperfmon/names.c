// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Events by name.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

static const struct {
	const char *name;
	uint32_t type;
	uint64_t config;
} known[] = {
#include "event_names.h"
};

/* The longest name that is compared with those that are known. */
#define LONGEST	40

/* Returns how many letters are to be changed, added or removed to make one name the other. */
static unsigned int distance(const char *typed, const char *name)
{
	unsigned int row[LONGEST + 1], above, cost, i, j, length = strlen(name);

	for (j = 0; j <= length; j++)
		row[j] = j;
	for (i = 1; typed[i - 1]; i++) {
		above = row[0];
		row[0] = i;
		for (j = 1; j <= length; j++) {
			cost = above + (tolower(typed[i - 1]) != tolower(name[j - 1]));
			above = row[j];
			if (row[j] + 1 < cost)
				cost = row[j] + 1;
			if (row[j - 1] + 1 < cost)
				cost = row[j - 1] + 1;
			row[j] = cost;
		}
	}
	return row[length];
}

/* Returns the name that is most like @typed; NULL if none is like it. */
static const char *nearest(const char *typed)
{
	unsigned int best = strlen(typed) / 4 + 1, i, d;
	const char *found = NULL;

	if (strlen(typed) > LONGEST)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(known); i++) {
		d = distance(typed, known[i].name);
		if (d < best) {
			best = d;
			found = known[i].name;
		}
	}
	return found;
}

/* Parses an event select in hexadecimal digits. */
static bool parse_raw(const char *digits, uint64_t *config)
{
	char *end;

	if (!isxdigit(digits[0]))
		return false;
	errno = 0;
	*config = strtoull(digits, &end, 16);
	return !*end && !errno;
}

/* Parses `u`, `k` or both; without a letter it is both. */
static bool parse_modes(const char *letters, struct event *event)
{
	event->user = event->kernel = !letters;
	for (; letters && *letters; letters++) {
		if (*letters == 'u')
			event->user = true;
		else if (*letters == 'k')
			event->kernel = true;
		else
			return false;
	}
	return event->user || event->kernel;
}

/* Finds what is counted by this name, which has no modes. */
static bool find(const char *name, struct event *event)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		if (!strcasecmp(name, known[i].name)) {
			event->type = known[i].type;
			event->config = known[i].config;
			return true;
		}
	}
	event->type = PERF_TYPE_RAW;
	return name[0] == 'r' && parse_raw(name + 1, &event->config);
}

static int parse_one(const char *text, size_t length, struct event *event)
{
	char name[NAME_SIZE], *letters;
	const char *like;

	if (!length || length >= NAME_SIZE)
		return fail_with(EINVAL, "can't count `%.*s`: a name has 1 to %d letters",
				 (int)(length < NAME_SIZE ? length : NAME_SIZE), text, NAME_SIZE - 1);
	memcpy(event->name, text, length);
	event->name[length] = '\0';
	memcpy(name, event->name, length + 1);
	letters = strchr(name, ':');
	if (letters)
		*letters++ = '\0';
	if (!parse_modes(letters, event))
		return fail_with(EINVAL, "can't count `%s`: behind the colon stand u (user mode), k (the kernel) or both",
				 event->name);
	if (find(name, event))
		return 0;
	like = nearest(name);
	if (like)
		return fail_with(EINVAL, "can't count `%s`: no event is called `%s`. Did you mean `%s`?",
				 event->name, name, like);
	return fail_with(EINVAL,
			 "can't count `%s`: no event is called `%s`. For an event of this processor alone, `pmctl encode %s` shows the number NNN to write here as rNNN.",
			 event->name, name, name);
}

int events_parse(const char *list, struct event *events, int most)
{
	size_t length;
	int n;

	for (n = 0;; n++) {
		length = strcspn(list, ",");
		if (n == most)
			return fail_with(EINVAL, "can't count so many events: %d at most", most);
		if (parse_one(list, length, &events[n]))
			return -1;
		if (!list[length])
			return n + 1;
		list += length + 1;
	}
}
