/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between the parts of event_fuzz: calls of descriptors, and mappings.
 */
#ifndef SELFTESTS_EVENT_FUZZ_PARTS_H
#define SELFTESTS_EVENT_FUZZ_PARTS_H

#include "event_fuzz.h"

/* Counts a call. Notes a difference if the answers are not the same. */
bool fuzz_same(struct event_fuzz *f, enum action action, const char *what, int want, int got);

/* To be called where an event may have gone. */
void fuzz_forget(struct event_fuzz *f, int i);

bool fuzz_map(struct event_fuzz *f, const struct step *s);

/* Maps and unmaps an event that is mapped to the end of the process or not at all. */
bool fuzz_map_once(struct event_fuzz *f, int i);

/* Changes, reads or spoils a mapping. */
bool fuzz_use_piece(struct event_fuzz *f, const struct step *s);

void fuzz_unmap_all(struct event_fuzz *f);

#endif
