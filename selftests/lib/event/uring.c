// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uring.h"

/* The kernel's struct __kernel_timespec, which has 64 bits in 32-bit programs, too. */
struct wide_timespec {
	long long seconds, nanoseconds;
};

static unsigned int *queue_word(const struct uring *r, unsigned int offset)
{
	return (unsigned int *)(r->queues + offset);
}

int uring_open(struct uring *r, unsigned int flags)
{
	size_t requests;

	*r = (struct uring) { .p.flags = flags };
	r->fd = syscall(SYS_io_uring_setup, 1, &r->p);
	if (r->fd < 0)
		return -errno;
	/* Both queues are in one mapping: IORING_FEAT_SINGLE_MMAP. */
	r->size = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	requests = r->p.sq_off.array + r->p.sq_entries * sizeof(unsigned int);
	if (r->size < requests)
		r->size = requests;
	r->queues = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 r->fd, IORING_OFF_SQ_RING);
	r->sqe = mmap(NULL, sizeof(*r->sqe), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
	return r->queues == MAP_FAILED || r->sqe == MAP_FAILED ? -errno : 0;
}

void uring_close(struct uring *r)
{
	munmap(r->sqe, sizeof(*r->sqe));
	munmap(r->queues, r->size);
	close(r->fd);
}

/* Puts a request into the queue. */
static void queue_request(struct uring *r, const struct io_uring_sqe *request)
{
	unsigned int *tail = queue_word(r, r->p.sq_off.tail);

	*r->sqe = *request;
	queue_word(r, r->p.sq_off.array)[*tail & (r->p.sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

/* Takes a result from the queue. Returns 0, or -ETIME if the queue has no result. */
static int take_answer(struct uring *r, struct uring_answer *answer)
{
	const struct io_uring_cqe *answers = (void *)(r->queues + r->p.cq_off.cqes);
	unsigned int *head = queue_word(r, r->p.cq_off.head);

	if (*head == __atomic_load_n(queue_word(r, r->p.cq_off.tail), __ATOMIC_ACQUIRE))
		return -ETIME;
	answers += *head & (r->p.cq_entries - 1);
	*answer = (struct uring_answer) {
		.user_data = answers->user_data,
		.result = answers->res,
		.flags = answers->flags,
	};
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Submits the @requests requests in the queue, and waits for a result. Returns 0 or a negative
 * errno.
 */
static int enter_and_wait(struct uring *r, unsigned int requests, int seconds)
{
	struct wide_timespec limit = { .seconds = seconds };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&limit };
	const unsigned int flags = IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP |
				   IORING_ENTER_EXT_ARG;

	if (syscall(SYS_io_uring_enter, r->fd, requests, 1, flags, &arg, sizeof(arg)) < 0 &&
	    errno != ETIME)
		return -errno;
	return 0;
}

int uring_submit(struct uring *r, const struct io_uring_sqe *request)
{
	queue_request(r, request);
	return syscall(SYS_io_uring_enter, r->fd, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) < 0 ?
		-errno : 0;
}

int uring_wait(struct uring *r, struct uring_answer *answer, int seconds)
{
	int err = enter_and_wait(r, 0, seconds);

	return err ? err : take_answer(r, answer);
}

/* Makes a single system call, so that its cost is the cost of a request. */
int uring_call(struct uring *r, const struct io_uring_sqe *request, int seconds)
{
	struct uring_answer answer;
	int err;

	queue_request(r, request);
	err = enter_and_wait(r, 1, seconds);
	if (!err)
		err = take_answer(r, &answer);
	return err ? err : answer.result;
}
