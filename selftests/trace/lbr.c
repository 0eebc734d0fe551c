// SPDX-License-Identifier: GPL-2.0-only
/*
 * LAST_BRANCH records: the branches of a known piece of code, the newest first, of the
 * requested modes only.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "branch_records.h"
#include "branches.h"
#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	1024
#define ROUNDS	20000UL

/* Returns the position of the branch in a round, the newest first; -1 for another branch. */
static int branch_position(const struct branch_addresses *s, const struct perfmon_last_branch *b)
{
	if (b->from == s->ret && b->to == s->next)
		return 0;
	if (b->from == s->call && b->to == s->target)
		return 1;
	return b->from == s->jump && b->to == s->call ? 2 : -1;
}

/* Returns the position of the last branch before @pc. */
static int position_before(const struct branch_addresses *s, __u64 pc)
{
	if (pc == s->next || pc == s->jump)
		return 0;
	if (pc == s->target || pc == s->ret)
		return 1;
	return pc == s->call ? 2 : -1;
}

FIXTURE(lbr)
{
	struct trace trace;
	struct branch_addresses addresses;
	int fd;
	int cpu;
};

FIXTURE_SETUP(lbr)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	ASSERT_NE(0U, p.flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(lbr)
{
	trace_free(&self->trace);
	close(self->fd);
}

/* Stages @config, and executes the branches while the trace runs. */
static int trace_branches(struct trace *t, const struct perfmon_config *config,
			  struct branch_addresses *addresses)
{
	int err = trace_stage(t, config);

	if (!err)
		err = trace_start(t);
	if (err)
		return err;
	run_branches(addresses, ROUNDS);
	return trace_stop(t);
}

/*
 * The maximum number of returns from interrupts in a record: a busy host delivers several
 * interrupts at once.
 */
#define MAX_RETURNS	4

/*
 * Returns true if the branches of a record are the last branches before @pc, apart from returns of
 * interrupts between these branches.
 */
static bool is_right(const struct perfmon_last_branch_record *record,
		     const struct branch_addresses *s, __u64 pc)
{
	const unsigned int depth = branch_records()->depth;
	int place = position_before(s, pc);
	unsigned int i;

	if (record->num_branches > depth || record->num_branches < depth - MAX_RETURNS)
		return false;
	for (i = 0; i < record->num_branches; i++) {
		if (place < 0 || branch_position(s, &record->branches[i]) != place)
			return false;
		if (record->branches[i].info &
		    ~(PERFMON_LAST_BRANCH_INFO_CYCLES_MASK |
		      PERFMON_LAST_BRANCH_INFO_MISPRED_MASK))
			return false;
		place = (place + 1) % ROUND_BRANCHES;
	}
	return true;
}

TEST_F(lbr, record_has_the_branches_before_the_sample)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 1009,
			  FLAG_USER | FLAG_PC | FLAG_LAST_BRANCH);
	struct trace_cursor c;
	struct trace_record r;
	struct trace_sums sums;
	__u64 right = 0, pc = 0, aspace = 0;

	ASSERT_EQ(0, trace_branches(&self->trace, &config,
					&self->addresses));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->cpu]->flags);
	EXPECT_LE(ROUND_INSNS * ROUNDS, sums.event[0].total);
	EXPECT_EQ(sums.event[0].total / 1009, sums.event[0].ticks);
	EXPECT_EQ(sums.event[0].ticks, sums.branches);

	c = trace_records(&self->trace, self->cpu);
	while (trace_next(&c, &r) > 0) {
		if (r.type == PERFMON_RECORD_PC) {
			pc = r.pc;
			aspace = r.aspace;
		}
		if (r.type != PERFMON_RECORD_LAST_BRANCH)
			continue;
		EXPECT_EQ(aspace, r.branches->aspace);
		if (is_right(r.branches, &self->addresses, pc)) {
			right++;
			continue;
		}
		TH_LOG("sample at %llx: %u branches, the newest from %llx to %llx", pc,
		       r.branches->num_branches, r.branches->branches[0].from,
		       r.branches->branches[0].to);
	}

	/* All samples are in the loop, and none is in its first rounds. */
	EXPECT_EQ(sums.branches, right);
}

/* Numbers of branches with and without an end in the kernel. */
struct branches_by_mode {
	__u64 kernel;
	__u64 user;
};

static struct branches_by_mode count_branches_by_mode(const struct trace *t, int cpu)
{
	struct trace_cursor c = trace_records(t, cpu);
	struct branches_by_mode counts = { .kernel = 0 };
	const struct perfmon_last_branch *b;
	struct trace_record r;
	unsigned int i;

	while (trace_next(&c, &r) > 0) {
		if (r.type != PERFMON_RECORD_LAST_BRANCH)
			continue;
		for (i = 0; i < r.branches->num_branches; i++) {
			b = &r.branches->branches[i];
			if (is_kernel_address(b->from) ||
			    is_kernel_address(b->to))
				counts.kernel++;
			else
				counts.user++;
		}
	}
	return counts;
}

/*
 * Executes branches and system calls, often enough for many samples. The rate is so large that the
 * overflow handler alone does not make the counter overflow again, in modes that include the
 * handler.
 */
static int trace_calls(struct trace *t, __u32 flags, __u32 rate, int calls)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, rate, flags | FLAG_LAST_BRANCH);
	int i, err = trace_stage(t, &config);
	struct branch_addresses addresses;

	if (!err)
		err = trace_start(t);
	if (err)
		return err;
	for (i = 0; i < calls; i++) {
		run_branches(&addresses, 100);
		getppid();
	}
	return trace_stop(t);
}

/*
 * The hardware filters branches by their target: see vpmu_lbr. The module also leaves out branches
 * from the kernel to user mode, since they would show an address of the kernel.
 */
TEST_F(lbr, record_has_branches_of_its_modes_only)
{
	struct branches_by_mode counts;

	ASSERT_EQ(0, trace_calls(&self->trace, FLAG_USER, 10007, 2000));
	counts = count_branches_by_mode(&self->trace, self->cpu);
	EXPECT_LT(0ULL, counts.user);
	EXPECT_EQ(0ULL, counts.kernel);

	/* Without freezing, only branches of the handler would be left. */
	if (!branch_records()->can_freeze) {
		EXPECT_EQ(-EINVAL, trace_calls(&self->trace, FLAG_OS, 10007, 1));
		EXPECT_EQ(-EINVAL, trace_calls(&self->trace, FLAG_USER | FLAG_OS, 10007, 1));
		return;
	}
	ASSERT_EQ(0, trace_calls(&self->trace, FLAG_OS, 10007, 2000));
	counts = count_branches_by_mode(&self->trace, self->cpu);
	EXPECT_EQ(0ULL, counts.user);
	EXPECT_LT(0ULL, counts.kernel);

	/* The rate is so large that a debug kernel does not sample only its own handler. */
	ASSERT_EQ(0, trace_calls(&self->trace, FLAG_USER | FLAG_OS, 1000003,
				 40000));
	counts = count_branches_by_mode(&self->trace, self->cpu);
	EXPECT_LT(0ULL, counts.user);
	EXPECT_LT(0ULL, counts.kernel);
}

/*
 * A PMI writes at most one LAST_BRANCH record. The record's event is the first event in the config
 * that has overflowed and has the flag.
 */
TEST_F(lbr, interrupt_has_one_record_for_several_events)
{
	const struct perfmon_config config = {
		.events = {
			INSTRUCTIONS, MODEL_EVENT(0), MODEL_EVENT(1),
		},
		.rate = { 1000, 500, 1000 },
		.flags = {
			FLAG_USER,
			FLAG_USER | FLAG_LAST_BRANCH,
			FLAG_USER | FLAG_LAST_BRANCH,
		},
	};
	struct trace_cursor c;
	struct trace_record r;
	struct trace_sums sums;

	define_instructions(_metadata, self->fd, 2);
	ASSERT_EQ(0, trace_branches(&self->trace, &config,
					&self->addresses));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(sums.event[0].total / 1000, sums.event[0].ticks);
	EXPECT_EQ(sums.event[0].total / 500, sums.event[1].ticks);
	EXPECT_EQ(sums.event[1].ticks, sums.branches);
	c = trace_records(&self->trace, self->cpu);
	while (trace_next(&c, &r) > 0) {
		if (r.type == PERFMON_RECORD_LAST_BRANCH)
			EXPECT_EQ(MODEL_EVENT(0), r.event);
	}
}

/* Nothing is recorded before START, and no records are left in the registers after STOP. */
TEST_F(lbr, registers_read_as_before)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 1009, FLAG_USER | FLAG_LAST_BRANCH);
	const struct branch_records *b = branch_records();
	const __u64 other = branch_selection(LBR_JCC | LBR_NEAR_IND_JMP | LBR_FAR);
	struct branch_record left[LBR_MAX_DEPTH];
	__u64 select, enable, debugctl, now;
	unsigned int i;

	ASSERT_EQ(0, msr_read(self->cpu, b->select, &select));
	ASSERT_EQ(0, msr_write(self->cpu, b->select, other));
	ASSERT_EQ(0, msr_read(self->cpu, b->enable, &enable));
	ASSERT_EQ(0, msr_read(self->cpu, MSR_IA32_DEBUGCTL, &debugctl));
	ASSERT_EQ(0, trace_branches(&self->trace, &config,
					&self->addresses));
	ASSERT_EQ(0, trace_free(&self->trace));
	EXPECT_EQ(0, msr_read(self->cpu, b->select, &now));
	EXPECT_EQ(other, now);
	EXPECT_EQ(0, msr_read(self->cpu, b->enable, &now));
	EXPECT_EQ(enable, now);
	EXPECT_EQ(0, msr_read(self->cpu, MSR_IA32_DEBUGCTL, &now));
	EXPECT_EQ(debugctl, now);
	EXPECT_EQ(0, branch_records_read(self->cpu, left));
	for (i = 0; i < b->depth; i++)
		EXPECT_EQ(0ULL, left[i].from | left[i].to);
	ASSERT_EQ(0, msr_write(self->cpu, b->select, select));
}

/*
 * Records of branches fill the buffer while START starts one counter after the other. The counter
 * of the first event is started last, and then must not count any more.
 */
TEST_F(lbr, buffer_that_is_full_at_once_stops_all_counters)
{
	const struct perfmon_config config = {
		.events = { MODEL_EVENT(0), INSTRUCTIONS },
		.rate = { 0, 2 },
		.flags = { FLAG_USER, FLAG_OS | FLAG_LAST_BRANCH },
	};
	struct trace_sums sums;

	ASSERT_EQ(0, trace_free(&self->trace));
	define_instructions(_metadata, self->fd, 1);
	ASSERT_EQ(0, trace_alloc(&self->trace, self->fd, 1));
	/* Branches of kernel mode are refused without freezing. */
	if (!branch_records()->can_freeze) {
		EXPECT_EQ(-EINVAL, trace_stage(&self->trace, &config));
		return;
	}
	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, 1000000));
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(PERFMON_BUFFER_FLAG_FULL,
		  self->trace.buffer[self->cpu]->flags & PERFMON_BUFFER_FLAG_FULL);
	EXPECT_EQ(0ULL, sums.event[0].total);
}

TEST_HARNESS_MAIN
