/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Made-up stack frames, from which the kernel reads call chains.
 */
#ifndef SELFTESTS_FRAMES_H
#define SELFTESTS_FRAMES_H

#include <pthread.h>
#include <stdbool.h>

#include <linux/types.h>

/* A stack frame of a function with a frame pointer. */
struct frame {
	struct frame *next;
	unsigned long address;
};

/* The number of frames in a page. */
#define FRAMES		((int)(4096 / sizeof(struct frame)))

/* The return address in frame @i of a new page of frames. */
#ifdef __x86_64__
#define FRAME_ADDRESS(i)	(0x123456780000UL + (i))
#else
#define FRAME_ADDRESS(i)	(0x12340000UL + (i))
#endif

/* Maps a page of frames, each linked to the next; no memory follows the page. */
struct frame *frames_map(void);
void frames_unmap(struct frame *frames);

/* A thread that keeps changing frames: their pointers, and whether the page is mapped. */
struct frames_changer {
	struct frame *frames;
	pthread_t thread;
	bool stop;
};

/* Start and stop the thread. Return 0 or a positive errno. */
int frames_changer_begin(struct frames_changer *c, struct frame *frames);
int frames_changer_end(struct frames_changer *c);

/* Frame pointers without a frame: unmapped, kernel and non-canonical addresses. */
#define FRAMES_NOWHERE	16
extern const __u64 frames_without_memory[FRAMES_NOWHERE];

/*
 * Executes loop(@n) with @frame as frame pointer, between frame_loop_begin and
 * frame_loop_end.
 */
void frame_loop(const struct frame *frame, unsigned long n);
extern const char frame_loop_begin[], frame_loop_end[];

#endif
