// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user who may not examine a setuid program samples the kernel's stores while the program is
 * being executed. The precise samples must not show any address of the program.
 *
 * The event of a user counts the kernel until the end of the exec. By then the kernel has written a
 * pointer for each argument to the stack of the new program. The program has many arguments, so
 * that there are samples of these stores. The addresses of these stores would show where the stack
 * is.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "samples.h"

#define USER		1000
#define PROGRAM		"/tmp/event_precise_setuid_program"
#define ARGUMENTS	20000
#define ROUNDS		5
#define ORDER		6

/* MEM_INST_RETIRED.ALL_STORES */
#define STORES		0x82d0

/* Before the exec, each call of poll(2) writes the results of all these files to the process. */
#define FILES		512
#define POLLS		200

FIXTURE(stores)
{
	int paranoid;	/* perf_event_paranoid before the test */
};

FIXTURE_VARIANT(stores)
{
	__u64 period;
	__u64 parts;	/* further parts of the samples */
};

/*
 * The processor's buffer holds many records until they are read. The period is short, but at least
 * 256, as the module requires for the kernel.
 */
FIXTURE_VARIANT_ADD(stores, buffered) { .period = 257 };

/* Each record causes an interrupt. The module delays the next record by 4096 events. */
FIXTURE_VARIANT_ADD(stores, with_an_interrupt_each)
{
	.period = 4099,
	.parts = PERF_SAMPLE_CALLCHAIN,
};

static struct perf_event_attr precise_stores(const FIXTURE_VARIANT(stores) *variant)
{
	struct perf_event_attr attr = event_every(variant->period);

	attr.type = PERF_TYPE_RAW;
	attr.config = STORES;
	attr.precise_ip = 2;
	attr.sample_type |= PERF_SAMPLE_ADDR | variant->parts;
	attr.exclude_kernel = 0;
	attr.disabled = 0;
	attr.comm = 1;
	return attr;
}

static bool has_precise_stores(const FIXTURE_VARIANT(stores) *variant)
{
	struct perf_event_attr attr = precise_stores(variant);
	int fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	close(fd);
	return fd >= 0;
}

/* Makes PROGRAM, a copy of this program that is setuid. */
static void copy_program(struct __test_metadata *_metadata)
{
	char command[512];

	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", getpid(), PROGRAM);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(PROGRAM, 04755));
}

FIXTURE_SETUP(stores)
{
	self->paranoid = paranoid_read();
	SKIP_WITHOUT_PMU();
	if (policy_errno(0, false))
		SKIP(return, "users can't count the kernel with this version of Linux");
	if (!has_precise_stores(variant))
		SKIP(return, "this CPU has no precise samples (PEBS) of stores");
	copy_program(_metadata);
	ASSERT_EQ(0, paranoid_write(1));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(stores)
{
	unlink(PROGRAM);
	EXPECT_EQ(0, chmod(_PATH_PERFMON, 0600));
	EXPECT_EQ(0, paranoid_write(self->paranoid));
}

/* Sums over the samples of all rounds. */
struct findings {
	int err;			/* the error that ended the rounds: a negative errno, or 0 */
	int status;			/* the wait status of the last program */
	unsigned long execs;		/* COMM records of an exec */
	unsigned long malformed;
	unsigned long shown_before;	/* before the exec, stores of the kernel to addresses of the process */
	/* Samples between the COMM record and the end of the event. */
	unsigned long of_kernel;	/* with an address of the kernel */
	unsigned long hidden;		/* with the address 0 */
	unsigned long shown;		/* with an address of the program */
	unsigned long by_program;	/* of an instruction of the program */
};

static void add_sample(struct findings *f, const struct sample *s, bool has_executed)
{
	const bool in_kernel = s->ip >> 63, has_user_address = s->addr && !(s->addr >> 63);

	if (!has_executed) {
		f->shown_before += in_kernel && has_user_address;
		return;
	}
	f->of_kernel += s->addr >> 63;
	f->hidden += !s->addr;
	f->shown += has_user_address;
	f->by_program += !in_kernel;
}

/* Reads the records of a process that has executed the program. */
static void read_samples(struct sampler *s, struct findings *f)
{
	bool has_executed = false;
	struct sample sample;

	while (event_ring_next(&s->ring, &s->record)) {
		if (s->record.header.type == PERF_RECORD_COMM &&
		    s->record.header.misc & PERF_RECORD_MISC_COMM_EXEC) {
			has_executed = true;
			f->execs++;
		}
		if (s->record.header.type != PERF_RECORD_SAMPLE)
			continue;
		if (sample_parse(&s->record, &s->parts, &sample))
			add_sample(f, &sample, has_executed);
		else
			f->malformed++;
	}
}

/* The process that is sampled: lets the kernel write to its memory, and executes the program. */
static void run_program(void)
{
	static char *arguments[ARGUMENTS + 1];
	struct pollfd files[FILES];
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < FILES; i++)
		files[i] = (struct pollfd) { .fd = -1 };
	for (i = 0; i < POLLS; i++)
		poll(files, FILES, 0);
	/* The module reads the processor's buffer when the task sleeps. */
	usleep(1000);
	arguments[0] = PROGRAM;
	for (i = 1; i < ARGUMENTS; i++)
		arguments[i] = "";
	execv(PROGRAM, arguments);
	_exit(127);
}

/* Samples a process that executes the program. Returns 0 or a negative errno. */
static int sample_program(const FIXTURE_VARIANT(stores) *variant, struct findings *f)
{
	struct perf_event_attr attr = precise_stores(variant);
	struct sampler s;
	int start_pipe, err;
	pid_t pid = fork_waiting(&start_pipe);

	if (pid < 0)
		return pid;
	if (!pid)
		run_program();
	err = sampler_open(&s, &event_maker_perfmon, &attr, pid, -1, ORDER);
	if (!err && write(start_pipe, "", 1) != 1)
		err = -errno;
	close(start_pipe);
	if (waitpid(pid, &f->status, 0) != pid)
		return -errno;
	if (err)
		return err;
	read_samples(&s, f);
	sampler_close(&s);
	return 0;
}

/* The user's process. */
static void sample_as_user(const FIXTURE_VARIANT(stores) *variant, struct findings *f)
{
	int round;

	f->err = become_user(USER, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 1);
	for (round = 0; round < ROUNDS && !f->err && !f->status; round++)
		f->err = sample_program(variant, f);
	_exit(0);
}

TEST_F(stores, addresses_of_a_setuid_program_are_hidden_while_it_is_executed)
{
	struct findings *f = map_shared(_metadata, sizeof(*f));
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid)
		sample_as_user(variant, f);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, f->err);
	EXPECT_EQ(0, f->status);
	EXPECT_EQ((unsigned long)ROUNDS, f->execs);
	EXPECT_EQ(0UL, f->malformed);
	/* Addresses of the process are shown before the exec, and those of the kernel always. */
	EXPECT_LT(0UL, f->shown_before);
	EXPECT_LT(0UL, f->of_kernel);
	/* The kernel stores to the new program. */
	EXPECT_LT(0UL, f->hidden + f->shown);
	EXPECT_EQ(0UL, f->shown);
	EXPECT_EQ(0UL, f->by_program);
	TH_LOG("%lu addresses shown before the exec; then %lu of the kernel, %lu hidden, %lu shown",
	       f->shown_before, f->of_kernel, f->hidden, f->shown);
	munmap(f, sizeof(*f));
}

int main(int argc, char **argv)
{
	/* The program, which tells whether it is setuid. */
	if (argc == ARGUMENTS)
		return geteuid() != 0;
	return test_harness_run(argc, argv);
}
