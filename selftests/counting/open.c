// SPDX-License-Identifier: GPL-2.0-only
/*
 * open(2) of the device, the counters that a descriptor owns, and close(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "perf.h"

#define N	1000000UL

FIXTURE(open)
{
	int writer;
};

FIXTURE_SETUP(open)
{
	SKIP_WITHOUT_PMU();
	self->writer = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(open)
{
	close(self->writer);
}

TEST_F(open, second_writer_is_refused)
{
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
	EXPECT_EQ(-EBUSY, device_open(O_WRONLY));
	close(self->writer);
	self->writer = open_device(_metadata, O_WRONLY);
	EXPECT_EQ(-EBUSY, device_open(O_WRONLY));
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
}

TEST_F(open, second_writer_leaves_the_first_alone)
{
	__s64 value;

	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->writer, 0));
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
	loop(N);
	ASSERT_EQ(0, pmc_stop(self->writer, 0));
	ASSERT_EQ(0, pmc_read(self->writer, 0, &value));
	EXPECT_LE((__s64)(LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + 2 * CALL_OVERHEAD, value);
}

TEST_F(open, readers_are_unlimited)
{
	int fds[64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = device_open(O_RDONLY);
		ASSERT_LE(0, fds[i]);
	}
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);

	/*
	 * While there is a writer, another can't open the device, even after readers have closed
	 * it.
	 */
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
	close(self->writer);
	self->writer = device_open(O_RDWR);
	EXPECT_LE(0, self->writer);
}

/* A process can read a count that another process has started. */
TEST_F(open, reader_sees_the_writers_live_values)
{
	int reader = device_open(O_RDONLY);
	__s64 before, after, sum = 0;
	struct pmc pmc;
	__u64 select;
	long cpu;

	ASSERT_LE(0, reader);
	EXPECT_EQ(-EBUSY, pmc_value(reader, 0));
	EXPECT_EQ(-EBUSY, pmc_value_on(reader, 0, 0));
	EXPECT_EQ(-EBUSY, pmc_get(reader, 0, &pmc));
	EXPECT_EQ(-EBUSY, pmc_get2(reader, 0, &select));

	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(0, pmc_value(reader, 0));
	ASSERT_EQ(0, pmc_get(reader, 0, &pmc));
	EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	ASSERT_EQ(0, pmc_start(self->writer, 0));
	ASSERT_EQ(0, pmc_get(reader, 0, &pmc));
	EXPECT_EQ(0x004100c0U, pmc.pmc_val);
	ASSERT_EQ(0, pmc_get2(reader, 0, &select));
	EXPECT_EQ(0x004100c0ULL, select);

	ASSERT_EQ(0, pmc_read(reader, 0, &before));
	loop(N);
	ASSERT_EQ(0, pmc_read(reader, 0, &after));
	EXPECT_LE((__s64)(LOOP_INSNS * N), after - before);
	EXPECT_GE((__s64)(LOOP_INSNS * N) + CALL_OVERHEAD, after - before);
	ASSERT_EQ(0, pmc_stop(self->writer, 0));
	after = pmc_value(self->writer, 0);
	EXPECT_EQ(after, pmc_value(reader, 0));
	for (cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
		sum += pmc_value_on(reader, 0, cpu);
	EXPECT_EQ(after, sum);

	/* A reader can't change anything. */
	EXPECT_EQ(-EPERM, pmc_start(reader, 0));
	EXPECT_EQ(-EPERM, pmc_reset(reader, 0));
	close(reader);
	EXPECT_EQ(after, pmc_value(self->writer, 0));

	/* After the writer's close the counter is not set up. */
	reader = open_device(_metadata, O_RDONLY);
	EXPECT_EQ(after, pmc_value(reader, 0));
	close(self->writer);
	self->writer = -1;
	EXPECT_EQ(-EBUSY, pmc_value(reader, 0));
	EXPECT_EQ(-EBUSY, pmc_get(reader, 0, &pmc));
	close(reader);
}

TEST_F(open, write_only_descriptor_counts)
{
	close(self->writer);
	self->writer = open_device(_metadata, O_WRONLY);
	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->writer, 0, N));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(self->writer, 0));
}

TEST_F(open, close_frees_the_counters)
{
	struct pmc pmc;

	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->writer, 0));
	close(self->writer);
	self->writer = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EBUSY, pmc_get(self->writer, 0, &pmc));
	EXPECT_EQ(-EBUSY, pmc_stop(self->writer, 0));
	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(0, pmc_value(self->writer, 0));
}

/* The open file owns the counters, not the descriptor. */
TEST_F(open, counters_stay_until_the_last_close)
{
	int second = dup(self->writer);

	ASSERT_LE(0, second);
	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	close(self->writer);
	self->writer = second;
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
	EXPECT_EQ(0, pmc_count_loop(second, 0, N));
	EXPECT_LE((__s64)(LOOP_INSNS * N), pmc_value(second, 0));
}

TEST_F(open, killed_writer_frees_everything)
{
	int ready[2];
	char byte;
	pid_t pid;

	close(self->writer);
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int fd = device_open(O_RDWR);

		if (fd < 0 ||
		    pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR) ||
		    pmc_start(fd, 0))
			_exit(1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);

	/* read(2) returns 0 if the child could not start its counter. */
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ(-EBUSY, device_open(O_RDWR));
	EXPECT_EQ(-EBUSY, perf_count_short_loop());
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));

	EXPECT_EQ(0, perf_count_short_loop());
	self->writer = open_device(_metadata, O_RDWR);
	EXPECT_EQ(-EBUSY, pmc_start(self->writer, 0));
	EXPECT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
}

TEST_HARNESS_MAIN
