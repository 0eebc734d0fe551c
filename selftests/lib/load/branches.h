/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code with known branches, for tests of branch records.
 */
#ifndef SELFTESTS_BRANCHES_H
#define SELFTESTS_BRANCHES_H

#include <linux/types.h>

/* Instructions of one round of run_branches(): CALL, NOP, RET, DEC, JNZ */
#define ROUND_INSNS	5
#define ROUND_BRANCHES	3

/* Addresses of the three branches of a round and of their targets. */
struct branch_addresses {
	__u64 call, target, ret, next, jump;
};

/* Executes @n rounds, and fills @s. */
static void run_branches(struct branch_addresses *s, unsigned long n)
{
	__asm__ volatile("	lea	1f(%%rip), %[call]\n"
			 "	lea	2f(%%rip), %[target]\n"
			 "	lea	3f(%%rip), %[ret]\n"
			 "	lea	4f(%%rip), %[next]\n"
			 "	lea	5f(%%rip), %[jump]\n"
			 "	jmp	1f\n"
			 "2:	nop\n"
			 "3:	ret\n"
			 "1:	call	2b\n"
			 "4:	dec	%[n]\n"
			 "5:	jnz	1b"
			 : [call] "=&r" (s->call), [target] "=&r" (s->target),
			   [ret] "=&r" (s->ret), [next] "=&r" (s->next),
			   [jump] "=&r" (s->jump), [n] "+r" (n)
			 : : "cc", "memory");
}

#endif
