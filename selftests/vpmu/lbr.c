// SPDX-License-Identifier: GPL-2.0-only
/*
 * The last branch records of the virtual PMU, of any kind, set up directly by their registers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "branch_records.h"
#include "branches.h"
#include "cpu.h"
#include "harness.h"
#include "pmu.h"

#define NEAR_BRANCHES	(LBR_JCC | LBR_NEAR_REL_CALL | LBR_NEAR_IND_CALL | LBR_NEAR_RET | LBR_NEAR_IND_JMP | \
			 LBR_NEAR_REL_JMP)

FIXTURE(lbr)
{
	const struct branch_records *b;
	struct branch_addresses addresses;
	struct branch_record records[LBR_MAX_DEPTH];	/* the newest first */
};

FIXTURE_SETUP(lbr)
{
	self->b = branch_records();
	ASSERT_NE(0U, self->b->depth);
	ASSERT_EQ(0, pin_to_cpu(0));
}

/* Sets or clears the enable bit. */
static int set_enabled(const struct branch_records *b, bool on)
{
	__u64 value;
	int err = msr_read(0, b->enable, &value);

	value = on ? value | b->enable_bit : value & ~b->enable_bit;
	return err ?: msr_write(0, b->enable, value);
}

FIXTURE_TEARDOWN(lbr)
{
	set_enabled(self->b, false);
	msr_write(0, self->b->select, branch_selection(0));
}

/*
 * Records the branches of run_branches() and reads them. Returns false if an access faulted.
 *
 * Few branches may follow the branches of the loop, so the last access is a bare system call.
 */
static bool record_branches(FIXTURE_DATA(lbr) *self, unsigned int left_out)
{
	const struct branch_records *b = self->b;
	__u64 off;
	int fd;

	if (msr_write(0, b->select, branch_selection(left_out)) || branch_records_clear(0) ||
	    msr_read(0, b->enable, &off))
		return false;
	fd = open("/dev/cpu/0/msr", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || set_enabled(b, true))
		return false;
	run_branches(&self->addresses, 1000);
	if (pwrite(fd, &off, sizeof(off), b->enable) != sizeof(off) || close(fd) ||
	    branch_records_read(0, self->records))
		return false;
	return true;
}

static int count_matching(FIXTURE_DATA(lbr) *self, __u64 from, __u64 to)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < self->b->depth; i++) {
		if (self->records[i].from == from &&
		    self->records[i].to == to)
			n++;
	}
	return n;
}

/* Kernel addresses are the upper half. */
static bool in_kernel(__u64 address)
{
	return address >> 63;
}

static int count_crossing(const FIXTURE_DATA(lbr) *self, bool into_kernel)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < self->b->depth; i++) {
		if (in_kernel(self->records[i].from) == !into_kernel &&
		    in_kernel(self->records[i].to) == into_kernel)
			n++;
	}
	return n;
}

TEST_F(lbr, lbr_has_the_branches_in_order)
{
	const struct branch_addresses *s = &self->addresses;
	const int depth = self->b->depth;
	int i, tries = 0;

	/*
	 * Repeats the test if necessary: after the loop there are the branches up to the system
	 * call, and in rare cases branches of other programs. A return from an interrupt in the
	 * last rounds is a branch, too.
	 */
	do {
		ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0));
		for (i = 0; i < depth; i++) {
			if (self->records[i].from == s->ret)
				break;
		}
	} while ((i > depth - 2 * ROUND_BRANCHES || count_crossing(self, false)) && ++tries < 100);
	ASSERT_GE(depth - 2 * ROUND_BRANCHES, i);
	for (; i + 3 <= depth; i += 3) {
		EXPECT_EQ(s->ret, self->records[i].from);
		EXPECT_EQ(s->next, self->records[i].to);
		EXPECT_EQ(s->call, self->records[i + 1].from);
		EXPECT_EQ(s->target, self->records[i + 1].to);
		EXPECT_EQ(s->jump, self->records[i + 2].from);
		EXPECT_EQ(s->call, self->records[i + 2].to);
	}
}

/* A filter is tried again if branches of another program have replaced the branches of the loop. */
TEST_F(lbr, lbr_select_leaves_out_branch_types)
{
	const struct branch_addresses *s = &self->addresses;
	int tries = 0;

	do {
		ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0 | LBR_JCC));
		ASSERT_EQ(0, count_matching(self, s->jump, s->call));
	} while (!count_matching(self, s->call, s->target) && ++tries < 100);
	EXPECT_LT(0, count_matching(self, s->call, s->target));

	tries = 0;
	do {
		ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0 | LBR_NEAR_RET | LBR_NEAR_REL_CALL));
		ASSERT_EQ(0, count_matching(self, s->ret, s->next));
		ASSERT_EQ(0, count_matching(self, s->call, s->target));
	} while (!count_matching(self, s->jump, s->call) && ++tries < 100);
	EXPECT_LT(0, count_matching(self, s->jump, s->call));
}

/*
 * PT in the environment says whether Intel PT excludes branch records or coexists with them.
 * Without PT there is no Intel PT.
 */
static bool has_pt(const char *effect)
{
	const char *pt = getenv("PT");

	return pt && !strcmp(pt, effect);
}

/*
 * While Intel PT traces on Broadwell to Comet Lake, there are no records. Afterwards the records
 * are empty.
 */
TEST_F(lbr, intel_pt_excludes_lbr)
{
	const struct branch_records *b = self->b;
	__u64 debugctl, value;

	if (!has_pt("excludes"))
		return;
	ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0));
	EXPECT_NE(0ULL, self->records[0].from);
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DEBUGCTL, &debugctl));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_RTIT_CTL, TRACE_EN));
	EXPECT_EQ(-EIO, msr_read(0, b->newest, &value));
	EXPECT_EQ(-EIO, msr_read(0, b->from, &value));
	EXPECT_EQ(-EIO, msr_read(0, b->to, &value));
	EXPECT_EQ(-EIO, msr_read(0, b->info, &value));
	EXPECT_EQ(-EIO, msr_write(0, b->select, 0));
	EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_DEBUGCTL, debugctl | b->enable_bit));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, debugctl & ~b->enable_bit));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_RTIT_CTL, 0));
	ASSERT_EQ(0, branch_records_read(0, self->records));
	EXPECT_EQ(0ULL, self->records[0].from);
	ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0));
	EXPECT_NE(0ULL, self->records[0].from);
}

/* On Ice Lake and later, records and Intel PT exist together. */
TEST_F(lbr, intel_pt_and_lbr_coexist)
{
	if (!has_pt("coexists"))
		return;
	ASSERT_EQ(0, msr_write(0, MSR_IA32_RTIT_CTL, TRACE_EN));
	EXPECT_TRUE(record_branches(self, LBR_CPL_EQ_0));
	EXPECT_NE(0ULL, self->records[0].from);
	ASSERT_EQ(0, msr_write(0, MSR_IA32_RTIT_CTL, 0));
	ASSERT_EQ(0, branch_records_read(0, self->records));
	EXPECT_NE(0ULL, self->records[0].from);
}

/* The filter looks at the target of a branch, not at its source. */
TEST_F(lbr, lbr_select_leaves_out_a_mode)
{
	unsigned int i;

	ASSERT_TRUE(record_branches(self, LBR_CPL_EQ_0));
	for (i = 0; i < self->b->depth; i++)
		EXPECT_FALSE(in_kernel(self->records[i].to));
	ASSERT_TRUE(record_branches(self, LBR_CPL_NEQ_0));
	for (i = 0; i < self->b->depth; i++)
		EXPECT_TRUE(in_kernel(self->records[i].to));
}

/*
 * The filter leaves out all branches but far ones, which lead into and out of the kernel.
 *
 * The branches of the system call need not be the newest, since an interrupt in it is a far branch
 * within the kernel. In rare cases, on a busy host, there are so many of them that no other branch
 * is left.
 */
TEST_F(lbr, lbr_has_far_branches)
{
	int tries = 0;

	do {
		ASSERT_TRUE(record_branches(self, NEAR_BRANCHES | LBR_CPL_NEQ_0));
	} while (!count_crossing(self, true) && ++tries < 10);
	EXPECT_LT(0, count_crossing(self, true));

	ASSERT_TRUE(record_branches(self, NEAR_BRANCHES | LBR_CPL_EQ_0));
	EXPECT_LT(0, count_crossing(self, false));

	ASSERT_TRUE(record_branches(self, NEAR_BRANCHES | LBR_FAR));
	EXPECT_EQ(0ULL, self->records[0].from);
}

static int traps;

static void count_trap(int signal)
{
	(void)signal;
	__atomic_add_fetch(&traps, 1, __ATOMIC_RELAXED);
}

/*
 * A debug exception switches Intel's records off, before its handler runs (Intel SDM, volume 3B, "Monitoring
 * Branches, Exceptions, and Interrupts" and "Last Branch Records"). AMD's continue.
 */
TEST_F(lbr, debug_exception_switches_intel_records_off)
{
	const struct branch_records *b = self->b;
	__u64 value;

	ASSERT_NE(SIG_ERR, signal(SIGTRAP, count_trap));
	/* The filter leaves out all branches, so that the records do not change. */
	ASSERT_EQ(0, msr_write(0, b->select, branch_selection(LBR_CPL_EQ_0 | LBR_CPL_NEQ_0)));
	ASSERT_EQ(0, set_enabled(b, true));
	ASSERT_EQ(0, msr_read(0, b->enable, &value));
	EXPECT_EQ(b->enable_bit, value & b->enable_bit);
	__asm__ volatile(".byte 0xf1");	/* INT1 */
	EXPECT_EQ(1, __atomic_load_n(&traps, __ATOMIC_RELAXED));
	ASSERT_EQ(0, msr_read(0, b->enable, &value));
	EXPECT_EQ(b->enable == MSR_AMD_DBG_EXTN_CFG ? b->enable_bit : 0, value & b->enable_bit);
	signal(SIGTRAP, SIG_DFL);
}

#define SMIS	20

/*
 * A system management interrupt switches architectural records off, and RSM switches them on again
 * (Intel SDM, volume 3B, "Last Branch Records"). The addresses of the firmware's code are lower
 * than the kernel's addresses.
 */
TEST_F(lbr, architectural_records_leave_out_the_firmware)
{
	const struct branch_records *b = self->b;
	const unsigned char command = 0xff;	/* none of the firmware's */
	__u64 debugctl, before, after, value;
	unsigned int i;
	int port, n;

	if (b->enable != MSR_ARCH_LBR_CTL)
		return;
	port = open("/dev/port", O_WRONLY);
	ASSERT_LE(0, port);
	/* The kernel may have set the bit that freezes all records there. */
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DEBUGCTL, &debugctl));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, 0));
	/*
	 * Records only far branches: they are few, so far branches of the firmware would stay in
	 * the records, unless ticks come afterwards.
	 */
	ASSERT_EQ(0, msr_write(0, b->select, branch_selection(NEAR_BRANCHES | LBR_CPL_NEQ_0)));
	ASSERT_EQ(0, msr_read(0, MSR_SMI_COUNT, &before));
	for (n = 0; n < SMIS; n++) {
		ASSERT_EQ(0, branch_records_clear(0));
		ASSERT_EQ(0, set_enabled(b, true));
		ASSERT_EQ(1, pwrite(port, &command, 1, APM_CONTROL));
		ASSERT_EQ(0, msr_read(0, b->enable, &value));
		ASSERT_EQ(b->enable_bit, value & b->enable_bit);
		ASSERT_EQ(0, set_enabled(b, false));
		ASSERT_EQ(0, branch_records_read(0, self->records));
		ASSERT_TRUE(in_kernel(self->records[0].to));
		for (i = 0; i < b->depth && self->records[i].from; i++) {
			ASSERT_TRUE(in_kernel(self->records[i].to)) {
				TH_LOG("%#llx to %#llx", self->records[i].from, self->records[i].to);
			}
		}
	}
	ASSERT_EQ(0, msr_read(0, MSR_SMI_COUNT, &after));
	EXPECT_EQ((__u64)SMIS, after - before);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, debugctl));
	close(port);
}

/* The enable bit of older records can be written, and reads as 0. */
TEST_F(lbr, architectural_records_ignore_the_flag_of_debugctl)
{
	__u64 saved, value;

	if (self->b->enable != MSR_ARCH_LBR_CTL)
		return;
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DEBUGCTL, &saved));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, saved | 1));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DEBUGCTL, &value));
	EXPECT_EQ(saved & ~1ULL, value);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DEBUGCTL, saved));
}

/* Only as many records exist as the depth says. */
TEST_F(lbr, architectural_records_beyond_the_depth_fault)
{
	const __u32 firsts[] = { self->b->from, self->b->to, self->b->info };
	unsigned int depth, i;
	__u64 value;

	if (self->b->enable != MSR_ARCH_LBR_CTL)
		return;
	for (depth = 8; depth < self->b->depth; depth *= 2) {
		EXPECT_EQ(0, msr_write(0, MSR_ARCH_LBR_DEPTH, depth));
		for (i = 0; i < ARRAY_SIZE(firsts); i++) {
			EXPECT_EQ(0, msr_read(0, firsts[i] + depth - 1, &value));
			EXPECT_EQ(0ULL, value);
			EXPECT_EQ(0, msr_write(0, firsts[i] + depth - 1, 0));
			EXPECT_EQ(-EIO, msr_read(0, firsts[i] + depth, &value)) {
				TH_LOG("MSR %#x, depth %u", firsts[i] + depth, depth);
			}
			EXPECT_EQ(-EIO, msr_write(0, firsts[i] + depth, 0));
		}
	}
	EXPECT_EQ(0, msr_write(0, MSR_ARCH_LBR_DEPTH, self->b->depth));
}

TEST_HARNESS_MAIN
