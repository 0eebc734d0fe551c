// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registers of PEBS, with format 4 and later formats. The virtual PMU has more counters than
 * the DS area has reset values, and two MSR numbers for each event select.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "branches.h"
#include "event_ring.h"
#include "harness.h"
#include "loop.h"
#include "perf.h"
#include "pmu.h"

#define MSR_IA32_DS_AREA	0x600

/* CPUID.07H:ECX: linear addresses of 57 bits */
#define CPUID_7_ECX_LA57	(1U << 16)

/* A bit of GLOBAL_STATUS: the buffer is filled up to its threshold. */
#define OVF_BUFFER		(1ULL << 62)

#define OS			(1ULL << 17)

/* A bit of an event select: the record has the groups that PEBS_DATA_CFG selects. */
#define SELECT_ADAPTIVE		(1ULL << 34)

/* Returns the address of a page that the kernel always has mapped. */
static unsigned long gdt_address(void)
{
	struct {
		__u16 limit;
		unsigned long base;
	} __attribute__((packed)) gdt;

	__asm__ volatile("sgdt %0" : "=m" (gdt));
	return gdt.base;
}

FIXTURE(pebs)
{
	struct pmu p;
	int format;
	int reset_counters; /* the general counters that the DS area has a reset value for */
};

FIXTURE_SETUP(pebs)
{
	__u64 capabilities;

	ASSERT_TRUE(pmu_describe(&self->p));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities));
	self->format = PERF_CAPABILITIES_PEBS(capabilities);
	ASSERT_LE(3, self->format);
	if (self->format > 3) {
		ASSERT_LE(6U, self->p.version);
		ASSERT_LT(8, (int)self->p.counters);
	}
	self->reset_counters = self->format == 4 ? 8 : 32;
}

FIXTURE_TEARDOWN(pebs)
{
	msr_write(0, MSR_PEBS_ENABLE, 0);
}

/*
 * Both numbers of a register accept the same bits. A value that is written by one number can be
 * read by the other.
 */
TEST_F(pebs, adaptive_bit_can_be_written_by_both_numbers)
{
	__u64 value;
	int n;

	if (self->format == 3)
		return;
	for (n = 0; n < (int)self->p.counters; n++) {
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(n), SELECT_ADAPTIVE));
		EXPECT_EQ(0, msr_read(0, MSR_IA32_PERFEVTSEL0 + n, &value));
		EXPECT_EQ(SELECT_ADAPTIVE, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0 + n, 0));
		EXPECT_EQ(0, msr_read(0, MSR_IA32_PMC_GP_CFG_A(n), &value));
		EXPECT_EQ(0ULL, value);
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PERFEVTSEL0 + n, SELECT_ADAPTIVE));
		EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(n), 0));
	}
}

/*
 * A counter without a reset value of its own can't have PEBS: it would take the reset value of a
 * fixed counter.
 */
TEST_F(pebs, only_counters_with_a_reset_value_have_it)
{
	int n;

	if (self->format == 3)
		return;
	for (n = 0; n < (int)self->p.counters; n++) {
		EXPECT_EQ(n < self->reset_counters ? 0 : -EIO, msr_write(0, MSR_PEBS_ENABLE, 1ULL << n)) {
			TH_LOG("general counter %d", n);
		}
	}
	for (n = 0; n < 32; n++) {
		EXPECT_EQ(self->p.fixed >> n & 1 ? 0 : -EIO, msr_write(0, MSR_PEBS_ENABLE, 1ULL << (32 + n))) {
			TH_LOG("fixed counter %d", n);
		}
	}
}

/* Intel SDM, volume 3B, "IA32_PERF_GLOBAL_INUSE MSR": bit 63 is set if something can interrupt. */
TEST_F(pebs, counters_with_pebs_are_in_use)
{
	const __u64 pmi_in_use = 1ULL << 63;
	__u64 value;

	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(0ULL, value & pmi_in_use);
	ASSERT_EQ(0, msr_write(0, MSR_PEBS_ENABLE, 1));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_INUSE, &value));
	EXPECT_EQ(pmi_in_use, value & pmi_in_use);
}

/*
 * With format 3, bits 35:32 of PEBS_ENABLE are for load latency of the general counters. They do not give PEBS to
 * the fixed counters, whose overflows show in GLOBAL_STATUS. For PEBS the counter would be reloaded from the DS area:
 * any address that the kernel has mapped.
 */
TEST_F(pebs, load_latency_is_no_pebs_of_fixed_counters)
{
	const __u64 fixed_0 = 1ULL << 32;
	__u64 saved, value;

	if (self->format != 3)
		return;
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DS_AREA, &saved));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, (__u64)gdt_address()));
	ASSERT_EQ(0, msr_write(0, MSR_PEBS_ENABLE, fixed_0));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR(0), (1ULL << self->p.width) - 100));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 3));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, fixed_0));
	sched_yield();
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_FIXED_CTR_CTRL, 0));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PERF_GLOBAL_STATUS, &value));
	EXPECT_EQ(fixed_0, value);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, value));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, saved));
}

/*
 * Intel SDM, volume 3B, "Auto Counter Reload". The overflow of a counter with PEBS also reloads
 * another counter.
 */
TEST_F(pebs, overflow_with_pebs_reloads_another_counter)
{
	const int cause = 0, other = 2;
	const __u64 mask = (1ULL << self->p.width) - 1;
	const __u64 select = 0xc0 | OS | PERFEVTSEL_EN;
	__u64 saved, value;

	if (!(self->p.reload & 1 << other))
		return;
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DS_AREA, &saved));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, (__u64)gdt_address()));
	/* There is no buffer, so its bit is set first: then a full buffer raises no interrupt. */
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_SET, OVF_BUFFER));
	ASSERT_EQ(0, msr_write(0, MSR_PEBS_ENABLE, 1 << cause));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CTR(cause), mask - 100));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CTR(other), 0));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(other), 1 << cause));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(other), 0x87654321));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(cause), select));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(other), select));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 1 << cause | 1 << other));
	sched_yield();
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_CTRL, 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(cause), 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_A(other), 0));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_PMC_GP_CTR(other), &value));
	EXPECT_LE(0xffffffff87654321ULL & mask, value);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(other), 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(other), 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PERF_GLOBAL_STATUS_RESET, OVF_BUFFER | 1 << cause | 1 << other));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, saved));
}

TEST_F(pebs, ds_area_has_a_canonical_address)
{
	unsigned int eax, ebx, ecx = 0, edx;
	__u64 saved, limit;

	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	limit = 1ULL << (ecx & CPUID_7_ECX_LA57 ? 56 : 47);
	ASSERT_EQ(0, msr_read(0, MSR_IA32_DS_AREA, &saved));
	EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_DS_AREA, limit));
	EXPECT_EQ(-EIO, msr_write(0, MSR_IA32_DS_AREA, -limit - 1));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, limit - 1));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, -limit));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, 0xffffc90000000000ULL));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_DS_AREA, saved));
}

/* Intel SDM, volume 4, table 2-2: what IA32_MISC_ENABLE reports of the PMU is read-only. */
TEST_F(pebs, misc_enable_keeps_reporting_pebs)
{
	const __u64 available = 1 << 7, no_bts = 1 << 11, no_pebs = 1 << 12;
	__u64 saved, value;

	ASSERT_EQ(0, msr_read(0, MSR_IA32_MISC_ENABLE, &saved));
	EXPECT_EQ(available | no_bts, saved & (available | no_bts | no_pebs));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_MISC_ENABLE, saved ^ (available | no_bts | no_pebs)));
	ASSERT_EQ(0, msr_read(0, MSR_IA32_MISC_ENABLE, &value));
	EXPECT_EQ(saved, value);
	EXPECT_EQ(0, msr_write(0, MSR_IA32_MISC_ENABLE, saved));
}

/*
 * With a period of 1, one or two cycles pass with each instruction. The cycles that pass after an
 * overflow must not make the counter wrap when it is loaded, because then it would not overflow
 * again.
 */
TEST_F(pebs, counter_of_cycles_overflows_at_each_instruction)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP,
		.precise_ip = 2,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
	};
	struct event_record record;
	struct event_ring ring;
	int fd, samples = 0;

	ASSERT_EQ(0, perf_lift_limits());
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_ring_map(&ring, fd, 6, false));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	loop(10000);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));
	while (event_ring_next(&ring, &record))
		samples += record.header.type == PERF_RECORD_SAMPLE;
	EXPECT_LT(100, samples);
	event_ring_unmap(&ring);
	close(fd);
}

/*
 * Lists the branches of run_branches(), in reverse order: each branch is preceded by the next
 * branch in the list, and the last by the first.
 */
static void list_branches(const struct branch_addresses *s, __u64 branches[ROUND_BRANCHES][2])
{
	const __u64 list[ROUND_BRANCHES][2] = {
		{ s->jump, s->call }, { s->ret, s->next }, { s->call, s->target },
	};

	memcpy(branches, list, sizeof(list));
}

/* Returns the index of the last branch up to the instruction at @ip, or -1 if that is not in run_branches(). */
static int last_branch(const struct branch_addresses *s, __u64 ip)
{
	if (ip == s->jump)
		return 0;
	if (ip == s->ret || ip == s->next)
		return 1;
	return ip == s->call || ip == s->target ? 2 : -1;
}

/*
 * With formats from 4 on, the groups of a record can have the branches up to its instruction. perf selects them in
 * PEBS_DATA_CFG, and copies them to the sample.
 */
TEST_F(pebs, records_have_the_branches_up_to_their_instruction)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		/* Samples of all instructions of a round. */
		.sample_period = 200 * ROUND_INSNS + 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_BRANCH_STACK,
		.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
		.precise_ip = 2,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
	};
	unsigned long in_loop = 0, right = 0, by_branch[ROUND_BRANCHES] = {};
	__u64 branches[ROUND_BRANCHES][2];
	struct branch_addresses s;
	struct event_record record;
	struct event_ring ring;
	int fd;

	if (self->format == 3)
		return;
	ASSERT_EQ(0, perf_lift_limits());
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, event_ring_map(&ring, fd, 8, false));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	run_branches(&s, 100000);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));
	list_branches(&s, branches);
	while (event_ring_next(&ring, &record)) {
		/* The address, the number of branches, and three words for each. */
		const __u64 *words = record.words;
		int last = record.header.type == PERF_RECORD_SAMPLE ? last_branch(&s, words[0]) : -1;
		__u64 i;

		if (last < 0)
			continue;
		in_loop++;
		for (i = 0; i < words[1]; i++) {
			const __u64 *expected = branches[(last + i) % ROUND_BRANCHES];

			if (words[2 + 3 * i] != expected[0] || words[3 + 3 * i] != expected[1])
				break;
		}
		if (i == words[1] && i >= 2 * ROUND_BRANCHES) {
			right++;
			by_branch[last]++;
		}
	}
	/* The return from an interrupt is a branch, too. */
	EXPECT_LT(400UL, in_loop);
	EXPECT_LT(in_loop * 9 / 10, right) {
		TH_LOG("%lu of %lu samples have the predicted branches", right, in_loop);
	}
	EXPECT_LT(0UL, by_branch[0]);
	EXPECT_LT(0UL, by_branch[1]);
	EXPECT_LT(0UL, by_branch[2]);
	event_ring_unmap(&ring);
	close(fd);
}

TEST_HARNESS_MAIN
