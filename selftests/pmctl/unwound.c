// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_unwound WHAT N: executes about 2 * N instructions in leaf(), without frame
 * pointers. WHAT selects the callers of leaf(): `callers` has main, outer, middle and 20 times
 * recurse; `signal` has the handler of a signal that interrupts middle; `deep` has 80 frames
 * of 2 KiB. With `kernel` and `vdso`, leaf() calls the kernel or its vDSO N times.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/loop.h"

#define NOT_INLINED	__attribute__((noinline, noclone))

static unsigned long count;
static void (*last)(void);
static char buffer[1 << 16];

static NOT_INLINED void leaf(void)
{
	loop(count);
}

static NOT_INLINED void call_kernel(void)
{
	int zero = open("/dev/zero", O_RDONLY);

	for (unsigned long n = 0; n < count; n++)
		if (read(zero, buffer, sizeof(buffer)) < 0)
			exit(1);
	close(zero);
}

static NOT_INLINED void call_vdso(void)
{
	unsigned int cpu, node;

	for (unsigned long n = 0; n < count; n++)
		getcpu(&cpu, &node);
}

/* The compiler must see neither the called function nor that the result is unused. */
static NOT_INLINED long recurse(long n)
{
	if (n == 1)
		last();
	else
		n += recurse(n - 1);
	__asm__ volatile("" : "+r" (n));
	return n;
}

static NOT_INLINED long deep(long n)
{
	char room[2048];

	__asm__ volatile("" : : "r" (room) : "memory");
	if (n == 1)
		last();
	else
		n += deep(n - 1);
	__asm__ volatile("" : "+r" (n) : "r" (room) : "memory");
	return n;
}

static NOT_INLINED long middle(long n)
{
	n = recurse(n);
	__asm__ volatile("" : "+r" (n));
	return n * 2;
}

static void on_signal(int number)
{
	recurse(2);
	if (number != SIGILL)
		exit(1);
	exit(0);
}

/* The signal comes at the first instruction of interrupted(). */
void interrupted(void);
__asm__(".text\n"
	"before: .cfi_startproc\n"
	".cfi_undefined rip\n"
	"	nop\n"
	".cfi_endproc\n"
	".type interrupted, @function\n"
	"interrupted: .cfi_startproc\n"
	"	ud2\n"
	"	ret\n"
	".cfi_endproc\n"
	".size interrupted, .-interrupted\n");

static NOT_INLINED long outer(const char *workload)
{
	long result;

	if (!strcmp(workload, "signal")) {
		signal(SIGILL, on_signal);
		interrupted();
		result = 1;
	} else if (!strcmp(workload, "deep")) {
		result = deep(80);
	} else {
		result = middle(20);
	}
	__asm__ volatile("" : "+r" (result));
	return result;
}

int main(int argc, char **argv)
{
	const char *workload = argc > 1 ? argv[1] : "callers";

	count = argc > 2 ? strtoul(argv[2], NULL, 0) : 10000000;
	last = leaf;
	if (!strcmp(workload, "kernel"))
		last = call_kernel;
	else if (!strcmp(workload, "vdso"))
		last = call_vdso;
	outer(workload);
	return 0;
}
