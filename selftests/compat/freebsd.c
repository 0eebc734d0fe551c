// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program written for FreeBSD's perfmon(4) gives the exact count, every
 * time, and it is Linux perf's.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "perf.h"

#define N		1000000UL
#define REPEATS		100

/* This test built for 32 bits runs the program built for 32 bits. */
#define PROGRAM		(sizeof(long) == 4 ? "compat_freebsd_loop_32" : \
					     "compat_freebsd_loop")

FIXTURE(freebsd)
{
	char program[PATH_MAX];
};

FIXTURE_SETUP(freebsd)
{
	char self_path[PATH_MAX - NAME_MAX] = "";

	SKIP_WITHOUT_PMU();
	ASSERT_LT(0, readlink("/proc/self/exe", self_path,
			      sizeof(self_path) - 1));
	snprintf(self->program, sizeof(self->program), "%s/%s",
		 dirname(self_path), PROGRAM);
}

FIXTURE_TEARDOWN(freebsd)
{
}

/* Runs the program: the number it prints, or a negative errno. */
static long long run_program(const char *program)
{
	long long value = -EIO;
	int out[2], status;
	FILE *f;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		/* The program must not count how we go to sleep. */
		if (dup2(out[1], STDOUT_FILENO) < 0 || wait_until_idle())
			_exit(1);
		execl(program, program, NULL);
		_exit(1);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	if (!f || fscanf(f, "%lld", &value) != 1)
		value = -EIO;
	if (f)
		fclose(f);
	if (waitpid(pid, &status, 0) != pid || status)
		value = -EIO;
	return value;
}

TEST_F_TIMEOUT(freebsd, count_is_exact_100_times, 120)
{
	long long first, value;
	int i;

	first = run_program(self->program);
	ASSERT_LE((long long)(LOOP_INSNS * N), first);
	ASSERT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	for (i = 1; i < REPEATS; i++) {
		value = run_program(self->program);
		EXPECT_EQ(first, value) {
			TH_LOG("run %d of %d", i + 1, REPEATS);
		}
	}
	ksft_print_msg("PMIOREAD: %lu + %lld, %d times\n", LOOP_INSNS * N,
		       first - (long long)(LOOP_INSNS * N), REPEATS);
}

/* The same loop under perf, one after the other: they exclude each other. */
TEST_F_TIMEOUT(freebsd, perf_counts_the_same_loop_100_times, 120)
{
	long long first = 0, value;
	int i, fd;

	for (i = 0; i < REPEATS; i++) {
		fd = perf_open_instructions();
		ASSERT_LE(0, fd);
		value = perf_count_loop(fd, N);
		close(fd);
		if (!i)
			first = value;
		EXPECT_EQ(first, value) {
			TH_LOG("run %d of %d", i + 1, REPEATS);
		}
	}
	EXPECT_LE((long long)(LOOP_INSNS * N), first);
	EXPECT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	ksft_print_msg("perf:     %lu + %lld, %d times\n", LOOP_INSNS * N,
		       first - (long long)(LOOP_INSNS * N), REPEATS);
}

TEST_HARNESS_MAIN
