// SPDX-License-Identifier: GPL-2.0-only
/*
 * libperfmon's markers: the code between two markers is counted to the instruction, even if other
 * markers are in between, and in threads that take turns on a CPU.
 */
#include <perfmon.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "event.h"
#include "exact_loop.h"
#include "fixture.h"
#include "perf.h"

#define N	1000
#define PASSES	20000
#define THREADS	4

FIXTURE(markers)
{
	struct perfmon_total totals[8];
	size_t number;
};

FIXTURE_VARIANT(markers)
{
	const char *events;
	unsigned int size;
	/* The counts of each event in a pass of the loop. */
	uint64_t loop[PERFMON_MARKED];
};

FIXTURE_VARIANT_ADD(markers, instructions)
{
	.events = "instructions:u",
	.size = 1,
	.loop = { EXACT_INSNS(N) },
};

FIXTURE_VARIANT_ADD(markers, several)
{
	.events = "instructions:u,branches:u,instructions:u",
	.size = 3,
	.loop = { EXACT_INSNS(N), EXACT_BRANCHES(N), EXACT_INSNS(N) },
};

FIXTURE_SETUP(markers)
{
	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
	ASSERT_EQ(0, perfmon_mark_events(variant->events));
}

FIXTURE_TEARDOWN(markers)
{
}

/* Expects the totals of a region: @passes passes, each with @times the loop. */
static void expect_region(struct __test_metadata *_metadata, const FIXTURE_VARIANT(markers) *variant,
			  const char *name, uint64_t passes, uint64_t times)
{
	struct perfmon_total totals[70];
	size_t n = perfmon_totals(totals, 70), i;
	unsigned int event;

	ASSERT_GE(70U, n);
	for (i = 0; i < n && strcmp(totals[i].name, name); i++)
		;
	ASSERT_LT(i, n) {
		TH_LOG("perfmon_totals() has no region %s", name);
	}
	EXPECT_EQ(passes, totals[i].passes);
	EXPECT_EQ(0ULL, totals[i].failed) {
		TH_LOG("%s", perfmon_failure());
	}
	EXPECT_EQ(variant->size, totals[i].events);
	for (event = 0; event < variant->size; event++) {
		EXPECT_EQ(passes * times * variant->loop[event], totals[i].counts[event]) {
			TH_LOG("%s: event %u", name, event);
		}
	}
}

#define EXPECT_REGION(name, passes, times)	expect_region(_metadata, variant, name, passes, times)

TEST_F(markers, empty_region_is_empty)
{
	uint64_t counts[PERFMON_MARKED] = { 1, 1, 1, 1 };
	int i;

	for (i = 0; i < 100; i++) {
		PERFMON_BEGIN("nothing");
		PERFMON_END("nothing");
	}
	EXPECT_REGION("nothing", 100, 0);
	EXPECT_EQ((int)variant->size, perfmon_last(counts));
	EXPECT_EQ(0ULL, counts[0]);
	EXPECT_EQ(NULL, perfmon_failure());
}

TEST_F(markers, region_counts_what_is_inside)
{
	int i;

	for (i = 0; i < 100; i++) {
		PERFMON_BEGIN("loop");
		EXACT_LOOP(N);
		PERFMON_END("loop");
	}
	EXPECT_REGION("loop", 100, 1);
}

TEST_F(markers, markers_count_in_no_region)
{
	PERFMON_BEGIN("outer");
	EXACT_LOOP(N);
	PERFMON_BEGIN("inner");
	EXACT_LOOP(N);
	PERFMON_BEGIN("innermost");
	EXACT_LOOP(N);
	PERFMON_END("innermost");
	PERFMON_END("inner");
	PERFMON_BEGIN("inner");
	PERFMON_END("inner");
	EXACT_LOOP(N);
	PERFMON_END("outer");
	EXPECT_REGION("outer", 1, 4);
	EXPECT_REGION("innermost", 1, 1);
}

TEST_F(markers, regions_may_overlap)
{
	PERFMON_BEGIN("first");
	EXACT_LOOP(N);
	PERFMON_BEGIN("second");
	EXACT_LOOP(N);
	PERFMON_END("first");
	EXACT_LOOP(N);
	PERFMON_END("second");
	EXPECT_REGION("first", 1, 2);
	EXPECT_REGION("second", 1, 2);
}

static void nest_passes(int levels)
{
	PERFMON_BEGIN("level");
	EXACT_LOOP(N);
	PERFMON_END("level");
	if (levels > 1)
		nest_passes(levels - 1);
}

TEST_F(markers, region_may_be_in_itself)
{
	nest_passes(10);
	EXPECT_REGION("level", 10, 1);
	PERFMON_BEGIN("same");
	PERFMON_BEGIN("same");
	EXACT_LOOP(N);
	PERFMON_END("same");
	PERFMON_END("same");
	/* The loop is in the outer and in the inner pass. */
	EXPECT_REGION("same", 2, 1);
}

/* Names are compared as strings, not as pointers. */
TEST_F(markers, name_is_any_string)
{
	char first[] = "name", second[] = "name";

	PERFMON_BEGIN(first);
	EXACT_LOOP(N);
	PERFMON_END(second);
	memset(first, 'x', 4);
	PERFMON_BEGIN(second);
	EXACT_LOOP(N);
	PERFMON_END("name");
	EXPECT_REGION("name", 2, 1);
}

static void *pass_many(void *unused)
{
	int i;

	for (i = 0; i < PASSES; i++) {
		PERFMON_BEGIN("outer");
		EXACT_LOOP(N);
		PERFMON_BEGIN("inner");
		EXACT_LOOP(N);
		PERFMON_END("inner");
		PERFMON_END("outer");
	}
	return unused;
}

/* Passes through many regions in each of several threads, on this thread's CPUs. */
static void threads_are_exact(struct __test_metadata *_metadata,
			      const FIXTURE_VARIANT(markers) *variant)
{
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, pass_many, NULL));
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_REGION("outer", THREADS * PASSES, 2);
	EXPECT_REGION("inner", THREADS * PASSES, 1);
}

/* From time to time the kernel changes a page while a marker reads the page. */
TEST_F(markers, threads_on_one_cpu_are_exact)
{
	ASSERT_LE(0, pin_to_first_cpu());
	threads_are_exact(_metadata, variant);
}

TEST_F(markers, threads_on_all_cpus_are_exact)
{
	threads_are_exact(_metadata, variant);
}

/*
 * The instructions of repeated readings are subtracted. The test can't make the library repeat a
 * reading, so it increments the number of repetitions that the markers have stored.
 */
TEST_F(markers, instructions_of_retries_are_subtracted)
{
	uint64_t counts[PERFMON_MARKED];

	PERFMON_BEGIN("again");
	EXACT_LOOP(N);
	PERFMON_READ_MARKS_(arrival);
	perfmon_marks.arrival.retries[0] += 2;
	perfmon_leave("again");
	PERFMON_READ_MARKS_(departure);
	ASSERT_LT(0, perfmon_last(counts));
	EXPECT_EQ(variant->loop[0] - 2 * PERFMON_RETRY_INSNS, counts[0]);
}

TEST_F(markers, end_without_begin_is_not_a_pass)
{
	uint64_t counts[PERFMON_MARKED];

	PERFMON_BEGIN("begun");
	PERFMON_END("begun");
	PERFMON_END("not begun");
	EXPECT_EQ(-1, perfmon_last(counts));
	EXPECT_EQ(ENODATA, errno);
	self->number = perfmon_totals(self->totals, 8);
	ASSERT_EQ(2U, self->number);
	EXPECT_STREQ("not begun", self->totals[1].name);
	EXPECT_EQ(0ULL, self->totals[1].passes);
	EXPECT_EQ(1ULL, self->totals[1].failed);
	EXPECT_NE(NULL, strstr(perfmon_failure(), "had not begun"));
}

TEST_F(markers, too_many_nested_regions_are_reported)
{
	struct perfmon_total totals[65];
	uint64_t counts[PERFMON_MARKED];
	char name[8];
	int i;

	for (i = 0; i < 65; i++) {
		snprintf(name, sizeof(name), "%d", i);
		PERFMON_BEGIN(name);
	}
	self->number = perfmon_totals(NULL, 0);
	EXPECT_EQ(65U, self->number);
	EXPECT_NE(NULL, strstr(perfmon_failure(), "too many regions"));
	PERFMON_END("64");
	EXPECT_EQ(-1, perfmon_last(counts));
	ASSERT_EQ(65U, perfmon_totals(totals, 65));
	EXPECT_STREQ("64", totals[64].name);
	EXPECT_EQ(0ULL, totals[64].passes);
	EXPECT_EQ(1ULL, totals[64].failed);
	PERFMON_END("63");
	EXPECT_EQ((int)variant->size, perfmon_last(counts));
}

TEST_F(markers, child_of_fork_starts_from_zero)
{
	int status;
	pid_t pid;

	PERFMON_BEGIN("parent");
	pid = fork();
	if (!pid) {
		uint64_t counts[PERFMON_MARKED];

		/* A region that the parent has begun does not exist in the child. */
		PERFMON_END("parent");
		if (!perfmon_last(counts) || !perfmon_failure())
			_exit(1);
		PERFMON_BEGIN("child");
		EXACT_LOOP(N);
		PERFMON_END("child");
		_exit(perfmon_last(counts) < 1 || counts[0] != variant->loop[0] ? 2 : 0);
	}
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXACT_LOOP(N);
	PERFMON_END("parent");
	EXPECT_EQ(NULL, perfmon_failure());
}

TEST_F(markers, errno_is_kept)
{
	errno = 77;
	PERFMON_BEGIN("errno");
	PERFMON_END("other");
	EXPECT_EQ(77, errno);
}

TEST_F(markers, events_are_chosen_before_the_first_marker)
{
	PERFMON_BEGIN("x");
	PERFMON_END("x");
	EXPECT_EQ(-1, perfmon_mark_events("cycles:u"));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(-1, perfmon_mark_events("cycles:u,cycles:u,cycles:u,cycles:u,cycles:u"));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(markers, report_has_a_line_for_each_event)
{
	char text[2048] = "", line[64];
	FILE *out = fmemopen(text, sizeof(text), "w");

	ASSERT_NE(NULL, out);
	PERFMON_BEGIN("shown");
	EXACT_LOOP(N);
	PERFMON_END("shown");
	PERFMON_END("lost");
	EXPECT_EQ(0, perfmon_report(out));
	fclose(out);
	snprintf(line, sizeof(line), "%llu", (unsigned long long)variant->loop[0]);
	EXPECT_NE(NULL, strstr(text, line)) {
		TH_LOG("%s", text);
	}
	EXPECT_EQ(variant->size > 1, !!strstr(text, "branches:u"));
	EXPECT_NE(NULL, strstr(text, "1  not counted"));
}

/* Without counters, a pass has no count, and is not shown with a count of 0. */
TEST(passes_without_counters_are_not_counted)
{
	struct perfmon_total total;
	uint64_t counts[PERFMON_MARKED];
	int perf;

	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
	perf = perf_hold_counters();
	ASSERT_LE(0, perf);
	PERFMON_BEGIN("refused");
	PERFMON_END("refused");
	ASSERT_EQ(1U, perfmon_totals(&total, 1));
	EXPECT_EQ(0ULL, total.passes);
	EXPECT_EQ(1ULL, total.failed);
	EXPECT_EQ(-1, perfmon_last(counts));
	EXPECT_NE(NULL, strstr(perfmon_failure(), "Linux's perf"));
	close(perf);
}

/* PERFMON_EVENTS chooses the events of a program that does not choose any. */
TEST(environment_chooses_the_events)
{
	struct perfmon_total total;

	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
	ASSERT_EQ(0, setenv("PERFMON_EVENTS", "branches:u", 1));
	PERFMON_BEGIN("loop");
	EXACT_LOOP(N);
	PERFMON_END("loop");
	ASSERT_EQ(1U, perfmon_totals(&total, 1));
	EXPECT_EQ(1U, total.events);
	EXPECT_EQ(EXACT_BRANCHES(N), total.counts[0]);
}

TEST_HARNESS_MAIN
