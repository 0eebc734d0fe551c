// SPDX-License-Identifier: GPL-2.0-only
/*
 * All ways to read a descriptor and to wait for it, in one table, with the results of perf and
 * of the module. Reading never blocks, so it also works for callers that must not block.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/aio_abi.h>

#include "device.h"
#include "fixture.h"
#include "samples.h"
#include "target.h"
#include "uring.h"

/*
 * Seconds to wait for a result of io_uring: for an expected result, and for a result that must not
 * come.
 */
#define SECONDS		60
#define SECONDS_IN_VAIN	1

/* 2^ORDER pages */
#define ORDER	1

/* The count that a call has read. */
static __u64 count;

/* The time in seconds that a call of io_uring may wait. */
static int uring_timeout_s;

/* The result of a call, or a negative errno. */
#define RESULT(call) ({ long result = (call); result < 0 ? -errno : result; })

static int call_read(int fd)
{
	return RESULT(read(fd, &count, sizeof(count)));
}

static int call_readv(int fd)
{
	__u32 halves[2];
	const struct iovec parts[] = {
		{ &halves[0], sizeof(halves[0]) },
		{ &halves[1], sizeof(halves[1]) },
	};
	int result = RESULT(readv(fd, parts, 2));

	count = halves[0] | (__u64)halves[1] << 32;
	return result;
}

static int call_pread(int fd)
{
	return RESULT(pread(fd, &count, sizeof(count), 0));
}

static int preadv2_with(int fd, int flags)
{
	const struct iovec whole = { &count, sizeof(count) };

	return RESULT(preadv2(fd, &whole, 1, -1, flags));
}

static int call_preadv2(int fd)
{
	return preadv2_with(fd, 0);
}

static int call_preadv2_nowait(int fd)
{
	return preadv2_with(fd, RWF_NOWAIT);
}

static int call_splice(int fd)
{
	int to[2], result;

	if (pipe(to))
		return -errno;
	result = RESULT(splice(fd, NULL, to[1], NULL, sizeof(count), SPLICE_F_NONBLOCK));
	close(to[0]);
	close(to[1]);
	return result;
}

static int call_sendfile(int fd)
{
	int to[2], result;

	if (pipe(to))
		return -errno;
	result = RESULT(sendfile(to[1], fd, NULL, sizeof(count)));
	close(to[0]);
	close(to[1]);
	return result;
}

static int call_write(int fd)
{
	return RESULT(write(fd, &count, sizeof(count)));
}

static int call_lseek(int fd)
{
	return RESULT(lseek(fd, 0, SEEK_SET));
}

static int call_aio(int fd)
{
	struct iocb call = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = fd,
		.aio_buf = (uintptr_t)&count,
		.aio_nbytes = sizeof(count),
	}, *calls[] = { &call };
	aio_context_t context = 0;
	struct io_event answer;
	int result = RESULT(syscall(SYS_io_setup, 1, &context));

	if (result < 0)
		return result;
	result = RESULT(syscall(SYS_io_submit, context, 1, calls));
	if (result == 1)
		result = RESULT(syscall(SYS_io_getevents, context, 1, 1, &answer, NULL));
	if (result == 1)
		result = answer.res;
	syscall(SYS_io_destroy, context);
	return result;
}

static int read_by_uring(int fd, unsigned int setup, unsigned int flags)
{
	const struct io_uring_sqe request = {
		.opcode = IORING_OP_READ,
		.flags = flags,
		.fd = fd,
		.off = -1,
		.addr = (uintptr_t)&count,
		.len = sizeof(count),
	};
	struct uring ring;
	int result = uring_open(&ring, setup);

	if (result)
		return result;
	result = uring_call(&ring, &request, uring_timeout_s);
	uring_close(&ring);
	return result;
}

static int call_uring(int fd)
{
	return read_by_uring(fd, 0, 0);
}

static int call_uring_worker(int fd)
{
	return read_by_uring(fd, 0, IOSQE_ASYNC);
}

static int call_uring_thread(int fd)
{
	return read_by_uring(fd, IORING_SETUP_SQPOLL, 0);
}

static int call_uring_fixed(int fd)
{
	const struct iovec buffer = { &count, sizeof(count) };
	const struct io_uring_sqe request = {
		.opcode = IORING_OP_READ_FIXED,
		.flags = IOSQE_FIXED_FILE,
		.fd = 0,
		.off = -1,
		.addr = (uintptr_t)&count,
		.len = sizeof(count),
	};
	struct uring ring;
	int result = uring_open(&ring, 0);

	if (result)
		return result;
	result = RESULT(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &fd, 1));
	if (!result)
		result = RESULT(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS,
					&buffer, 1));
	if (!result)
		result = uring_call(&ring, &request, uring_timeout_s);
	uring_close(&ring);
	return result;
}

static int call_poll(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	int result = RESULT(poll(&polled, 1, 0));

	return result < 0 ? result : polled.revents;
}

static int call_select(int fd)
{
	struct timeval none = {};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return RESULT(select(fd + 1, &set, NULL, NULL, &none));
}

static int call_epoll(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(0), result;

	if (set < 0)
		return -errno;
	result = RESULT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	if (!result)
		result = RESULT(epoll_wait(set, &event, 1, 0));
	close(set);
	return result <= 0 ? result : (int)event.events;
}

#define SIZE	((int)sizeof(count))

static const struct {
	const char *name;
	int (*call)(int fd);
	int perf, perfmon;
	int perf_ring, perfmon_ring;	/* with an empty ring */
} calls[] = {
	{ "read", call_read, SIZE, SIZE, SIZE, SIZE },
	/* perf reads each part of the buffer separately, and a part has no room for a count. */
	{ "readv", call_readv, -ENOSPC, SIZE, -ENOSPC, SIZE },
	{ "pread", call_pread, -ESPIPE, -ESPIPE, -ESPIPE, -ESPIPE },
	{ "preadv2", call_preadv2, SIZE, SIZE, SIZE, SIZE },
	{ "preadv2(RWF_NOWAIT)", call_preadv2_nowait, -EOPNOTSUPP, SIZE, -EOPNOTSUPP, SIZE },
	{ "splice", call_splice, -EINVAL, -EINVAL, -EINVAL, -EINVAL },
	{ "sendfile", call_sendfile, -EINVAL, -EINVAL, -EINVAL, -EINVAL },
	{ "write", call_write, -EINVAL, -EINVAL, -EINVAL, -EINVAL },
	{ "lseek", call_lseek, -ESPIPE, -ESPIPE, -ESPIPE, -ESPIPE },
	{ "AIO", call_aio, -EINVAL, SIZE, -EINVAL, SIZE },
	/* With a ring, perf waits for a record. This test ends the wait with -ETIME. */
	{ "io_uring", call_uring, SIZE, SIZE, -ETIME, SIZE },
	{ "io_uring, by a worker", call_uring_worker, SIZE, SIZE, -ETIME, SIZE },
	{ "io_uring, by a thread", call_uring_thread, SIZE, SIZE, -ETIME, SIZE },
	{ "io_uring, fixed", call_uring_fixed, SIZE, SIZE, -ETIME, SIZE },
	/* Without a ring, the module reports only the exit of all tasks. */
	{ "poll", call_poll, POLLHUP, 0, 0, 0 },
	{ "select", call_select, 1, 0, 0, 0 },
	{ "epoll", call_epoll, EPOLLHUP, 0, 0, 0 },
};

FIXTURE(event)
{
	struct sampler sampler;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	self->sampler.fd = -1;
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Makes all calls. Expects that each count lies between the counts before and after the call. */
static void make_calls(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
		       int fd, bool has_ring)
{
	bool is_perf = variant->maker == &event_maker_perf;
	int result, expected;
	__s64 before;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		if (has_ring)
			expected = is_perf ? calls[i].perf_ring : calls[i].perfmon_ring;
		else
			expected = is_perf ? calls[i].perf : calls[i].perfmon;
		uring_timeout_s = expected == -ETIME ? SECONDS_IN_VAIN : SECONDS;
		before = event_count(fd);
		count = 0;
		result = calls[i].call(fd);
		EXPECT_EQ(expected, result) {
			TH_LOG("%s", calls[i].name);
		}
		if (result != SIZE)
			continue;
		EXPECT_LE(before, (__s64)count) {
			TH_LOG("%s", calls[i].name);
		}
		EXPECT_GE(event_count(fd), (__s64)count) {
			TH_LOG("%s", calls[i].name);
		}
	}
}

/*
 * Waits until io_uring has released the descriptor, which happens some time after the end of the
 * program. Until then the event excludes events of the other maker.
 */
static bool wait_for_io_uring(const struct event_maker *maker)
{
	return event_wait_until_possible(maker, NULL);
}

TEST_F(event, calls_without_a_ring)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	ASSERT_TRUE(wait_for_io_uring(variant->maker));
	self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->sampler.fd);
	make_calls(_metadata, variant, self->sampler.fd, false);
}

TEST_F(event, calls_with_a_ring)
{
	/* The period is so long that there is no sample. */
	struct perf_event_attr attr = event_every(1ULL << 40);

	ASSERT_TRUE(wait_for_io_uring(variant->maker));
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	make_calls(_metadata, variant, self->sampler.fd, true);
}

/* Reading an inherited event calls functions on other CPUs. */
TEST_F(event, calls_of_an_inherited_event)
{
	struct perf_event_attr attr = event_instructions();

	attr.disabled = 0;
	attr.inherit = 1;
	ASSERT_TRUE(wait_for_io_uring(variant->maker));
	self->sampler.fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->sampler.fd);
	make_calls(_metadata, variant, self->sampler.fd, false);
}

/* A request of io_uring to poll. Each result has this number. */
#define POLL	7
#define REMOVE	8

static int submit_poll(struct uring *ring, int fd, unsigned int flags)
{
	const struct io_uring_sqe request = {
		.opcode = IORING_OP_POLL_ADD,
		.fd = fd,
		.poll32_events = POLLIN,
		.len = flags,
		.user_data = POLL,
	};

	return uring_submit(ring, &request);
}

/* Waits for a result of io_uring, which must come. */
static struct uring_answer wait_for_result(struct __test_metadata *_metadata, struct uring *ring)
{
	struct uring_answer answer = { .result = -EIO };

	EXPECT_EQ(0, uring_wait(ring, &answer, SECONDS));
	return answer;
}

/* Expects a result of the poll, with these events. */
static void expect_polled(struct __test_metadata *_metadata, struct uring *ring, int events,
			  bool continues)
{
	const struct uring_answer answer = wait_for_result(_metadata, ring);

	EXPECT_EQ((__u64)POLL, answer.user_data);
	EXPECT_LE(0, answer.result);
	EXPECT_EQ(events, answer.result & (POLLIN | POLLHUP | POLLERR));
	EXPECT_EQ(continues, !!(answer.flags & IORING_CQE_F_MORE));
}

static void expect_no_result(struct __test_metadata *_metadata, struct uring *ring)
{
	struct uring_answer answer;

	EXPECT_EQ(-ETIME, uring_wait(ring, &answer, 0));
}

#define PERIOD	10007UL

/* Makes a sample of this thread, or on some calls two. Each wakes the reader. */
static void make_sample(struct __test_metadata *_metadata, struct sampler *s)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(PERIOD / 2);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_LT(0UL, sums.samples);
}

/* Opens a disabled event of @tid that wakes the reader at each sample, and a ring of io_uring. */
static void open_waking(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			const FIXTURE_VARIANT(event) *variant, pid_t tid, struct uring *ring)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.wakeup_events = 1;
	ASSERT_TRUE(wait_for_io_uring(variant->maker));
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, tid, -1, ORDER));
	ASSERT_EQ(0, uring_open(ring, 0));
}

TEST_F(event, polling_by_io_uring_ends_at_a_sample)
{
	struct uring ring;

	open_waking(_metadata, self, variant, 0, &ring);
	ASSERT_EQ(0, submit_poll(&ring, self->sampler.fd, 0));
	expect_no_result(_metadata, &ring);
	make_sample(_metadata, &self->sampler);
	expect_polled(_metadata, &ring, POLLIN, false);
	/* The request ends with its first result, so a further sample has none. */
	make_sample(_metadata, &self->sampler);
	expect_no_result(_metadata, &ring);
	/* That sample has woken the ring, so the next request ends at once. */
	ASSERT_EQ(0, submit_poll(&ring, self->sampler.fd, 0));
	expect_polled(_metadata, &ring, POLLIN, false);
	uring_close(&ring);
}

TEST_F(event, polling_by_io_uring_goes_on)
{
	struct uring ring;
	int i;

	open_waking(_metadata, self, variant, 0, &ring);
	ASSERT_EQ(0, submit_poll(&ring, self->sampler.fd, IORING_POLL_ADD_MULTI));
	for (i = 0; i < 50; i++) {
		expect_no_result(_metadata, &ring);
		make_sample(_metadata, &self->sampler);
		expect_polled(_metadata, &ring, POLLIN, true);
	}
	uring_close(&ring);
}

TEST_F(event, polling_by_io_uring_is_cancelled)
{
	const struct io_uring_sqe remove = {
		.opcode = IORING_OP_POLL_REMOVE,
		.fd = -1,
		.addr = POLL,
		.user_data = REMOVE,
	};
	struct uring_answer answer;
	struct uring ring;
	int i, canceled = 0, removed = 0;

	open_waking(_metadata, self, variant, 0, &ring);
	ASSERT_EQ(0, submit_poll(&ring, self->sampler.fd, IORING_POLL_ADD_MULTI));
	ASSERT_EQ(0, uring_submit(&ring, &remove));
	for (i = 0; i < 2; i++) {
		answer = wait_for_result(_metadata, &ring);
		canceled += answer.user_data == POLL && answer.result == -ECANCELED;
		removed += answer.user_data == REMOVE && !answer.result;
	}
	EXPECT_EQ(1, canceled);
	EXPECT_EQ(1, removed);
	make_sample(_metadata, &self->sampler);
	expect_no_result(_metadata, &ring);
	uring_close(&ring);
}

/*
 * The results of the ways of waiting, without a wait: the events of poll(), 1 for select(), and the
 * events of epoll_wait().
 */
struct readiness {
	int poll, select, epoll;
};

/* Asks all three ways. @set is an epoll that has waited for the descriptor since before it was ready. */
static struct readiness ask_all(int fd, int set, void (*before_each)(void *data), void *data)
{
	struct epoll_event event = {};
	struct readiness ready;

	before_each(data);
	ready.poll = call_poll(fd);
	before_each(data);
	ready.select = call_select(fd);
	before_each(data);
	ready.epoll = RESULT(epoll_wait(set, &event, 1, 0));
	if (ready.epoll > 0)
		ready.epoll = event.events;
	return ready;
}

static void do_nothing(void *data __attribute__((unused)))
{
}

/* Lets the task of a struct target work until its event has made a sample. */
static void let_work(void *data)
{
	const struct job job = { .n = 10 * PERIOD, .pieces = 1 };

	target_run_job(data, job);
}

#define EXPECT_READINESS(seen, of_poll, of_select, of_epoll) do {	\
	struct readiness ready = (seen);				\
									\
	EXPECT_EQ(of_poll, ready.poll);					\
	EXPECT_EQ(of_select, ready.select);				\
	EXPECT_EQ((int)(of_epoll), ready.epoll);			\
} while (0)

/*
 * Each way of waiting ends once for each wake-up of a ring. After the end of the task, it always
 * ends at once.
 */
TEST_F(event, each_way_of_waiting_ends_at_a_sample_and_at_the_end)
{
	struct epoll_event readable = { .events = EPOLLIN };
	struct perf_event_attr attr = event_every(PERIOD);
	int fd, set = epoll_create1(EPOLL_CLOEXEC);
	struct target target;

	ASSERT_LE(0, set);
	ASSERT_EQ(0, target_start(&target, -1, false));
	attr.wakeup_events = 1;
	ASSERT_TRUE(wait_for_io_uring(variant->maker));
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, target.tid, -1, ORDER));
	fd = self->sampler.fd;
	ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, fd, &readable));
	ASSERT_EQ(0, event_enable(fd));
	EXPECT_READINESS(ask_all(fd, set, do_nothing, NULL), 0, 0, 0);
	EXPECT_READINESS(ask_all(fd, set, let_work, &target), POLLIN, 1, EPOLLIN);
	EXPECT_READINESS(ask_all(fd, set, do_nothing, NULL), 0, 0, 0);
	ASSERT_EQ(0, event_disable(fd));
	target_kill(&target);
	EXPECT_READINESS(ask_all(fd, set, do_nothing, NULL), POLLHUP, 1, EPOLLHUP);
	EXPECT_READINESS(ask_all(fd, set, do_nothing, NULL), POLLHUP, 1, EPOLLHUP);
	close(set);
}

/* Returns the other maker, whose events are refused until the event is freed. */
static const struct event_maker *other_maker(const FIXTURE_VARIANT(event) *variant)
{
	return variant->maker == &event_maker_perf ? &event_maker_perfmon : &event_maker_perf;
}

/* io_uring polls the event of a closed descriptor until its task exits, and then frees it. */
TEST_F(event, descriptor_is_closed_while_io_uring_polls_it)
{
	struct target target;
	struct uring ring;

	/* The ring is unmapped, too, as its mapping would keep the event. */
	if (variant->maker->polls_pages_only)
		return;
	ASSERT_EQ(0, target_start(&target, -1, false));
	open_waking(_metadata, self, variant, target.tid, &ring);
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	ASSERT_EQ(0, submit_poll(&ring, self->sampler.fd, 0));
	sampler_close(&self->sampler);
	expect_no_result(_metadata, &ring);
	target_kill(&target);
	expect_polled(_metadata, &ring, POLLHUP, false);
	uring_close(&ring);
	EXPECT_TRUE(wait_for_io_uring(other_maker(variant)));
}

/* io_uring is closed before the task exits, while other rings poll the task's event. */
TEST_F(event, io_uring_is_closed_while_it_polls)
{
	const struct job job = { .n = 10 * PERIOD, .pieces = 1 };
	struct target target;
	struct uring ring[8];
	int i;

	ASSERT_EQ(0, target_start(&target, -1, false));
	for (i = 0; i < 8; i++) {
		open_waking(_metadata, self, variant, target.tid, &ring[i]);
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		ASSERT_EQ(0, submit_poll(&ring[i], self->sampler.fd,
					 i % 2 ? IORING_POLL_ADD_MULTI : 0));
		if (i % 4 < 2)
			sampler_close(&self->sampler);
		uring_close(&ring[i]);
		ASSERT_EQ(0, target_run_job(&target, job));
		sampler_close(&self->sampler);
	}
	target_kill(&target);
	EXPECT_TRUE(wait_for_io_uring(other_maker(variant)));
}

TEST_HARNESS_MAIN
