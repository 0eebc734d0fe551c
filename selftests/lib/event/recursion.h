/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recursion of known depth, for tests of call chains. The program has to be compiled with frame
 * pointers. The functions of the recursion are in a section of their own.
 */
#ifndef SELFTESTS_RECURSION_H
#define SELFTESTS_RECURSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/types.h>

#define RECURSION_FUNCTION __attribute__((section("recursion"), noinline, noclone))
/* The linker defines symbols at the beginning and the end of the section. */
extern const char __start_recursion[], __stop_recursion[];
extern const char leaf_begin[], leaf_end[];

static bool in_recursion(__u64 address)
{
	return address >= (uintptr_t)__start_recursion && address < (uintptr_t)__stop_recursion;
}

static bool in_leaf(__u64 address)
{
	return address >= (uintptr_t)leaf_begin && address < (uintptr_t)leaf_end;
}

/* Makes a system call without a function of the C library, since such a function has no frame. */
static __always_inline long raw_syscall3(long number, long a, long b, long c)
{
	long result;

#ifdef __x86_64__
	__asm__ volatile("syscall" : "=a" (result) : "a" (number), "D" (a), "S" (b), "d" (c)
			 : "rcx", "r11", "memory");
#else
	__asm__ volatile("int	$0x80" : "=a" (result) : "a" (number), "b" (a), "c" (b), "d" (c)
			 : "memory");
#endif
	return result;
}

enum leaf_work {
	LOOP,		/* a loop between leaf_begin and leaf_end */
	CALLS,		/* system calls and exceptions */
	SIGNAL,		/* sends itself SIGUSR1 once */
	CLOCK,		/* reads the clock by the vDSO */
};

/* Data that the deepest function of the recursion uses. */
static struct {
	char *memory;			/* a page */
	int (*clock)(clockid_t clock, struct timespec *t);
	unsigned long sum;
} leaf_data;

/* Calls itself @depth times. The deepest call executes @leaf @n times. */
static RECURSION_FUNCTION void recurse(unsigned int depth, unsigned long n, enum leaf_work leaf)
{
	struct timespec t;

	if (depth) {
		recurse(depth - 1, n, leaf);
	} else if (leaf == LOOP) {
		__asm__ volatile(".globl leaf_begin, leaf_end\n"
				 "leaf_begin:\n"
				 "1:	dec	%0\n"
				 "	jnz	1b\n"
				 "leaf_end:\n"
				 : "+r" (n) : : "cc");
	} else if (leaf == SIGNAL) {
		raw_syscall3(SYS_tgkill, getpid(), gettid(), SIGUSR1);
	} else if (leaf == CLOCK) {
		while (n--)
			leaf_data.clock(CLOCK_MONOTONIC, &t);
	} else {
		while (n--) {
			raw_syscall3(SYS_getppid, 0, 0, 0);
			raw_syscall3(SYS_madvise, (long)leaf_data.memory, 4096, MADV_DONTNEED);
			/* Raises a page fault. */
			__atomic_store_n(leaf_data.memory, 1, __ATOMIC_RELAXED);
			raw_syscall3(SYS_access, (long)"/proc/self/status", R_OK, 0);
		}
	}
	/* Keeps the compiler from making tail calls. */
	leaf_data.sum++;
	__asm__ volatile("");
}

#endif
