// SPDX-License-Identifier: GPL-2.0-only
/*
 * The last branch records of the virtual PMU, set up by its registers alone.
 */
#include <fcntl.h>
#include <unistd.h>

#include "branches.h"
#include "cpu.h"
#include "kselftest_harness.h"
#include "pmu.h"

/* Intel SDM, volume 4, table 2-39 and volume 3B, chapter 18 */
#define LBR_CPL_EQ_0		(1 << 0)
#define LBR_CPL_NEQ_0		(1 << 1)
#define LBR_JCC			(1 << 2)
#define LBR_NEAR_REL_CALL	(1 << 3)
#define LBR_NEAR_IND_CALL	(1 << 4)
#define LBR_NEAR_RET		(1 << 5)
#define LBR_NEAR_IND_JMP	(1 << 6)
#define LBR_NEAR_REL_JMP	(1 << 7)
#define LBR_FAR			(1 << 8)
#define MSR_LBR_TOS		0x1c9
#define MSR_LBR_FROM		0x680
#define MSR_LBR_TO		0x6c0
#define DEBUGCTL_LBR		(1 << 0)
#define DEPTH			32

struct record {
	__u64 from;
	__u64 to;
};

FIXTURE(lbr)
{
	struct sites sites;
	struct record records[DEPTH];	/* the newest first */
};

FIXTURE_SETUP(lbr)
{
	struct pmu p;

	ASSERT_TRUE(pmu_describe(&p));
	ASSERT_TRUE(p.lbr);
	ASSERT_EQ(0, pin_to_cpu(0));
}

FIXTURE_TEARDOWN(lbr)
{
	msr_write(0, MSR_IA32_DEBUGCTL, 0);
	msr_write(0, MSR_LBR_SELECT, 0);
}

/*
 * Records branches() and reads what there is; false if an access faulted.
 *
 * Hardly any branches may come after those, so the last access is a bare
 * system call.
 */
static bool record(struct record *records, struct sites *sites, __u64 select)
{
	__u64 tos, off = 0;
	int i, fd;

	for (i = 0; i < DEPTH; i++) {
		if (msr_write(0, MSR_LBR_FROM + i, 0) ||
		    msr_write(0, MSR_LBR_TO + i, 0))
			return false;
	}
	fd = open("/dev/cpu/0/msr", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || msr_write(0, MSR_LBR_SELECT, select) ||
	    msr_write(0, MSR_IA32_DEBUGCTL, DEBUGCTL_LBR))
		return false;
	branches(sites, 1000);
	if (pwrite(fd, &off, sizeof(off), MSR_IA32_DEBUGCTL) != sizeof(off) ||
	    close(fd) || msr_read(0, MSR_LBR_TOS, &tos))
		return false;
	for (i = 0; i < DEPTH; i++) {
		unsigned int n = (tos - i) % DEPTH;

		if (msr_read(0, MSR_LBR_FROM + n, &records[i].from) ||
		    msr_read(0, MSR_LBR_TO + n, &records[i].to))
			return false;
	}
	return true;
}

static int matching(const struct record *records, __u64 from, __u64 to)
{
	int i, n = 0;

	for (i = 0; i < DEPTH; i++) {
		if (records[i].from == from &&
		    records[i].to == to)
			n++;
	}
	return n;
}

TEST_F(lbr, lbr_has_the_branches_in_order)
{
	const struct sites *s = &self->sites;
	int i, tries = 0;

	/* After the loop come the branches to the system call; rarely those of another program. */
	do {
		ASSERT_TRUE(record(self->records, &self->sites, LBR_CPL_EQ_0));
		for (i = 0; i < DEPTH; i++) {
			if (self->records[i].from == s->ret)
				break;
		}
	} while (i >= DEPTH / 2 && ++tries < 100);
	ASSERT_GT(DEPTH / 2, i);
	for (; i + 3 <= DEPTH; i += 3) {
		EXPECT_EQ(s->ret, self->records[i].from);
		EXPECT_EQ(s->next, self->records[i].to);
		EXPECT_EQ(s->call, self->records[i + 1].from);
		EXPECT_EQ(s->target, self->records[i + 1].to);
		EXPECT_EQ(s->jump, self->records[i + 2].from);
		EXPECT_EQ(s->call, self->records[i + 2].to);
	}
}

TEST_F(lbr, lbr_select_leaves_out_branch_types)
{
	const struct sites *s = &self->sites;

	ASSERT_TRUE(record(self->records, &self->sites,
			   LBR_CPL_EQ_0 | LBR_JCC));
	EXPECT_EQ(0, matching(self->records, s->jump, s->call));
	EXPECT_LT(0, matching(self->records, s->call, s->target));

	ASSERT_TRUE(record(self->records, &self->sites,
			   LBR_CPL_EQ_0 | LBR_NEAR_RET | LBR_NEAR_REL_CALL));
	EXPECT_EQ(0, matching(self->records, s->ret, s->next));
	EXPECT_EQ(0, matching(self->records, s->call, s->target));
	EXPECT_LT(0, matching(self->records, s->jump, s->call));
}

/* The kernel is in the upper half of the addresses. */
static bool in_kernel(__u64 address)
{
	return address >> 63;
}

static int crossing(const struct record *records, bool into_kernel)
{
	int i, n = 0;

	for (i = 0; i < DEPTH; i++) {
		if (in_kernel(records[i].from) == !into_kernel &&
		    in_kernel(records[i].to) == into_kernel)
			n++;
	}
	return n;
}

/* It is where a branch leads to that counts, not where it comes from. */
TEST_F(lbr, lbr_select_leaves_out_a_mode)
{
	int i;

	ASSERT_TRUE(record(self->records, &self->sites, LBR_CPL_EQ_0));
	for (i = 0; i < DEPTH; i++)
		EXPECT_FALSE(in_kernel(self->records[i].to));
	ASSERT_TRUE(record(self->records, &self->sites, LBR_CPL_NEQ_0));
	for (i = 0; i < DEPTH; i++)
		EXPECT_TRUE(in_kernel(self->records[i].to));
}

/*
 * All branches but far ones left out: those in and out of the kernel stay.
 *
 * They need not be the newest: an interrupt within a system call is a far
 * branch, too, from the kernel to the kernel.
 */
TEST_F(lbr, lbr_has_far_branches)
{
	__u64 near = LBR_JCC | LBR_NEAR_REL_CALL | LBR_NEAR_IND_CALL |
		     LBR_NEAR_RET | LBR_NEAR_IND_JMP | LBR_NEAR_REL_JMP;

	ASSERT_TRUE(record(self->records, &self->sites, near | LBR_CPL_NEQ_0));
	EXPECT_LT(0, crossing(self->records, true));

	ASSERT_TRUE(record(self->records, &self->sites, near | LBR_CPL_EQ_0));
	EXPECT_LT(0, crossing(self->records, false));

	ASSERT_TRUE(record(self->records, &self->sites, near | LBR_FAR));
	EXPECT_EQ(0ULL, self->records[0].from);
}

TEST_HARNESS_MAIN
