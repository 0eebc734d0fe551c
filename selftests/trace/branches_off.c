// SPDX-License-Identifier: GPL-2.0-only
/*
 * A BPF program that calls bpf_get_branch_snapshot() leaves branch recording
 * switched off when Linux perf has no user of it. The stack then holds old branches:
 * they are in no record, the gap is reported, and recording goes on.
 *
 * The same is tried by writes of /dev/cpu/N/msr, to that register and to the one that
 * chooses branches.
 */
#include <fcntl.h>
#include <unistd.h>
#include <x86intrin.h>

#include "branch_records.h"
#include "branch_snapshot.h"
#include "cpu.h"
#include "device.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	2048

#define N	10000UL

/* IA32_DEBUGCTL: an overflow interrupt freezes the records. */
#define FREEZE		(1ULL << 11)

/*
 * Two loops at different places, so that their branches tell which one ran. They
 * return where these branches lead to.
 */
static __attribute_noinline__ __u64 run_first(unsigned long n)
{
	__u64 target;

	__asm__ volatile("	lea	1f(%%rip), %1\n"
			 "1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n), "=&r" (target) : : "cc");
	return target;
}

/* A compiler may make one function of two that are the same. */
static __attribute_noinline__ __u64 run_second(unsigned long n)
{
	__u64 target;

	__asm__ volatile("	lea	1f(%%rip), %1\n"
			 "	nop\n"
			 "1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n), "=&r" (target) : : "cc");
	return target;
}

FIXTURE(branches)
{
	struct trace trace;
	int fd;
	int cpu;
	int program;	/* of BPF */
};

FIXTURE_VARIANT(branches)
{
	int (*tamper)(int cpu);	/* NULL: BPF's call does it */
	bool wait;	/* until the timer has looked */
};

static int clear_bits(int cpu, __u32 msr, __u64 bits)
{
	__u64 value;
	int err = msr_read(cpu, msr, &value);

	return err ?: msr_write(cpu, msr, value & ~bits);
}

/* Between two samples are fewer branches than there are records of them. */
static __u32 rate(void)
{
	return branch_records()->depth + 9;
}

/* Switches branch recording off, as BPF's call does. */
static int disable(int cpu)
{
	const struct branch_records *b = branch_records();
	/* Where these are one register, an overflow may clear the first. */
	const __u64 freeze = b->enable == MSR_IA32_DEBUGCTL ? FREEZE : 0;

	return clear_bits(cpu, b->enable, b->enable_bit | freeze);
}

/* Switches freezing off; where there is none, the records. */
static int clear_freeze(int cpu)
{
	return branch_records()->freeze ? clear_bits(cpu, MSR_IA32_DEBUGCTL, FREEZE) : disable(cpu);
}

/* Leaves nothing but branches that end in the kernel. */
static int leave_user_out(int cpu)
{
	const struct branch_records *b = branch_records();

	return msr_write(cpu, b->select, branch_selection(LBR_CPL_NEQ_0) | b->select_enable);
}

FIXTURE_VARIANT_ADD(branches, disabled) { disable, false };
FIXTURE_VARIANT_ADD(branches, disabled_for_long) { disable, true };
FIXTURE_VARIANT_ADD(branches, not_frozen) { clear_freeze, false };
FIXTURE_VARIANT_ADD(branches, not_frozen_for_long) { clear_freeze, true };
FIXTURE_VARIANT_ADD(branches, selection) { leave_user_out, false };
FIXTURE_VARIANT_ADD(branches, selection_for_long) { leave_user_out, true };
FIXTURE_VARIANT_ADD(branches, bpf) { NULL, false };
FIXTURE_VARIANT_ADD(branches, bpf_for_long) { NULL, true };

FIXTURE_SETUP(branches)
{
	SKIP_WITHOUT_PMU();
	self->program = -1;
	if (!variant->tamper) {
		if (access(BPF_SYSCTL, F_OK))
			SKIP(return, "this kernel has no BPF");
		self->program = branch_snapshot_load();
		ASSERT_LE(0, self->program);
	}
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
}

FIXTURE_TEARDOWN(branches)
{
	trace_free(&self->trace);
	close(self->fd);
	close(self->program);
}

/* Does what the variant does: 0 or a negative errno. */
static int tamper(FIXTURE_DATA(branches) *self, const FIXTURE_VARIANT(branches) *variant)
{
	int err;

	if (variant->tamper)
		return variant->tamper(self->cpu);
	err = branch_snapshot_take(self->program);
	return err < 0 ? err : 0;
}

TEST_F(branches, old_branches_are_not_recorded)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, rate(), FLAG_USER | FLAG_LAST_BRANCH);
	unsigned int i, before = 0, old = 0, new = 0;
	struct trace_record r;
	struct trace_cursor c;
	__u64 first, second, to;
	__s64 tampered;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_start(&self->trace));
	first = run_first(N);
	ASSERT_EQ(0, tamper(self, variant));
	tampered = __rdtsc();
	if (variant->wait)
		ASSERT_EQ(0, trace_wait_until_lost(&self->trace, self->cpu));
	second = run_second(N);
	ASSERT_EQ(0, trace_stop(&self->trace));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST, self->trace.buffer[self->cpu]->flags);

	c = trace_records(&self->trace, self->cpu);
	while (trace_next(&c, &r) > 0) {
		if (r.type != PERFMON_RECORD_LAST_BRANCH)
			continue;
		for (i = 0; i < r.branches->num_branches; i++) {
			to = r.branches->branches[i].to;
			if (to == first) {
				if (r.time < tampered)
					before++;
				else
					old++;
			}
			new += to == second;
		}
	}
	EXPECT_LT(0U, before);
	EXPECT_EQ(0U, old);
	EXPECT_LT(32U, new);
}

/* It is found by STOP, too, where nothing else has looked. */
TEST_F(branches, gap_until_stop_is_flagged)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 1U << 30, FLAG_USER | FLAG_LAST_BRANCH);
	int i;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, trace_start(&self->trace));
		ASSERT_EQ(0, tamper(self, variant));
		ASSERT_EQ(0, trace_stop(&self->trace));
		EXPECT_EQ(PERFMON_BUFFER_FLAG_LOST,
			  self->trace.buffer[self->cpu]->flags);
	}
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
}

TEST_HARNESS_MAIN
