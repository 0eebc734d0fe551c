// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another part of the kernel oopses, and the system continues (panic_on_oops=0). Overflows during
 * the oops are handled as usual: no event is lost, and no NMI is unknown.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "file.h"
#include "module.h"
#include "trace.h"
#include "trace_fixture.h"

#define PANIC_ON_OOPS	"/proc/sys/kernel/panic_on_oops"

#define PAGES	4096
#define RATE	10007
#define OOPSES	4
/* Iterations after each oops: more than the range of counters of 24 bits. */
#define N	10000000UL

FIXTURE(oops)
{
	struct trace trace;
	int fd;
	int cpu;
	int reference;		/* counters of the counting interface */
	int user;
};

FIXTURE_SETUP(oops)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	if (access("/dev/oops", F_OK))
		ASSERT_EQ(0, module_load_file(OOPS_PATH, ""));
	ASSERT_EQ(0, write_file(PANIC_ON_OOPS, "0"));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	self->reference = p.max_num_programmable_events - 1;
	self->user = p.max_num_programmable_events - 2;
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
}

FIXTURE_TEARDOWN(oops)
{
	trace_free(&self->trace);
	close(self->fd);
	write_file(PANIC_ON_OOPS, "1");
}

/* Makes a child oops on this CPU. Returns true if only the child was killed. */
static bool die_in_kernel(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		write_file("/dev/oops", "x");
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid &&
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST_F(oops, oops_loses_no_overflow)
{
	/* Overflows also happen while the kernel prints the oops. */
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_OS | FLAG_PC);
	__u64 ticks, counted = LOOP_INSNS * N * OOPSES;
	struct trace_sums sums;
	__s64 both, user;
	int i;

	ASSERT_EQ(0, pmc_setup(self->fd, self->reference, EVENT_INSTRUCTIONS,
			       PMCF_USR | PMCF_OS));
	ASSERT_EQ(0, pmc_setup(self->fd, self->user, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, pmc_start(self->fd, self->reference));
	ASSERT_EQ(0, pmc_start(self->fd, self->user));
	ASSERT_EQ(0, trace_start(&self->trace));
	for (i = 0; i < OOPSES; i++) {
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		ticks = sums.event[0].ticks;
		ASSERT_TRUE(die_in_kernel());
		loop(N);
		ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
		EXPECT_LE(ticks + LOOP_INSNS * N / RATE, sums.event[0].ticks);
	}
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(0, pmc_stop(self->fd, self->user));
	EXPECT_EQ(0, pmc_stop(self->fd, self->reference));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));

	/* Other programs execute some instructions, on this CPU and on others. */
	user = pmc_value_on(self->fd, self->user, self->cpu);
	EXPECT_LE((__s64)counted, user);
	EXPECT_GE((__s64)(counted + counted / 10), user);

	/* Each sample of kernel mode misses some instructions of the handler. */
	both = pmc_value_on(self->fd, self->reference, self->cpu);
	EXPECT_LE(user, both);
	EXPECT_GE(both, (__s64)sums.event[0].total);
	EXPECT_LE(both - both / 50, (__s64)sums.event[0].total);
	EXPECT_LE(sums.event[0].total / RATE - sums.event[0].total / RATE / 50,
		  sums.event[0].ticks);
}

TEST_HARNESS_MAIN
