/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers that come again with the same seed.
 */
#ifndef SELFTESTS_RANDOM_H
#define SELFTESTS_RANDOM_H

#include <linux/types.h>

struct random {
	__u64 state;	/* not 0 */
};

/* Seeds that are close together give numbers that have nothing in common. */
static inline struct random random_from(__u64 seed)
{
	return (struct random) { seed * 0x9e3779b97f4a7c15ULL | 1 };
}

/* 0 to @below - 1, by xorshift64 (Marsaglia, "Xorshift RNGs", 2003). */
static inline __u64 random_below(struct random *r, __u64 below)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state % below;
}

#endif
