// SPDX-License-Identifier: GPL-2.0-only
/*
 * The address space of samples, which differs between processes, and is 0 for callers that may
 * not see kernel addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "rights.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	256
#define RATE	10007
#define N	1000000UL

FIXTURE(aspace)
{
	struct trace trace;
	int fd;
	int cpu;
	int paranoid;
};

FIXTURE_SETUP(aspace)
{
	SKIP_WITHOUT_PMU();
	self->paranoid = paranoid_read();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(aspace)
{
	restore_rights(_metadata, self->paranoid);
	trace_free(&self->trace);
	close(self->fd);
}

/* The address spaces of samples with user or kernel addresses. */
struct aspace_findings {
	__u64 first_aspace;	/* the address space of the first sample */
	__u64 other_samples;	/* samples with another address space */
	__u64 samples;
};

/* Advances to the next sample of kernel mode, or of user mode. */
static bool next_sample(struct trace_cursor *c, bool kernel,
			struct trace_record *r)
{
	while (trace_next(c, r) > 0)
		if (r->type == PERFMON_RECORD_PC &&
		    is_kernel_address(r->pc) == kernel)
			return true;
	return false;
}

static struct aspace_findings aspaces(const struct trace *t, int cpu, bool kernel)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct aspace_findings a = { .samples = 0 };
	struct trace_record r;

	while (next_sample(&c, kernel, &r)) {
		if (!a.samples++)
			a.first_aspace = r.aspace;
		a.other_samples += r.aspace != a.first_aspace;
	}
	return a;
}

/* Returns the number of samples of user mode in one address space. */
static __u64 samples_in(const struct trace *t, int cpu, __u64 aspace)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct trace_record r;
	__u64 samples = 0;

	while (next_sample(&c, false, &r))
		samples += r.aspace == aspace;
	return samples;
}

/* Returns whether the value can be the physical address of a page table. */
static bool can_be_page_table(__u64 aspace)
{
	return aspace && !(aspace & 0xfff) && !(aspace >> 52);
}

TEST_F(aspace, process_has_one_address_space)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);
	struct aspace_findings first, second;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	first = aspaces(&self->trace, self->cpu, false);
	EXPECT_EQ(TRACE_LOOP_INSNS(N) / RATE, first.samples);
	EXPECT_EQ(0ULL, first.other_samples);
	EXPECT_TRUE(can_be_page_table(first.first_aspace));

	ASSERT_EQ(0, trace_loop(&self->trace, N));
	second = aspaces(&self->trace, self->cpu, false);
	EXPECT_EQ(first.first_aspace, second.first_aspace);
	EXPECT_EQ(0ULL, second.other_samples);
}

/* Both modes have the same address space, even if user mode has separate page tables (PTI). */
TEST_F(aspace, kernel_and_user_have_the_same_address_space)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_OS |
						       FLAG_PC);
	struct aspace_findings user, kernel;
	int i;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_start(&self->trace));
	for (i = 0; i < 1000; i++) {
		loop(1000);
		getppid();
	}
	ASSERT_EQ(0, trace_stop(&self->trace));
	user = aspaces(&self->trace, self->cpu, false);
	kernel = aspaces(&self->trace, self->cpu, true);
	EXPECT_LT(0ULL, user.samples);
	EXPECT_EQ(0ULL, user.other_samples);
	EXPECT_TRUE(can_be_page_table(user.first_aspace));

	/* Kernel threads that run in between use the address space of another process. */
	EXPECT_LT(0ULL, kernel.samples);
	EXPECT_GT(kernel.samples / 2, kernel.other_samples);
	EXPECT_EQ(user.first_aspace, kernel.first_aspace);
}

/* Traces the loop in a child, which is a copy of this process or another program. */
static int trace_child(struct trace *t)
{
	int status, err;
	pid_t pid;

	err = trace_start(t);
	if (err)
		return err;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		loop(N);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		err = -ECHILD;
	return err ? err : trace_stop(t);
}

TEST_F(aspace, another_process_has_another_address_space)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);
	struct aspace_findings ours, both;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ours = aspaces(&self->trace, self->cpu, false);

	/*
	 * The child executes the loop. This process executes little, so it has a sample only if
	 * other tasks on this CPU have executed most of a period.
	 */
	ASSERT_EQ(0, trace_child(&self->trace));
	both = aspaces(&self->trace, self->cpu, false);
	EXPECT_LE(LOOP_INSNS * N / RATE, both.samples);
	EXPECT_GT(both.samples / 2,
		  samples_in(&self->trace, self->cpu, ours.first_aspace));
	EXPECT_TRUE(can_be_page_table(both.first_aspace));
}

FIXTURE(rights)
{
	struct trace trace;
	int fd;
	int cpu;
	int paranoid;
};

FIXTURE_VARIANT(rights)
{
	int paranoid;
	bool capable;
	int err;	/* expected errno of IOCTL_PERFMON_STAGE_CONFIG for user mode; 0: none */
};

/*
 * Linux has no setting that allows sampling the user mode of a CPU and forbids sampling its kernel
 * mode. So each caller that may stage a config gets the address spaces.
 */
FIXTURE_VARIANT_ADD(rights, paranoid_2) { .paranoid = 2, .err = EACCES };
FIXTURE_VARIANT_ADD(rights, paranoid_1) { .paranoid = 1, .err = EACCES };
FIXTURE_VARIANT_ADD(rights, paranoid_0) { .paranoid = 0 };
FIXTURE_VARIANT_ADD(rights, capable) { .paranoid = 2, .capable = true };

FIXTURE_SETUP(rights)
{
	SKIP_WITHOUT_PMU();
	self->paranoid = paranoid_read();
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, paranoid_write(variant->paranoid));
	ASSERT_EQ(0, drop_rights(variant->capable));
}

FIXTURE_TEARDOWN(rights)
{
	restore_rights(_metadata, self->paranoid);
	trace_free(&self->trace);
	close(self->fd);
}

TEST_F(rights, stage_checks_the_rights)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);
	int err = policy_errno(variant->err, variant->capable);
	struct aspace_findings a;

	EXPECT_EQ(err, trace_stage(&self->trace, &config));
	if (err)
		return;
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	a = aspaces(&self->trace, self->cpu, false);
	EXPECT_EQ(TRACE_LOOP_INSNS(N) / RATE, a.samples);
	EXPECT_EQ(0ULL, a.other_samples);
	EXPECT_TRUE(can_be_page_table(a.first_aspace));
}

TEST_HARNESS_MAIN
