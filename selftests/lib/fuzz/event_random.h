/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random attributes of events: mostly valid, some with one wrong member.
 */
#ifndef SELFTESTS_EVENT_RANDOM_H
#define SELFTESTS_EVENT_RANDOM_H

#include "event_model.h"
#include "rng.h"

/* Returns a period, rarely a short one. */
__u64 random_period(struct rng *r);

/* Returns attributes, of which some ask for precise samples of the format @precise; 0: none. */
union model_attr random_attr(struct rng *r, int precise);

#endif
