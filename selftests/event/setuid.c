// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user who may not examine a setuid program can never count it, not even by an event that is
 * being opened while the program starts, however long opening takes. If the exec of the program
 * fails, the user sees nothing of it either.
 *
 * A user opens sampled events of a process in a loop, at SCHED_IDLE, so that the loop is stopped at
 * any instruction while the process runs. The process executes a setuid program, which works and
 * sleeps in turns. An event that counts the program has many samples in a turn, each with a PMI,
 * and no sample is due earlier. The counter of an event that has ended may continue until its next
 * overflow, which causes one PMI.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "options.h"
#include "samples.h"

#define USER	1000
#define PROGRAM	"/tmp/event_setuid_program"

/* More instructions than the process executes before the program starts. */
#define PERIOD	20011
#define N	200000UL
#define TURNS	10
#define SAMPLES	(LOOP_INSNS * N / PERIOD)	/* samples in a turn */

#define PROGRAMS	env_number("PROGRAMS", 150)
#define PROGRAMS_MAX	(5 * PROGRAMS)

struct shared_results {
	pid_t victim;		/* process id; 0: none yet */
	unsigned long opened, refused;
};

static void become_user_process(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(0) || become_user(USER, 0))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
}

/* Opens events of the process `victim`, and closes them, until this process is killed. */
static void open_and_close(struct shared_results *shared)
{
	const struct sched_param none = {};
	struct perf_event_attr attr = event_every(PERIOD);
	pid_t victim;
	int fd;

	become_user_process();
	attr.disabled = 0;
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		_exit(1);
	for (;;) {
		victim = __atomic_load_n(&shared->victim, __ATOMIC_RELAXED);
		fd = victim ? event_maker_perfmon.open(&attr, victim, -1, -1, 0) : -ESRCH;
		if (fd >= 0) {
			shared->opened++;
			close(fd);
		} else if (fd == -EACCES) {
			shared->refused++;
		}
	}
}

/*
 * Runs the process that is counted. In each round it starts at another part of the opener's loop.
 */
static void run_program(struct shared_results *shared, unsigned int round)
{
	char turns[16];

	become_user_process();
	__atomic_store_n(&shared->victim, getpid(), __ATOMIC_RELAXED);
	usleep(200 + round * 29);
	snprintf(turns, sizeof(turns), "%d", TURNS);
	execl(PROGRAM, PROGRAM, "--turns", turns, NULL);
	_exit(127);
}

/* Makes PROGRAM, a copy of this program that is setuid. */
static void copy_program(struct __test_metadata *_metadata)
{
	char command[512];

	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", getpid(), PROGRAM);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(PROGRAM, 04755));
}

/* Returns whether the opener has opened events of the process, and was refused the program. */
static bool opener_opened_and_was_refused(struct shared_results *shared)
{
	return __atomic_load_n(&shared->opened, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&shared->refused, __ATOMIC_RELAXED);
}

TEST(setuid_program_is_never_counted)
{
	struct shared_results *shared = map_shared(_metadata, sizeof(*shared));
	unsigned int round;
	pid_t opener, victim;
	long long before, most_nmis = 0;
	int status;

	SKIP_WITHOUT_PMU();
	copy_program(_metadata);
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, wait_until_idle());
	opener = fork();
	ASSERT_LE(0, opener);
	if (!opener)
		open_and_close(shared);
	/* If an open takes long, the first processes have exited before their event is opened. */
	for (round = 0; round < PROGRAMS || (!opener_opened_and_was_refused(shared) && round < PROGRAMS_MAX);
	     round++) {
		before = cpu_nmis();
		ASSERT_LE(0, before);
		victim = fork();
		ASSERT_LE(0, victim);
		if (!victim)
			run_program(shared, round);
		ASSERT_EQ(victim, waitpid(victim, &status, 0));
		ASSERT_EQ(0, status);
		if (most_nmis < cpu_nmis() - before)
			most_nmis = cpu_nmis() - before;
	}
	kill(opener, SIGKILL);
	ASSERT_EQ(opener, waitpid(opener, &status, 0));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	EXPECT_GT((long long)SAMPLES / 2, most_nmis) {
		TH_LOG("at most %lld NMIs while a program ran", most_nmis);
	}
	EXPECT_TRUE(opener_opened_and_was_refused(shared));
	unlink(PROGRAM);
	EXPECT_EQ(0, chmod(_PATH_PERFMON, 0600));
}

#define SAMPLED_STACK	1024

/* The registers RSP and RIP, for sample_regs_user. */
#define REGISTERS_SP_IP	(1ULL << 7 | 1ULL << 8)

/* The process whose exec fails when the program is mapped: the task has nowhere to return to. */
static void fail_to_run_program(void)
{
	const struct rlimit room = { 300 << 10, 300 << 10 };

	become_user_process();
	if (setrlimit(RLIMIT_AS, &room))
		_exit(1);
	execl(PROGRAM, PROGRAM, "--turns", "1", NULL);
	_exit(127);
}

/*
 * An exec may fail after the task has the program's rights and the first parts of its memory.
 * Samples of the kernel's work for the end of the task have no registers and no memory of either
 * program.
 */
TEST(failed_exec_of_a_setuid_program_shows_nothing)
{
	/* A sample of the debug kernel takes more instructions than the usual period. */
	struct perf_event_attr attr = event_every(env_number("PERIOD", 2003));
	unsigned long samples = 0;
	bool has_executed = false;
	struct sampler s;
	struct sample sample;
	int start_pipe, status;
	pid_t pid;

	SKIP_WITHOUT_PMU();
	copy_program(_metadata);
	attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = REGISTERS_SP_IP;
	attr.sample_regs_intr = REGISTERS_SP_IP;
	attr.sample_stack_user = SAMPLED_STACK;
	attr.exclude_kernel = 0;
	attr.comm = 1;
	attr.enable_on_exec = 1;
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid)
		fail_to_run_program();
	ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, pid, -1, 8));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status)) {
		TH_LOG("status %x", status);
	}
	while (event_ring_next(&s.ring, &s.record)) {
		has_executed |= s.record.header.type == PERF_RECORD_COMM &&
				s.record.header.misc & PERF_RECORD_MISC_COMM_EXEC;
		if (s.record.header.type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(sample_parse(&s.record, &s.parts, &sample));
		samples++;
		EXPECT_EQ(0ULL, sample.user_abi);
		EXPECT_EQ(0ULL, sample.abi);
		EXPECT_EQ(0ULL, sample.stack_size);
	}
	EXPECT_TRUE(has_executed);
	EXPECT_LT(0UL, samples);
	TH_LOG("%lu samples", samples);
	sampler_close(&s);
	unlink(PROGRAM);
}

int main(int argc, char **argv)
{
	int turns;

	if (argc == 3 && !strcmp(argv[1], "--turns")) {
		for (turns = atoi(argv[2]); turns; turns--) {
			loop(N);
			usleep(20 + 13 * turns);
		}
		return geteuid() != 0;
	}
	return test_harness_run(argc, argv);
}
