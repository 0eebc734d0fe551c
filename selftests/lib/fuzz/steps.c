// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "steps.h"

void steps_shorten(struct steps *s)
{
	char *list = s->list, *kept = malloc(s->n * s->size);
	int part, at, shorter;

	if (!kept)
		return;
	for (part = s->n / 2; part; part /= 2) {
		for (at = 0; at + part < s->n;) {
			memcpy(kept, list, at * s->size);
			memcpy(kept + at * s->size, list + (at + part) * s->size,
			       (s->n - at - part) * s->size);
			shorter = s->run(kept, s->n - part, s->data);
			if (shorter) {
				s->n = shorter;
				memcpy(list, kept, s->n * s->size);
			} else {
				at += part;
			}
		}
	}
	free(kept);
}
