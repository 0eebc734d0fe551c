/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The workload whose count is known.
 */
#ifndef SELFTESTS_LOOP_H
#define SELFTESTS_LOOP_H

#include <sys/cdefs.h>

/* Instructions of one iteration of loop(): DEC and JNZ. */
#define LOOP_INSNS	2

/**
 * loop() - execute LOOP_INSNS * @n instructions
 * @n: iterations, at least 1
 *
 * Inlined, so that a caller which measures the loop at one place in its code has
 * the same number of instructions around the loop for each @n.
 */
static __always_inline void loop(unsigned long n)
{
	__asm__ volatile("1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n) : : "cc");
}

#endif
