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
} known_events[] = {
#include "event_names.h"
};

/* The length of the longest text that is compared with the known names. */
#define MAX_LENGTH	40

/*
 * Returns the number of letters that have to be changed, added or removed to convert @typed to
 * @name.
 */
static unsigned int edit_distance(const char *typed, const char *name)
{
	unsigned int row[MAX_LENGTH + 1], above, cost, i, j, length = strlen(name);

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

/* Returns the known name that resembles @typed most; NULL if no name is close. */
static const char *nearest_name(const char *typed)
{
	unsigned int best = strlen(typed) / 4 + 1, i, distance;
	const char *closest = NULL;

	if (strlen(typed) > MAX_LENGTH)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(known_events); i++) {
		distance = edit_distance(typed, known_events[i].name);
		if (distance < best) {
			best = distance;
			closest = known_events[i].name;
		}
	}
	return closest;
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

/* Parses the modes `u`, `k` or both; NULL means both. */
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

/* Finds the type and the config of an event by its name without modes. */
static bool find_event(const char *name, struct event *event)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(known_events); i++) {
		if (!strcasecmp(name, known_events[i].name)) {
			event->type = known_events[i].type;
			event->config = known_events[i].config;
			return true;
		}
	}
	event->type = PERF_TYPE_RAW;
	return name[0] == 'r' && parse_raw(name + 1, &event->config);
}

static int parse_event(const char *text, size_t length, struct event *event)
{
	char name[NAME_SIZE], *letters;
	const char *suggestion;

	if (!length || length >= NAME_SIZE)
		return fail_with(EINVAL, "can't count `%.*s`: an event's name has 1 to %d characters",
				 (int)(length < NAME_SIZE ? length : NAME_SIZE), text, NAME_SIZE - 1);
	memcpy(event->name, text, length);
	event->name[length] = '\0';
	memcpy(name, event->name, length + 1);
	letters = strchr(name, ':');
	if (letters)
		*letters++ = '\0';
	if (!parse_modes(letters, event))
		return fail_with(EINVAL, "can't count `%s`: write u (user mode), k (the kernel) or both after the colon",
				 event->name);
	if (find_event(name, event))
		return 0;
	suggestion = nearest_name(name);
	if (suggestion)
		return fail_with(EINVAL, "can't count `%s`: no event is called `%s`. Did you mean `%s`?",
				 event->name, name, suggestion);
	return fail_with(EINVAL,
			 "can't count `%s`: no event is called `%s`. For an event of this processor's model, `pmctl encode %s` shows the number NNN, which is written here as rNNN.",
			 event->name, name, name);
}

int events_parse(const char *list, struct event *events, int max)
{
	size_t length;
	int n;

	for (n = 0;; n++) {
		length = strcspn(list, ",");
		if (n == max)
			return fail_with(EINVAL, "can't count so many events: %d at most", max);
		if (parse_event(list, length, &events[n]))
			return -1;
		if (!list[length])
			return n + 1;
		list += length + 1;
	}
}
