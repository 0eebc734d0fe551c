// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "frames.h"

#define PAGE	4096

const __u64 frames_without_memory[FRAMES_NOWHERE] = {
	0, 1, 7, 8, 0x1000, 0x7fffffffeff8, 0x7fffffffeff0, 0x7ffffffff000, 0x7fffffffffff,
	0x800000000000, 0xffff800000000000, 0xffff888000000000, 0xffffffff81000000,
	0xffffffffff5ff000, 0xfffffffffffffff8, ~0ULL,
};

/*
 * Also maps the neighbouring pages, without access: so the kernel can't place a larger mapping here
 * while change_frame() has unmapped the frames.
 */
struct frame *frames_map(void)
{
	unsigned char *p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct frame *frames = (struct frame *)(p + PAGE);
	int i;

	if (p == MAP_FAILED || mprotect(frames, PAGE, PROT_READ | PROT_WRITE) ||
	    munmap(p + 2 * PAGE, PAGE))
		return NULL;
	for (i = 0; i < FRAMES; i++)
		frames[i] = (struct frame) { frames + i + 1, FRAME_ADDRESS(i) };
	return frames;
}

void frames_unmap(struct frame *frames)
{
	munmap((unsigned char *)frames - PAGE, 4 * PAGE);
}

/* Changes the frames for the @n-th time. */
static void change_frame(struct frame *frames, unsigned long n)
{
	struct frame *f = &frames[n % 8];

	__atomic_store_n(&f->next, (struct frame *)(uintptr_t)frames_without_memory[n % FRAMES_NOWHERE],
			 __ATOMIC_RELAXED);
	__atomic_store_n(&f->next, frames + n % FRAMES, __ATOMIC_RELAXED);
	__atomic_store_n(&f->address, FRAME_ADDRESS(n % FRAMES), __ATOMIC_RELAXED);
	if (n % 64)
		return;
	switch (n / 64 % 5) {
	case 0:
		mprotect(frames, PAGE, PROT_NONE);
		mprotect(frames, PAGE, PROT_READ | PROT_WRITE);
		break;
	case 1:
		madvise(frames, PAGE, MADV_DONTNEED);
		break;
	case 2:
		munmap(frames, PAGE);
		__attribute__((fallthrough));
	case 3:
		mmap(frames, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	default:
		mprotect(frames, PAGE, PROT_READ);
		mprotect(frames, PAGE, PROT_READ | PROT_WRITE);
	}
}

static void *change_until_stopped(void *data)
{
	struct frames_changer *c = data;
	unsigned long n = 0;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED))
		change_frame(c->frames, n++);
	return NULL;
}

int frames_changer_begin(struct frames_changer *c, struct frame *frames)
{
	c->frames = frames;
	c->stop = false;
	return pthread_create(&c->thread, NULL, change_until_stopped, c);
}

int frames_changer_end(struct frames_changer *c)
{
	__atomic_store_n(&c->stop, true, __ATOMIC_RELAXED);
	return pthread_join(c->thread, NULL);
}

#ifdef __x86_64__
#define FRAME_POINTER	"%%rbp"
#else
#define FRAME_POINTER	"%%ebp"
#endif

__attribute__((noinline, noclone)) void frame_loop(const struct frame *frame, unsigned long n)
{
	__asm__ volatile("	push	" FRAME_POINTER "\n"
			 "	mov	%1, " FRAME_POINTER "\n"
			 ".globl	frame_loop_begin, frame_loop_end\n"
			 "frame_loop_begin:\n"
			 "1:	dec	%0\n"
			 "	jnz	1b\n"
			 "frame_loop_end:\n"
			 "	pop	" FRAME_POINTER "\n"
			 : "+r" (n) : "r" (frame) : "cc", "memory");
}
