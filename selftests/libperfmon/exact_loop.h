/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A workload with the same number of instructions for every compiler and option, including its
 * beginning.
 */
#ifndef SELFTESTS_EXACT_LOOP_H
#define SELFTESTS_EXACT_LOOP_H

/* MOV, then DEC and JNZ @n times; @n is a constant. */
#define EXACT_LOOP(n) (__extension__ ({						\
	__asm__ volatile("	movl	%0, %%ecx\n"				\
			 "1:	decl	%%ecx\n"				\
			 "	jnz	1b"					\
			 : : "i" (n) : "ecx", "cc");				\
}))

/* Instructions and branches of EXACT_LOOP(n) that an event counts. */
#define EXACT_INSNS(n)		(1 + 2ULL * (n))
#define EXACT_BRANCHES(n)	(0ULL + (n))

#endif
