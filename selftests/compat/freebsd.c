// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program for FreeBSD's perfmon(4) gets the exact count each time. Linux's perf has the same
 * count.
 */
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "perf.h"
#include "program.h"

#define N		1000000UL
#define REPEATS		100

/* This test built for 32 bits runs the programs built for 32 bits. */
#define PROGRAM(name)	(sizeof(long) == 4 ? name "_32" : name)

FIXTURE(freebsd)
{
};

FIXTURE_SETUP(freebsd)
{
	SKIP_WITHOUT_PMU();
}

FIXTURE_TEARDOWN(freebsd)
{
}

TEST_F(freebsd, count_is_exact_100_times)
{
	long long first, value;
	int i;

	first = run_program(PROGRAM("compat_freebsd_loop"));
	ASSERT_LE((long long)(LOOP_INSNS * N), first);
	ASSERT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	for (i = 1; i < REPEATS; i++) {
		value = run_program(PROGRAM("compat_freebsd_loop"));
		EXPECT_EQ(first, value) {
			TH_LOG("run %d of %d", i + 1, REPEATS);
		}
	}
	ksft_print_msg("PMIOREAD: %lu + %lld, %d times\n", LOOP_INSNS * N,
		       first - (long long)(LOOP_INSNS * N), REPEATS);
}

/* The client uses every name of the interface, and counts the loop. */
TEST_F(freebsd, client_of_every_name_counts_the_loop)
{
	long long first = run_program(PROGRAM("compat_freebsd_client"));

	ASSERT_LE((long long)(LOOP_INSNS * N), first);
	EXPECT_GE((long long)(LOOP_INSNS * N) + CALL_OVERHEAD, first);
	EXPECT_EQ(first, run_program(PROGRAM("compat_freebsd_client")));
}

/*
 * perf counts the same loop, after the module has finished, since perf and the module exclude each
 * other.
 */
TEST_F(freebsd, perf_counts_the_same_loop_100_times)
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
