/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Access to the registers of the PMU without the module: by /dev/cpu/N/msr, and by
 * /dev/mem for the local APIC in xAPIC mode.
 */
#ifndef SELFTESTS_MSR_H
#define SELFTESTS_MSR_H

#include <linux/types.h>

/* Intel SDM, volume 4, table 2-2 */
#define MSR_IA32_APICBASE		0x01b
#define MSR_IA32_PMC0			0x0c1
#define MSR_IA32_PERFEVTSEL0		0x186
#define MSR_LBR_SELECT			0x1c8
#define MSR_IA32_DEBUGCTL		0x1d9	/* AMD has it too */
#define MSR_IA32_FIXED_CTR(n)		(0x309 + (n))
#define MSR_IA32_FIXED_CTR_CTRL		0x38d
#define MSR_IA32_PERF_GLOBAL_STATUS	0x38e
#define MSR_IA32_PERF_GLOBAL_CTRL	0x38f
#define MSR_IA32_PERF_GLOBAL_STATUS_SET	0x391
#define MSR_IA32_X2APIC_APICID		0x802
#define MSR_IA32_X2APIC_ICR		0x830
#define MSR_IA32_X2APIC_LVT_PMI		0x834
#define MSR_ARCH_LBR_CTL		0x14ce
#define MSR_ARCH_LBR_DEPTH		0x14cf

/* AMD APM, volume 2, section 13.2 and appendix A */
#define MSR_AMD_LBR_SELECT		0xc000010e
#define MSR_AMD_DBG_EXTN_CFG		0xc000010f
#define MSR_AMD_PERF_CTL0_LEGACY	0xc0010000
#define MSR_AMD_PERF_CTR0_LEGACY	0xc0010004
#define MSR_AMD_PERF_CTL0		0xc0010200
#define MSR_AMD_PERF_CTR0		0xc0010201
#define MSR_AMD_PERF_GLOBAL_STATUS	0xc0000300
#define MSR_AMD_PERF_GLOBAL_CTL		0xc0000301

/* Bits of an event select, in the same place on Intel and AMD. */
#define PERFEVTSEL_INT			(1ULL << 20)
#define PERFEVTSEL_EN			(1ULL << 22)

/* Addresses of the PMU's registers on this CPU; 0 for registers that the CPU lacks. */
struct pmu_registers {
	__u32 select0;		/* event select of general counter 0 */
	__u32 counter0;		/* general counter 0 */
	__u32 step;		/* distance to the same register of the next counter */
	__u32 global_ctrl;
	__u32 global_status;
};

const struct pmu_registers *pmu_registers(void);

/* Returns the bits that event selects of this CPU have. */
__u64 pmu_select_bits(void);

/* Return 0, or a negative errno: -EIO if the CPU raised #GP. */
int msr_read(int cpu, __u32 msr, __u64 *value);
int msr_write(int cpu, __u32 msr, __u64 value);

/*
 * Marks a place in the log of register accesses (vm/run --trace) by a read of
 * IA32_PERF_GLOBAL_STATUS_SET, which no other code reads.
 */
void msr_mark(void);

#define LVTPC_MASKED		(1U << 16)
#define LVTPC_NMI		(4U << 8)

/**
 * lvtpc_read() - read the local APIC's entry for PMIs
 *
 * Leaves the calling thread pinned to @cpu, because in xAPIC mode each CPU sees only its own APIC.
 * lvtpc_write() pins the thread, too.
 *
 * Return: 0, or a negative errno.
 */
int lvtpc_read(int cpu, __u32 *value);
int lvtpc_write(int cpu, __u32 value);

/*
 * Pins the thread to CPU @cpu, and lets this CPU send itself an NMI that no handler claims. Returns
 * 0 or a negative errno.
 */
int nmi_send(int cpu);

#endif
