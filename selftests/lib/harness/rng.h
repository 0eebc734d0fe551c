/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers that are the same in each run.
 */
#ifndef SELFTESTS_RNG_H
#define SELFTESTS_RNG_H

#include <stdbool.h>

#include <linux/types.h>

struct rng {
	__u64 state;
};

/* Spreads seeds that are near each other: multiplies by 2^64 / golden ratio. */
static inline struct rng rng_seed(__u64 seed)
{
	return (struct rng) { (seed + 1) * 0x9e3779b97f4a7c15ULL | 1 };
}

/* Returns a number from 0 to @n - 1: xorshift64 (Marsaglia, "Xorshift RNGs", 2003) */
static inline __u64 rng_below(struct rng *r, __u64 n)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	/* The low bits are less random. */
	return (r->state >> 16) % n;
}

/* Returns true once in @n times. */
static inline bool rng_once_in(struct rng *r, __u64 n)
{
	return !rng_below(r, n);
}

#endif
