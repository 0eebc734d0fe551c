// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user who may not examine a setuid program never counts it, not even by an event that is
 * being opened while the program starts, even if opening takes long.
 *
 * A user opens sampled events of a process in a loop, at SCHED_IDLE, so that the loop is stopped
 * at any instruction while the process runs. The process executes a setuid program, which works
 * and sleeps in turns. An event that counts the program has many samples in a turn, each with a
 * PMI, and no sample is due earlier. The counter of an event that has ended may continue until its
 * next overflow, which causes one PMI.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "options.h"
#include "samples.h"

#define USER	1000
#define PROGRAM	"/tmp/event_setuid_program"

/* More than the process executes before the program starts. */
#define PERIOD	20011
#define N	200000UL
#define TURNS	10
#define SAMPLES	(LOOP_INSNS * N / PERIOD)	/* samples in a turn */

#define PROGRAMS	env_number("PROGRAMS", 150)
#define PROGRAMS_MAX	(5 * PROGRAMS)

struct shared_results {
	pid_t prey;		/* process id; 0: none yet */
	unsigned long opened, refused;
};

/* Returns the number of NMIs of the first CPU, or -1. */
static long long nmi_count(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	long long n, count = -1;
	char line[4096];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " NMI: %lld", &n) == 1)
			count = n;
	fclose(f);
	return count;
}

static void become_user_process(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(0) || become_user(USER, 0))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
}

/* Opens events of the process `prey`, and closes them, until this process is killed. */
static void open_and_close(struct shared_results *shared)
{
	const struct sched_param none = {};
	struct perf_event_attr attr = event_every(PERIOD);
	pid_t prey;
	int fd;

	become_user_process();
	attr.disabled = 0;
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		_exit(1);
	for (;;) {
		prey = __atomic_load_n(&shared->prey, __ATOMIC_RELAXED);
		fd = prey ? event_maker_perfmon.open(&attr, prey, -1, -1, 0) : -ESRCH;
		if (fd >= 0) {
			shared->opened++;
			close(fd);
		} else if (fd == -EACCES) {
			shared->refused++;
		}
	}
}

/* The process that is counted. Starts at another part of the opener's loop in each round. */
static void run_program(struct shared_results *shared, unsigned int round)
{
	char turns[16];

	become_user_process();
	__atomic_store_n(&shared->prey, getpid(), __ATOMIC_RELAXED);
	usleep(200 + round * 29);
	snprintf(turns, sizeof(turns), "%d", TURNS);
	execl(PROGRAM, PROGRAM, "--turns", turns, NULL);
	_exit(127);
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
	pid_t opener, prey;
	char command[512];
	long long before, most_nmis = 0;
	int status;

	SKIP_WITHOUT_PMU();
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", getpid(), PROGRAM);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(PROGRAM, 04755));
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
		before = nmi_count();
		ASSERT_LE(0, before);
		prey = fork();
		ASSERT_LE(0, prey);
		if (!prey)
			run_program(shared, round);
		ASSERT_EQ(prey, waitpid(prey, &status, 0));
		ASSERT_EQ(0, status);
		if (most_nmis < nmi_count() - before)
			most_nmis = nmi_count() - before;
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
