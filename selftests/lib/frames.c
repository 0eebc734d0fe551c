// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "frames.h"

#define PAGE	4096

const __u64 frames_nowhere[FRAMES_NOWHERE] = {
	0, 1, 7, 8, 0x1000, 0x7fffffffeff8, 0x7fffffffeff0, 0x7ffffffff000, 0x7fffffffffff,
	0x800000000000, 0xffff800000000000, 0xffff888000000000, 0xffffffff81000000,
	0xffffffffff5ff000, 0xfffffffffffffff8, ~0ULL,
};

struct frame *frames_map(void)
{
	unsigned char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct frame *frames = (struct frame *)p;
	int i;

	if (p == MAP_FAILED || munmap(p + PAGE, PAGE))
		return NULL;
	for (i = 0; i < FRAMES; i++)
		frames[i] = (struct frame) { frames + i + 1, FRAME_ADDRESS(i) };
	return frames;
}

void frames_unmap(struct frame *frames)
{
	munmap(frames, PAGE);
}

void frames_change(struct frame *frames, unsigned long n)
{
	struct frame *f = &frames[n % 8];

	__atomic_store_n(&f->next, (struct frame *)(uintptr_t)frames_nowhere[n % FRAMES_NOWHERE],
			 __ATOMIC_RELAXED);
	__atomic_store_n(&f->next, frames + n % FRAMES, __ATOMIC_RELAXED);
	f->address = FRAME_ADDRESS(n);
	if (n % 64)
		return;
	switch (n / 64 % 4) {
	case 0:
		mprotect(frames, PAGE, PROT_NONE);
		mprotect(frames, PAGE, PROT_READ | PROT_WRITE);
		break;
	case 1:
		madvise(frames, PAGE, MADV_DONTNEED);
		break;
	case 2:
		mmap(frames, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	default:
		mprotect(frames, PAGE, PROT_READ);
		mprotect(frames, PAGE, PROT_READ | PROT_WRITE);
	}
}

#ifdef __x86_64__
__attribute__((noinline, noclone)) void frame_loop(const struct frame *frame, unsigned long n)
{
	__asm__ volatile("	push	%%rbp\n"
			 "	mov	%1, %%rbp\n"
			 ".globl	frame_loop_begin, frame_loop_end\n"
			 "frame_loop_begin:\n"
			 "1:	dec	%0\n"
			 "	jnz	1b\n"
			 "frame_loop_end:\n"
			 "	pop	%%rbp\n"
			 : "+r" (n) : "r" (frame) : "cc", "memory");
}
#endif
