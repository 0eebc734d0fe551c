// SPDX-License-Identifier: GPL-2.0-only
/*
 * Call chains of programs that are executed while they are sampled. The chains of this program are
 * complete, and a program with other credentials has no samples.
 *
 * ROUNDS and SEED in the environment set the length and the random numbers. Compiled with frame
 * pointers, also for 32 bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cpu.h"
#include "device.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "recursion.h"
#include "rng.h"
#include "samples.h"

#define ORDER	8
#define CPUS	8
#define PERIOD	10007
#define LOOPS	200000UL
#define NOBODY	65534
#define COPY	"/tmp/stress_exec_copy"

/* The ways in which the child executes a copy of this program. */
enum exec_kind {
	PLAIN,
	USER,		/* as a user with permission to read it */
	SETUID,		/* as a user; it is a setuid program of root */
	UNREADABLE,	/* as a user without permission to read it */
	EXEC_KINDS
};

static const mode_t modes[EXEC_KINDS] = { 0755, 0755, 04755, 0711 };

FIXTURE(exec_stress)
{
	struct leak_check leaks;
	struct sampler sampler[CPUS];
	int cpus;
	struct rng random;
	__u64 rounds;
};

FIXTURE_SETUP(exec_stress)
{
	struct perf_event_attr attr = event_every(PERIOD);
	cpu_set_t online;
	int cpu;

	SKIP_WITHOUT_PMU();
	self->random = rng_seed(env_number("SEED", 1));
	self->rounds = env_number("ROUNDS", 20);
	ASSERT_EQ(0, module_reload(""));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, cpus_online(&online));
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr.inherit = 1;
	attr.disabled = 0;
	for (cpu = cpu_next(&online, -1); cpu >= 0 && self->cpus < CPUS;
	     cpu = cpu_next(&online, cpu))
		ASSERT_EQ(0, sampler_open(&self->sampler[self->cpus++], &event_maker_perfmon, &attr,
					  0, cpu, ORDER));
}

FIXTURE_TEARDOWN(exec_stress)
{
	unlink(COPY);
	ensure_module(_metadata);
}

/* The executed program: `--recurse DEPTH LOOPS`. */
__attribute__((constructor)) static void run_if_asked(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[1], "--recurse"))
		return;
	recurse(atoi(argv[2]), strtoul(argv[3], NULL, 10), LOOP);
	_exit(0);
}

struct chain_findings {
	pid_t pid;
	unsigned int depth;
	unsigned long chain_count, wrong;
};

static void check_program(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int n = 0;

	if (s->pid != (__u32)c->pid || !in_leaf(s->ip))
		return;
	c->chain_count++;
	while (1 + n < s->chain_length && in_recursion(s->chain[1 + n]))
		n++;
	c->wrong += s->chain[0] != PERF_CONTEXT_USER || s->chain[1] != s->ip ||
		    n != c->depth + 1;
}

static pid_t execute_copy(enum exec_kind kind, unsigned int depth)
{
	pid_t pid = fork();
	char deep[16], loops[16];

	if (pid)
		return pid;
	snprintf(deep, sizeof(deep), "%u", depth);
	snprintf(loops, sizeof(loops), "%lu", LOOPS);
	if (kind == PLAIN || !setresuid(NOBODY, NOBODY, NOBODY))
		execl(COPY, COPY, "--recurse", deep, loops, NULL);
	_exit(127);
}

static void copy_program(struct __test_metadata *_metadata, enum exec_kind kind)
{
	char self[128], command[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	ASSERT_LT(0, n);
	self[n] = '\0';
	snprintf(command, sizeof(command), "cp %s " COPY, self);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(COPY, modes[kind]));
}

TEST_F_TIMEOUT(exec_stress, chains_are_of_programs_with_the_same_rights, 36000)
{
	unsigned long chain_counts[EXEC_KINDS] = { 0 }, wrong = 0, malformed = 0;
	const unsigned long most = LOOP_INSNS * LOOPS / PERIOD;
	struct sample_sums all;
	__u64 round;
	int i, status;

	for (round = 0; round < self->rounds; round++) {
		enum exec_kind kind = round % EXEC_KINDS;
		struct chain_findings c = { .depth = rng_below(&self->random, 100) };

		copy_program(_metadata, kind);
		c.pid = execute_copy(kind, c.depth);
		ASSERT_LE(0, c.pid);
		ASSERT_EQ(c.pid, waitpid(c.pid, &status, 0));
		ASSERT_EQ(0, status);
		for (i = 0; i < self->cpus; i++) {
			all = SAMPLE_SUMS_INIT;
			sampler_read(&self->sampler[i], &all, check_program, &c);
			malformed += all.malformed;
		}
		wrong += c.wrong;
		chain_counts[kind] += c.chain_count;
		/*
		 * The event of each CPU is at some point of its period when the loop begins, and
		 * when it ends. So on n CPUs the number of samples differs from the number of
		 * periods by up to n. A sample in the first instructions of an interrupt has no
		 * address of the program.
		 */
		EXPECT_LE(kind == PLAIN || kind == USER ? most - self->cpus : 0, c.chain_count);
		EXPECT_GE(kind == PLAIN || kind == USER ? most + self->cpus : 0, c.chain_count);
	}
	TH_LOG("%lu chains of %llu programs", chain_counts[PLAIN] + chain_counts[USER], self->rounds);
	EXPECT_EQ(0UL, wrong);
	EXPECT_EQ(0UL, malformed);
	EXPECT_LT(0UL, chain_counts[PLAIN]);
	for (i = 0; i < self->cpus; i++)
		sampler_close(&self->sampler[i]);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
