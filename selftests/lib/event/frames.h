/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks that are none, for call chains to be read from.
 */
#ifndef SELFTESTS_FRAMES_H
#define SELFTESTS_FRAMES_H

#include <pthread.h>
#include <stdbool.h>

#include <linux/types.h>

/* What a function with a frame pointer has on the stack. */
struct frame {
	struct frame *next;
	unsigned long address;
};

/* A page of them. */
#define FRAMES		((int)(4096 / sizeof(struct frame)))

/* The address in frame @i of a new stack. */
#ifdef __x86_64__
#define FRAME_ADDRESS(i)	(0x123456780000UL + (i))
#else
#define FRAME_ADDRESS(i)	(0x12340000UL + (i))
#endif

/* Maps a page of frames, each of which is followed by the next, and no memory behind it. */
struct frame *frames_map(void);
void frames_unmap(struct frame *frames);

/* A thread that changes frames all the time: some pointers, and whether the page is there. */
struct frames_changer {
	struct frame *frames;
	pthread_t thread;
	bool stop;
};

/* Both return 0 or an errno. */
int frames_changer_begin(struct frames_changer *c, struct frame *frames);
int frames_changer_end(struct frames_changer *c);

/* Addresses where no frame can be: no memory, the kernel's, or no address. */
#define FRAMES_NOWHERE	16
extern const __u64 frames_nowhere[FRAMES_NOWHERE];

/*
 * loop(@n) with frame pointer @frame: from frame_loop_begin on to before
 * frame_loop_end.
 */
void frame_loop(const struct frame *frame, unsigned long n);
extern const char frame_loop_begin[], frame_loop_end[];

#endif
