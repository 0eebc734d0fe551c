/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The PMU that CPUID describes, in one form for all vendors.
 */
#ifndef SELFTESTS_VPMU_PMU_H
#define SELFTESTS_VPMU_PMU_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdlib.h>

#include "msr.h"

#define MSR_SMI_COUNT			0x34
#define MSR_IA32_MISC_ENABLE		0x1a0
#define MSR_IA32_PERF_CAPABILITIES	0x345
#define PERF_CAP_SMM_FREEZE		(1ULL << 12)
#define PERF_CAP_FULL_WRITE		(1ULL << 13)
#define PERF_CAP_METRICS		(1ULL << 15)
/* The format of PEBS records */
#define PERF_CAPABILITIES_PEBS(value)	((value) >> 8 & 0xf)
#define MSR_IA32_PERF_GLOBAL_STATUS_RESET	0x390
#define MSR_IA32_PERF_GLOBAL_STATUS_SET	0x391
#define MSR_IA32_PERF_GLOBAL_INUSE	0x392
#define MSR_PEBS_ENABLE			0x3f1
#define MSR_PEBS_LD_LAT			0x3f6
#define MSR_IA32_A_PMC0			0x4c1
#define MSR_IA32_RTIT_CTL		0x570
/* Version 6 and later */
#define MSR_IA32_PMC_GP_CTR(n)		(0x1900 + 4 * (n))
#define MSR_IA32_PMC_GP_CFG_A(n)	(0x1901 + 4 * (n))
#define MSR_IA32_PMC_GP_CFG_B(n)	(0x1902 + 4 * (n))
#define MSR_IA32_PMC_GP_CFG_C(n)	(0x1903 + 4 * (n))
#define MSR_IA32_PMC_FX_CTR(n)		(0x1980 + 4 * (n))
#define MSR_IA32_PMC_FX_CFG_B(n)	(0x1982 + 4 * (n))
#define MSR_IA32_PMC_FX_CFG_C(n)	(0x1983 + 4 * (n))
#define MSR_AMD_PERF_GLOBAL_STATUS_CLR	0xc0000302
#define STATUS_CTR_FRZ			(1ULL << 59)
/* IA32_PERF_GLOBAL_CTRL: enables top-down metrics */
#define EN_PERF_METRICS			(1ULL << 48)
/* IA32_RTIT_CTL: Intel PT traces */
#define TRACE_EN			(1ULL << 0)

/* Bits of an event select, version 6 and later */
#define SELECT_EQ			(1ULL << 36)
#define SELECT_UMASK2			(0xffULL << 40)

/* CPUID.01H:EDX: the DS area, which PEBS needs */
#define CPUID_1_EDX_DS			(1U << 21)

/* Bits of DEBUGCTL */
#define FREEZE_WHILE_SMM		(1ULL << 14)
/* The chipset's port that raises an SMI when it is written */
#define APM_CONTROL			0xb2

/* All bits */
#define ALL				(~0ULL)

struct pmu {
	bool is_intel;		/* else AMD */
	unsigned int version;	/* AMD's is 2 with PerfMonV2, else 1 */
	unsigned int counters;	/* number of general counters */
	unsigned int fixed;	/* bit map of the fixed counters */
	unsigned int width;	/* bits of a counter */
	bool capabilities;	/* IA32_PERF_CAPABILITIES */
	bool full_width;	/* MSRs for writes of all bits exist */
	bool metrics;		/* top-down metrics can be enabled */
	bool pt;		/* IA32_RTIT_CTL exists; CPUID does not report it, so $PT does */
	unsigned int reload;	/* bit map of general counters that the overflow of another counter can reload */
	unsigned int reload_fixed;	/* bit map of fixed counters that can be reloaded */
	bool core_ext;		/* AMD: PerfCtrExtCore */
	bool clocks;		/* MPERF and APERF exist */
	bool thermal;		/* thermal status of the core and the package */
	unsigned int energy;	/* ENERGY_*: energy status */
	/* Extra registers, which the model has: OFFCORE_RSP_*, PEBS_LD_LAT, PEBS_FRONTEND */
	unsigned int offcore;
	bool load_latency, frontend;
	__u64 load_latency_event;	/* as in the event select; 0: none */
};

/* CPUID does not report the energy registers of Intel: $ENERGY is a bit map of these. */
#define ENERGY_PACKAGE	1
#define ENERGY_CORES	2
#define ENERGY_MEMORY	4

/* Returns the model number in CPUID.01H:EAX of a processor of Intel of family 6. */
static inline unsigned int pmu_model(unsigned int version)
{
	return (version >> 4 & 0xf) | (version >> 12 & 0xf0);
}

/* Returns whether this is a small core of a hybrid processor. */
static inline bool pmu_is_atom(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(0x1a, 0, &eax, &ebx, &ecx, &edx) && eax >> 24 == 0x20;
}

/* Intel SDM, volume 4, tables of the models that the tests run on */
static inline void pmu_describe_extra(struct pmu *p, unsigned int version)
{
	switch (pmu_model(version)) {
	case 0x1a: /* Nehalem */
		p->offcore = 1;
		p->load_latency = true;
		p->load_latency_event = 0x100b;
		break;
	case 0x5e: /* Skylake, and servers */
	case 0x55:
	case 0x6a: /* Ice Lake */
	case 0x8f: /* Sapphire Rapids */
		p->frontend = true;
		/* fallthrough */
	case 0x3c: /* Haswell */
		p->offcore = 2;
		p->load_latency = true;
		p->load_latency_event = 0x01cd;
		break;
	case 0x97: /* Alder Lake */
		p->offcore = 2;
		p->frontend = !pmu_is_atom();
		p->load_latency = true;
		p->load_latency_event = pmu_is_atom() ? 0x05d0 : 0x01cd;
		break;
	}
}

/* Intel SDM, volume 2A, "CPUID", leaves 01H, 0AH and 23H */
static inline bool pmu_describe_intel(struct pmu *p)
{
	unsigned int eax, ebx, ecx, edx;
	__u64 cap;

	if (!__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) || !(eax & 0xff))
		return false;
	p->is_intel = true;
	p->version = eax & 0xff;
	p->counters = (eax >> 8) & 0xff;
	p->width = (eax >> 16) & 0xff;
	p->fixed = (1U << (edx & 0x1f)) - 1;
	if (p->version >= 5)
		p->fixed |= ecx;
	if (__get_cpuid_count(0x23, 0, &eax, &ebx, &ecx, &edx) && (eax & 1 << 2)) {
		__get_cpuid_count(0x23, 2, &eax, &ebx, &ecx, &edx);
		p->reload = eax;
		p->reload_fixed = ebx;
	}
	__get_cpuid(1, &eax, &ebx, &ecx, &edx);
	pmu_describe_extra(p, eax);
	p->capabilities = ecx & (1U << 15);
	if (p->capabilities && !msr_read(0, MSR_IA32_PERF_CAPABILITIES, &cap)) {
		p->full_width = cap & PERF_CAP_FULL_WRITE;
		p->metrics = cap & PERF_CAP_METRICS;
	}
	p->pt = getenv("PT");
	return true;
}

/* AMD APM, volume 2, section 13.2.1; volume 3, appendix E.4 */
static inline bool pmu_describe_amd(struct pmu *p)
{
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) ||
	    ebx != signature_AMD_ebx)
		return false;
	p->version = 1;
	p->counters = 4;
	p->width = 48;
	__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx);
	if (ecx & (1U << 23)) {
		p->core_ext = true;
		p->counters = 6;
	}
	if (__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) && (eax & 1)) {
		p->version = 2;
		p->counters = ebx & 0xf;
	}
	return true;
}

/*
 * Intel SDM, volume 2A, "CPUID", leaf 06H; AMD APM, volume 3, appendix E.3.4 and
 * E.4.6
 */
static inline void pmu_describe_power(struct pmu *p)
{
	const char *energy = getenv("ENERGY");
	unsigned int eax, ebx, ecx, edx;

	if (__get_cpuid(6, &eax, &ebx, &ecx, &edx)) {
		p->clocks = ecx & 1;
		p->thermal = (eax & (1U << 0)) && (eax & (1U << 6));
	}
	if (p->is_intel)
		p->energy = energy ? atoi(energy) : 0;
	else if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) &&
		 (edx & (1U << 14)))
		p->energy = ENERGY_PACKAGE | ENERGY_CORES;
}

static inline bool pmu_describe(struct pmu *p)
{
	*p = (struct pmu){};
	if (!pmu_describe_intel(p) && !pmu_describe_amd(p))
		return false;
	pmu_describe_power(p);
	return true;
}

#endif
