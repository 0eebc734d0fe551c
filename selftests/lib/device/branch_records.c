// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>

#include "branch_records.h"
#include "msr.h"

/* Intel SDM, volume 4, table 2-39 */
#define MSR_LBR_TOS		0x1c9
#define MSR_LBR_FROM		0x680
#define MSR_LBR_TO		0x6c0
#define MSR_LBR_INFO		0xdc0
#define MSR_IA32_PERF_CAPABILITIES	0x345
#define PERF_CAP_LBR_FMT	0x3f
#define LBR_FMT_EIP_FLAGS	3
#define LBR_FMT_EIP_FLAGS2	4
#define LBR_FMT_INFO		5
/* Intel SDM, volume 4, table 2-2 */
#define MSR_ARCH_LBR_FROM	0x1500
#define MSR_ARCH_LBR_TO		0x1600
#define MSR_ARCH_LBR_INFO	0x1200
/* AMD APM, volume 2, "Last Branch Stack Registers" */
#define MSR_AMD_LBR_FROM	0xc0010300
#define MSR_AMD_LBR_TO		0xc0010301

static const struct branch_records no_records;

#define STACK(n)				\
	.depth = (n),				\
	.can_freeze = true,			\
	.select = MSR_LBR_SELECT,		\
	.enable = MSR_IA32_DEBUGCTL,		\
	.enable_bit = 1 << 0,			\
	.newest = MSR_LBR_TOS,			\
	.from = MSR_LBR_FROM,			\
	.to = MSR_LBR_TO,			\
	.step = 1

/* Skylake and later */
static const struct branch_records stack = { STACK(32), .call_stack = true, .info = MSR_LBR_INFO };

/* Nehalem to Ivy Bridge */
static const struct branch_records stack_of_16 = { STACK(16), .flag_bits = 1 };

/* Haswell and Broadwell */
static const struct branch_records stack_of_haswell = { STACK(16), .flag_bits = 3, .call_stack = true };

static const struct branch_records architectural = {
	.depth = 32,
	.call_stack = true,
	.types = true,
	.can_freeze = true,
	.select = MSR_ARCH_LBR_CTL,
	.select_enable = 1 << 0,
	.enable = MSR_ARCH_LBR_CTL,
	.enable_bit = 1 << 0,
	.size = MSR_ARCH_LBR_DEPTH,
	.from = MSR_ARCH_LBR_FROM,
	.to = MSR_ARCH_LBR_TO,
	.info = MSR_ARCH_LBR_INFO,
	.step = 1,
};

#define AMD					\
	.depth = 16,				\
	.spec = true,				\
	.select = MSR_AMD_LBR_SELECT,		\
	.enable = MSR_AMD_DBG_EXTN_CFG,		\
	.enable_bit = 1 << 6,			\
	.from = MSR_AMD_LBR_FROM,		\
	.to = MSR_AMD_LBR_TO,			\
	.step = 2,				\
	.flag_bits = 6

static const struct branch_records amd = { AMD, .can_freeze = true };
static const struct branch_records amd_unfrozen = { AMD };

/* Returns the branch records of the LBR format that IA32_PERF_CAPABILITIES reports. */
static const struct branch_records *find_lbr_stack(void)
{
	unsigned int eax, ebx, ecx, edx;
	__u64 capabilities;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1U << 15)) ||
	    msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities))
		return &no_records;
	switch (capabilities & PERF_CAP_LBR_FMT) {
	case LBR_FMT_EIP_FLAGS:
		return &stack_of_16;
	case LBR_FMT_EIP_FLAGS2:
		return &stack_of_haswell;
	case LBR_FMT_INFO:
		return &stack;
	default:
		return &no_records;
	}
}

const struct branch_records *branch_records(void)
{
	unsigned int eax, ebx, ecx, edx;

	/* CPUID.80000022H:EAX: bit 1, LbrExtV2; bit 2, freezing */
	if (__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) && (eax & (1U << 1)))
		return eax & (1U << 2) ? &amd : &amd_unfrozen;
	/* CPUID.7.0:EDX[19] */
	if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & (1U << 19)))
		return &architectural;
	return find_lbr_stack();
}

/*
 * Bit numbers of IA32_LBR_CTL, in the order of the corresponding bits of LBR_SELECT. A set bit of
 * IA32_LBR_CTL records a type of branches; a set bit of LBR_SELECT leaves the type out.
 */
static const unsigned char ctl_bits[] = { 1, 2, 16, 19, 20, 21, 18, 17, 22 };

__u64 branch_selection(unsigned int left_out)
{
	__u64 ctl = 0;
	unsigned int i;

	if (!branch_records()->select_enable)
		return left_out;
	for (i = 0; i < sizeof(ctl_bits); i++)
		ctl |= (left_out >> i & 1 ? 0ULL : 1ULL) << ctl_bits[i];
	return ctl;
}

int branch_records_clear(int cpu)
{
	const struct branch_records *b = branch_records();
	unsigned int i;
	int err = 0;

	if (b->size)
		return msr_write(cpu, b->size, b->depth);
	for (i = 0; i < b->depth && !err; i++) {
		err = msr_write(cpu, b->from + i * b->step, 0);
		if (!err)
			err = msr_write(cpu, b->to + i * b->step, 0);
	}
	return err;
}

int branch_records_read(int cpu, struct branch_record records[LBR_MAX_DEPTH])
{
	const struct branch_records *b = branch_records();
	__u64 newest = 0;
	unsigned int i;
	int err = 0;

	if (b->newest)
		err = msr_read(cpu, b->newest, &newest);
	for (i = 0; i < b->depth && !err; i++) {
		unsigned int n = b->newest ? (newest - i) % b->depth : i;
		struct branch_record *r = &records[i];

		r->info = 0;
		err = msr_read(cpu, b->from + n * b->step, &r->from);
		if (!err)
			err = msr_read(cpu, b->to + n * b->step, &r->to);
		if (!err && b->info)
			err = msr_read(cpu, b->info + n * b->step, &r->info);
		r->from = (__s64)(r->from << b->flag_bits) >> b->flag_bits;
		if (b->spec)
			r->to = (__s64)(r->to << b->flag_bits) >> b->flag_bits;
	}
	return err;
}
