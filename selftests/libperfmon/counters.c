// SPDX-License-Identifier: GPL-2.0-only
/*
 * libperfmon's counters: exact counts of a known loop, as with perf; groups, threads, reading
 * without a system call, and error messages.
 */
#include <perfmon.h>

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "perf.h"

#define N		10000UL
#define NOBODY		65534
#define PROGRAM		"/usr/lib/perfmon/pmctl_loop"
#define COPY		"/tmp/libperfmon_copy"

FIXTURE(libperfmon)
{
	struct perfmon_counters *counters;
};

FIXTURE_SETUP(libperfmon)
{
	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perfmon, NULL));
	self->counters = perfmon_open("instructions:u,branches:u", 0);
	ASSERT_NE(NULL, self->counters) {
		TH_LOG("%s", perfmon_error());
	}
}

FIXTURE_TEARDOWN(libperfmon)
{
	perfmon_close(self->counters);
}

/*
 * Counts loop(@n) into @counts. The function is not inlined, so that the instructions around the
 * loop stay the same.
 */
static __attribute__((noinline)) int count_loop(struct perfmon_counters *counters, unsigned long n,
						uint64_t *counts)
{
	if (perfmon_reset(counters) || perfmon_start(counters))
		return -1;
	loop(n);
	return perfmon_stop(counters) || perfmon_read(counters, counts);
}

TEST_F(libperfmon, counts_of_a_loop_are_exact)
{
	uint64_t least[2], counts[2];
	unsigned long n;

	ASSERT_EQ(0, count_loop(self->counters, 1, least));
	for (n = 2; n < 1000; n++) {
		ASSERT_EQ(0, count_loop(self->counters, n, counts));
		ASSERT_EQ(least[0] + LOOP_INSNS * (n - 1), counts[0]);
		ASSERT_EQ(least[1] + n - 1, counts[1]);
	}
}

TEST_F(libperfmon, overhead_is_what_an_empty_pass_counts)
{
	uint64_t counts[2];
	unsigned int i;

	ASSERT_EQ(0, count_loop(self->counters, N, counts));
	EXPECT_LT(0ULL, perfmon_overhead(self->counters, 0));
	/* The test calls the functions by a few other instructions than the library itself does. */
	for (i = 0; i < 2; i++) {
		int64_t rest = (int64_t)(counts[i] - perfmon_overhead(self->counters, i) - (i ? N : LOOP_INSNS * N));

		EXPECT_LE(-4, rest);
		EXPECT_GE(8, rest) {
			TH_LOG("event %u: %lld beside the loop", i, (long long)rest);
		}
	}
	EXPECT_EQ(0ULL, perfmon_overhead(self->counters, 2));
}

TEST_F(libperfmon, counts_are_the_same_as_with_perf)
{
	uint64_t first[2], counts[2];
	__s64 perfs;

	ASSERT_EQ(0, count_loop(self->counters, N, first));
	ASSERT_EQ(0, count_loop(self->counters, 3 * N, counts));
	perfmon_close(self->counters);
	self->counters = NULL;
	/* perf gets the counters when the module has none. */
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
	perfs = perf_count_loop_once(3 * N) - perf_count_loop_once(N);
	EXPECT_EQ(perfs, (__s64)(counts[0] - first[0]));
	EXPECT_EQ((__s64)(2 * LOOP_INSNS * N), perfs);
}

TEST_F(libperfmon, counts_continue_after_a_stop)
{
	uint64_t once[2], counts[2];

	ASSERT_EQ(0, count_loop(self->counters, N, once));
	loop(N);
	ASSERT_EQ(0, perfmon_read(self->counters, counts));
	EXPECT_EQ(once[0], counts[0]);
	ASSERT_EQ(0, perfmon_start(self->counters));
	loop(N);
	ASSERT_EQ(0, perfmon_stop(self->counters));
	ASSERT_EQ(0, perfmon_read(self->counters, counts));
	EXPECT_LE(once[0] + LOOP_INSNS * N, counts[0]);
	EXPECT_GT(once[0] + LOOP_INSNS * N + 200, counts[0]);
}

TEST_F(libperfmon, counter_names_are_those_given)
{
	EXPECT_EQ(2U, perfmon_size(self->counters));
	EXPECT_STREQ("instructions:u", perfmon_name(self->counters, 0));
	EXPECT_STREQ("branches:u", perfmon_name(self->counters, 1));
	EXPECT_EQ(NULL, perfmon_name(self->counters, 2));
}

/* Counts loop(@n) by the page. The function is not inlined, like count_loop(). */
static __attribute__((noinline)) uint64_t count_by_page(const struct perf_event_mmap_page *page,
							unsigned long n)
{
	uint64_t before, after;

	if (perfmon_rdpmc(page, &before))
		return 0;
	loop(n);
	return perfmon_rdpmc(page, &after) ? 0 : after - before;
}

/* Returns the least of several counts, since a page that changes while it is read is read again. */
static uint64_t least_by_page(const struct perf_event_mmap_page *page, unsigned long n)
{
	uint64_t least = count_by_page(page, n), count;
	int i;

	for (i = 0; i < 5; i++) {
		count = count_by_page(page, n);
		if (count < least)
			least = count;
	}
	return least;
}

TEST_F(libperfmon, counts_by_rdpmc_are_exact)
{
	const struct perf_event_mmap_page *page = perfmon_page(self->counters, 0);
	uint64_t count, least;
	unsigned long n;

	ASSERT_NE(NULL, page);
	EXPECT_EQ(page, perfmon_page(self->counters, 0));
	EXPECT_EQ(-1, perfmon_rdpmc(page, &count));
	ASSERT_EQ(0, perfmon_start(self->counters));
	least = least_by_page(page, 1);
	EXPECT_LE((uint64_t)LOOP_INSNS, least);
	EXPECT_GT(60ULL, least);
	for (n = 2; n < 300; n++)
		ASSERT_EQ(least + LOOP_INSNS * (n - 1), least_by_page(page, n));
	EXPECT_EQ(NULL, perfmon_page(self->counters, 2));
	EXPECT_EQ(EINVAL, errno);
}

/* Counts loop(N) - loop(1) in a thread, with its own counters. */
static void *count_in_thread(void *result)
{
	struct perfmon_counters *counters = perfmon_open("instructions:u", 0);
	uint64_t least, count, *difference = result;

	*difference = 0;
	if (counters && !count_loop(counters, 1, &least) && !count_loop(counters, N, &count))
		*difference = count - least;
	perfmon_close(counters);
	return NULL;
}

TEST_F(libperfmon, each_thread_has_its_own)
{
	uint64_t counts[2], differences[4];
	pthread_t threads[4];
	int i;

	ASSERT_EQ(0, perfmon_start(self->counters));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, count_in_thread, &differences[i]));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		EXPECT_EQ(LOOP_INSNS * (N - 1), differences[i]);
	}
	ASSERT_EQ(0, perfmon_stop(self->counters));
	ASSERT_EQ(0, perfmon_read(self->counters, counts));
	/* The loops of the threads are not in this thread's count. */
	EXPECT_GT(LOOP_INSNS * N, counts[0]);
}

static void *page_in_thread(void *counters)
{
	return (void *)perfmon_page(counters, 0);
}

TEST_F(libperfmon, page_is_for_the_thread_that_opened_it)
{
	pthread_t thread;
	void *page;

	ASSERT_EQ(0, pthread_create(&thread, NULL, page_in_thread, self->counters));
	ASSERT_EQ(0, pthread_join(thread, &page));
	EXPECT_EQ(NULL, page);
}

static void *loop_in_thread(void *unused)
{
	loop(N);
	return unused;
}

TEST_F(libperfmon, inherited_counts_are_of_threads_and_processes)
{
	struct perfmon_counters *all = perfmon_open("instructions:u", PERFMON_INHERIT);
	pthread_t thread;
	uint64_t count;
	pid_t pid;

	ASSERT_NE(NULL, all);
	EXPECT_EQ(NULL, perfmon_page(all, 0));
	EXPECT_NE(NULL, strstr(perfmon_error(), "PERFMON_INHERIT"));
	ASSERT_EQ(0, perfmon_start(all));
	ASSERT_EQ(0, pthread_create(&thread, NULL, loop_in_thread, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		loop(N);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	ASSERT_EQ(0, perfmon_stop(all));
	ASSERT_EQ(0, perfmon_read(all, &count));
	EXPECT_LE(2 * LOOP_INSNS * N, count);
	EXPECT_GT(3 * LOOP_INSNS * N, count);
	perfmon_close(all);
}

/* Executes the copy of PROGRAM with this mode in a child without rights. Returns the child's status. */
static int execute_as_nobody(mode_t mode)
{
	int status;
	pid_t pid;

	if (chmod(COPY, mode))
		return -1;
	pid = fork();
	if (!pid) {
		if (!become_user(NOBODY, 0))
			execl(COPY, COPY, "1000", NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST_F(libperfmon, programs_with_more_rights_are_not_followed)
{
	struct perfmon_counters *all = perfmon_open("instructions:u,branches:u", PERFMON_INHERIT);
	uint64_t tasks;

	ASSERT_NE(NULL, all);
	ASSERT_EQ(0, system("cp " PROGRAM " " COPY));
	ASSERT_EQ(0, perfmon_start(all));
	EXPECT_EQ(0, execute_as_nobody(0755));
	ASSERT_EQ(0, perfmon_tasks_not_followed(all, &tasks));
	EXPECT_EQ(0ULL, tasks);
	EXPECT_EQ(0, execute_as_nobody(04755));
	ASSERT_EQ(0, perfmon_tasks_not_followed(all, &tasks));
	EXPECT_EQ(1ULL, tasks);
	unlink(COPY);
	perfmon_close(all);
}

/* Expects that @events can't be opened, with this errno and words in the message. */
#define EXPECT_REFUSED(events, error, words) do {				\
	EXPECT_EQ(NULL, perfmon_open(events, 0));				\
	EXPECT_EQ(error, errno);						\
	EXPECT_NE(NULL, strstr(perfmon_error(), words)) {			\
		TH_LOG("%s", perfmon_error());					\
	}									\
} while (0)

TEST_F(libperfmon, invalid_names_are_refused)
{
	char many[33 * 15] = "instructions:u";
	int i;

	EXPECT_REFUSED("instrucions:u", EINVAL, "Did you mean `instructions`?");
	EXPECT_REFUSED("INST_RETIRED.ANY", EINVAL, "pmctl encode INST_RETIRED.ANY");
	EXPECT_REFUSED("instructions:x", EINVAL, "after the colon");
	EXPECT_REFUSED("instructions:", EINVAL, "after the colon");
	EXPECT_REFUSED("", EINVAL, "1 to 63 characters");
	EXPECT_REFUSED("cycles,", EINVAL, "1 to 63 characters");
	EXPECT_REFUSED("rxyz", EINVAL, "no event is called `rxyz`");
	EXPECT_REFUSED("r11111111111111111", EINVAL, "no event is called");
	for (i = 0; i < 32; i++)
		strcat(many, ",instructions:u");
	EXPECT_REFUSED(many, EINVAL, "32 at most");
	EXPECT_EQ(NULL, perfmon_open("instructions:u", 2));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(libperfmon, raw_events_are_those_of_the_processor)
{
	struct perfmon_counters *raw = perfmon_open("r0c0:u,INSTRUCTIONS:u", 0);
	uint64_t counts[2];

	ASSERT_NE(NULL, raw) {
		TH_LOG("%s", perfmon_error());
	}
	ASSERT_EQ(0, count_loop(raw, N, counts));
	EXPECT_EQ(counts[0], counts[1]);
	EXPECT_LT(LOOP_INSNS * N, counts[0]);
	perfmon_close(raw);
}

TEST_F(libperfmon, events_that_the_processor_lacks_are_refused)
{
	/*
	 * Intel's tables have no event of this name, and AMD's tables have no event of this number.
	 */
	EXPECT_EQ(NULL, perfmon_open("node-prefetches", 0));
	EXPECT_NE(NULL, strstr(perfmon_error(), "the CPUs do not have such an event")) {
		TH_LOG("%s", perfmon_error());
	}
}

TEST_F(libperfmon, error_names_the_owner_of_the_counters)
{
	int perf;

	perfmon_close(self->counters);
	self->counters = NULL;
	ASSERT_TRUE(event_wait_until_possible(&event_maker_perf, NULL));
	perf = perf_hold_counters();
	ASSERT_LE(0, perf);
	EXPECT_REFUSED("instructions:u", EBUSY, "Linux's perf or the NMI watchdog has ");
	EXPECT_NE(NULL, strstr(perfmon_error(), "End what uses them"));
	close(perf);
}

TEST_F(libperfmon, error_for_unprivileged_user_names_the_remedy)
{
	int paranoid = paranoid_read();
	struct stat node;

	ASSERT_LE(0, paranoid);
	ASSERT_EQ(0, stat(_PATH_PERFMON, &node));
	ASSERT_EQ(0, paranoid_write(2));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_REFUSED("instructions", EACCES, "Count user mode alone");
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0600));
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_REFUSED("instructions:u", EACCES, "usermod -aG perfmon");
	restore_rights(_metadata, paranoid);
	EXPECT_EQ(0, chmod(_PATH_PERFMON, node.st_mode & 0777));
}

TEST_F(libperfmon, error_without_module_names_the_remedy)
{
	perfmon_close(self->counters);
	self->counters = NULL;
	ASSERT_EQ(0, module_unload());
	EXPECT_REFUSED("instructions:u", ENOENT, "modprobe perfmon");
	ASSERT_EQ(0, module_load());
}

TEST_HARNESS_MAIN
