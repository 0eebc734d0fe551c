// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors of events that are passed to other processes (SCM_RIGHTS). The receiver has the
 * same event as the sender, also after the sender's exit. If only a socket holds the event, it is
 * closed with the socket, also by the kernel's garbage collector of socket cycles.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "memory.h"
#include "module.h"
#include "samples.h"

#define N		100000UL
#define PERIOD		9973
#define ORDER		6
#define CYCLES		20

FIXTURE(event)
{
	int sockets[2];
	int fd;
	struct event_ring ring;
	struct event_record record;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	self->fd = self->sockets[0] = self->sockets[1] = -1;
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->sockets));
}

FIXTURE_TEARDOWN(event)
{
	event_ring_unmap(&self->ring);
	close(self->fd);
	close(self->sockets[0]);
	close(self->sockets[1]);
	restore_maker(_metadata, variant);
}

/* A message of one byte with room for one descriptor; the union aligns its header. */
struct fd_message {
	struct msghdr message;
	struct iovec data;
	char byte;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
};

static void fd_message_init(struct fd_message *p)
{
	*p = (struct fd_message) { };
	p->data = (struct iovec) { &p->byte, 1 };
	p->message.msg_iov = &p->data;
	p->message.msg_iovlen = 1;
	p->message.msg_control = &p->control;
	p->message.msg_controllen = sizeof(p->control);
}

/* Returns 0 or a negative errno. */
static int send_descriptor(int socket, int fd)
{
	struct fd_message p;

	fd_message_init(&p);
	p.control.header.cmsg_level = SOL_SOCKET;
	p.control.header.cmsg_type = SCM_RIGHTS;
	p.control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&p.control.header), &fd, sizeof(fd));
	return sendmsg(socket, &p.message, 0) == 1 ? 0 : -errno;
}

/* Returns the descriptor, or a negative errno. */
static int receive_descriptor(int socket)
{
	struct fd_message p;
	int fd;

	fd_message_init(&p);
	if (recvmsg(socket, &p.message, MSG_CMSG_CLOEXEC) != 1)
		return -errno;
	if (p.message.msg_controllen < CMSG_LEN(sizeof(int)))
		return -ENOMSG;
	memcpy(&fd, CMSG_DATA(&p.control.header), sizeof(fd));
	return fd;
}

/* Receives an event of this process, which a child has opened and sent before it exited. */
static void receive_event_of_child(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				   const struct event_maker *maker, struct perf_event_attr *attr)
{
	pid_t parent = getpid(), child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child) {
		int fd = maker->open(attr, parent, -1, -1, 0);

		_exit(fd < 0 ? -fd : -send_descriptor(self->sockets[1], fd));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	self->fd = receive_descriptor(self->sockets[0]);
	ASSERT_LE(0, self->fd);
}

TEST_F(event, count_is_exact_after_the_exit_of_the_opener)
{
	struct perf_event_attr attr = event_instructions();
	__s64 least;

	receive_event_of_child(_metadata, self, variant->maker, &attr);
	least = event_loop_count(self->fd, 1);
	EXPECT_LT(0, least);
	EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), event_loop_count(self->fd, N));
}

TEST_F(event, receiver_controls_the_event_of_the_sender)
{
	int status;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		int fd = receive_descriptor(self->sockets[1]);

		_exit(fd < 0 || event_count(fd) < (__s64)(LOOP_INSNS * N) || event_disable(fd));
	}
	self->fd = open_instructions(_metadata, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd));
	loop(N);
	ASSERT_EQ(0, send_descriptor(self->sockets[0], self->fd));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	loop(10 * N);
	EXPECT_GT((__s64)(10 * LOOP_INSNS * N), event_count(self->fd));
}

TEST_F(event, ring_that_the_receiver_maps_has_every_sample)
{
	struct perf_event_attr attr = event_every(PERIOD);
	unsigned long samples = 0, others = 0;
	long pinned = memory_pinned_kb();

	receive_event_of_child(_metadata, self, variant->maker, &attr);
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd, ORDER, false));
	ASSERT_LT(0, event_loop_count(self->fd, N));
	while (event_ring_next(&self->ring, &self->record)) {
		if (self->record.header.type == PERF_RECORD_SAMPLE)
			samples++;
		else
			others++;
	}
	EXPECT_EQ((unsigned long)event_count(self->fd) / PERIOD, samples);
	EXPECT_EQ(0UL, others);
	event_ring_unmap(&self->ring);
	EXPECT_EQ(pinned, memory_pinned_kb());
}

/* Sends a socket and an event through this socket, and closes both, so that a cycle remains. */
static int leave_in_cycle(const struct event_maker *maker, int round)
{
	struct perf_event_attr attr = event_every(PERIOD);
	int sockets[2], fd, err;

	/* In every other round an event of a CPU, which counts until it is closed. */
	attr.disabled = 0;
	fd = maker->open(&attr, round % 2 ? -1 : 0, round % 2 ? 0 : -1, -1, 0);
	if (fd < 0)
		return fd;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
		close(fd);
		return -errno;
	}
	err = send_descriptor(sockets[0], fd);
	err = err ? err : send_descriptor(sockets[0], sockets[0]);
	err = err ? err : send_descriptor(sockets[0], sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
	close(fd);
	return err;
}

/* Returns the maker whose events are refused while @maker has an event. */
static const struct event_maker *other_maker(const struct event_maker *maker)
{
	return maker == &event_maker_perf ? &event_maker_perfmon : &event_maker_perf;
}

/* Closing a socket starts the collector. */
static void start_collector(void)
{
	close(socket(AF_UNIX, SOCK_STREAM, 0));
}

TEST_F(event, event_in_a_cycle_of_sockets_is_closed_by_the_collector)
{
	int i;

	/* With place-holders, events of one maker do not exclude the other's, so the test ends. */
	if (module_has_place_holder())
		return;
	self->fd = open_instructions(_metadata, variant->maker, 0);
	EXPECT_GT(0, event_open_instructions(other_maker(variant->maker), 0));
	close(self->fd);
	self->fd = -1;
	for (i = 0; i < CYCLES; i++) {
		ASSERT_EQ(0, leave_in_cycle(variant->maker, i));
		ASSERT_TRUE(event_wait_until_possible(other_maker(variant->maker), start_collector));
	}
}

TEST_HARNESS_MAIN
