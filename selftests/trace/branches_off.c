// SPDX-License-Identifier: GPL-2.0-only
/*
 * A BPF program that calls bpf_get_branch_snapshot() leaves branch recording switched off when
 * Linux perf does not use it. The LBR stack then has old branches. They must not be in a
 * record, the gap must be reported, and recording must continue.
 *
 * Other variants change that register, or the register that selects branches, by writes to
 * /dev/cpu/N/msr.
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

/* IA32_DEBUGCTL: a PMI freezes the records. */
#define FREEZE		(1ULL << 11)

/*
 * Two loops at different addresses, so that their branches show which loop ran. The functions
 * return the target of these branches.
 */
static __attribute_noinline__ __u64 run_first_loop(unsigned long n)
{
	__u64 target;

	__asm__ volatile("	lea	1f(%%rip), %1\n"
			 "1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n), "=&r" (target) : : "cc");
	return target;
}

/* Differs from run_first_loop(), because the compiler may merge identical functions. */
static __attribute_noinline__ __u64 run_second_loop(unsigned long n)
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
	int program;	/* descriptor of the BPF program */
};

FIXTURE_VARIANT(branches)
{
	int (*tamper)(int cpu);	/* NULL: the BPF program */
	bool wait;	/* wait until the module's timer has checked the registers */
};

static int clear_bits(int cpu, __u32 msr, __u64 bits)
{
	__u64 value;
	int err = msr_read(cpu, msr, &value);

	return err ?: msr_write(cpu, msr, value & ~bits);
}

/*
 * Returns a rate that is so small that there are fewer branches between two samples than branch
 * records.
 */
static __u32 sampling_rate(void)
{
	return branch_records()->depth + 9;
}

/* Switches branch recording off, as bpf_get_branch_snapshot() does. */
static int disable_branches(int cpu)
{
	const struct branch_records *b = branch_records();
	/*
	 * Leaves FREEZE as it is if both bits are in one register, since a PMI may clear FREEZE
	 * meanwhile.
	 */
	const __u64 freeze = b->enable == MSR_IA32_DEBUGCTL ? FREEZE : 0;

	return clear_bits(cpu, b->enable, b->enable_bit | freeze);
}

/* Switches freezing off, or branch recording on CPUs without freezing. */
static int clear_freeze(int cpu)
{
	return branch_records()->can_freeze ? clear_bits(cpu, MSR_IA32_DEBUGCTL, FREEZE) : disable_branches(cpu);
}

/* Selects only branches that end in the kernel. */
static int leave_user_out(int cpu)
{
	const struct branch_records *b = branch_records();

	return msr_write(cpu, b->select, branch_selection(LBR_CPL_NEQ_0) | b->select_enable);
}

FIXTURE_VARIANT_ADD(branches, disabled) { disable_branches, false };
FIXTURE_VARIANT_ADD(branches, disabled_for_long) { disable_branches, true };
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

/* Tampers with the registers as the variant says. Returns 0 or a negative errno. */
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
		one_event(INSTRUCTIONS, sampling_rate(), FLAG_USER | FLAG_LAST_BRANCH);
	unsigned int i, before = 0, old = 0, new = 0;
	struct trace_record r;
	struct trace_cursor c;
	__u64 first, second, to;
	__s64 tampered;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_start(&self->trace));
	first = run_first_loop(N);
	ASSERT_EQ(0, tamper(self, variant));
	tampered = __rdtsc();
	if (variant->wait)
		ASSERT_EQ(0, trace_wait_until_lost(&self->trace, self->cpu));
	second = run_second_loop(N);
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

/* If no overflow and no timer tick has found the gap before, STOP reports it. */
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
