/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions that the parts of event_fuzz share: calls of descriptors, and mappings.
 */
#ifndef SELFTESTS_EVENT_FUZZ_PARTS_H
#define SELFTESTS_EVENT_FUZZ_PARTS_H

#include "event_fuzz.h"

/* Counts a call. Sets f->difference and returns false if @want and @got differ. */
bool fuzz_compare(struct event_fuzz *f, enum fuzz_action action, const char *what, int want,
		  int got);

/* Updates the counts if event @i no longer exists. */
void fuzz_uncount_if_gone(struct event_fuzz *f, int i);

bool fuzz_map(struct event_fuzz *f, const struct fuzz_step *s);

/* Tries to map event @i, in a process that keeps the mapping until its end. */
bool fuzz_map_once(struct event_fuzz *f, int i);

/* Changes, reads or overwrites a mapping. */
bool fuzz_use_mapping(struct event_fuzz *f, const struct fuzz_step *s);

void fuzz_unmap_all(struct event_fuzz *f);

#endif
