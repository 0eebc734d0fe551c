// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_origins N [alone]: executes about 2 * N instructions in a function that it makes at
 * run time and names in /tmp/perf-PID.map, and as many in a function that is inlined into
 * another function. With `alone` it has a /tmp of its own.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../lib/loop.h"

/* push %rbp; mov %rsp, %rbp; mov %rdi, %rax; 1: dec %rax; jnz 1b; pop %rbp; ret */
static const unsigned char code[] = {
	0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3
};

static __always_inline void inner(unsigned long n)
{
	loop(n);
}

static __attribute__((noinline)) void outer(unsigned long n)
{
	/* Has a frame although it calls no function. */
	__asm__ volatile("" : : "r" (__builtin_frame_address(0)));
	inner(n);
}

static __attribute__((noinline)) void turn(void (*generated)(unsigned long), unsigned long n)
{
	generated(n);
	outer(n);
}

int main(int argc, char **argv)
{
	/* A turn is short compared with any period, and does not divide one. */
	const unsigned long unit = argc > 2 ? 1013 : 1009;
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;
	void *generated;
	char name[64];
	FILE *map;

	if (argc > 2 && (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			 mount("none", "/tmp", "tmpfs", 0, NULL)))
		return 1;
	generated = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (generated == MAP_FAILED)
		return 1;
	memcpy(generated, code, sizeof(code));
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	map = fopen(name, "w");
	if (!map)
		return 1;
	fprintf(map, "%lx %zx made at run time\n", (unsigned long)generated, sizeof(code));
	fclose(map);

	for (unsigned long done = 0; done < n; done += unit)
		turn((void (*)(unsigned long))generated, unit);
	return 0;
}
