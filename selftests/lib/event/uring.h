/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io_uring with one request at a time.
 */
#ifndef SELFTESTS_URING_H
#define SELFTESTS_URING_H

#include <stddef.h>

#include <linux/io_uring.h>

struct uring {
	int fd;
	char *queues;
	size_t size;
	struct io_uring_sqe *sqe;
	struct io_uring_params p;
};

/* Sets up a ring with flags IORING_SETUP_*. Returns 0 or a negative errno. */
int uring_open(struct uring *r, unsigned int flags);

/* Closes the ring, which cancels pending requests. */
void uring_close(struct uring *r);

/* A result of a request. */
struct uring_answer {
	__u64 user_data;	/* user_data of the request */
	int result;		/* or a negative errno */
	unsigned int flags;	/* IORING_CQE_F_* */
};

/*
 * Makes a request, and does not wait: uring_wait() waits for its results. Returns 0 or a negative
 * errno.
 */
int uring_submit(struct uring *r, const struct io_uring_sqe *request);

/*
 * Waits for a result for at most @seconds, and stores the result in @answer. Returns 0, -ETIME if
 * there is no result by then, or another negative errno.
 */
int uring_wait(struct uring *r, struct uring_answer *answer, int seconds);

/*
 * Makes a request and returns its result; -ETIME if there is no result within @seconds, or another
 * negative errno.
 */
int uring_call(struct uring *r, const struct io_uring_sqe *request, int seconds);

#endif
