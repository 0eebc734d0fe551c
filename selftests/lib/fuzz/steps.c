// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "steps.h"

void steps_shorten(struct steps *s)
{
	char *list = s->list, *kept = malloc(s->n * s->size);
	int length, begin, shorter;

	if (!kept)
		return;
	for (length = s->n / 2; length; length /= 2) {
		for (begin = 0; begin + length < s->n;) {
			memcpy(kept, list, begin * s->size);
			memcpy(kept + begin * s->size, list + (begin + length) * s->size,
			       (s->n - begin - length) * s->size);
			shorter = s->run(kept, s->n - length, s->data);
			if (shorter) {
				s->n = shorter;
				memcpy(list, kept, s->n * s->size);
			} else {
				begin += length;
			}
		}
	}
	free(kept);
}
