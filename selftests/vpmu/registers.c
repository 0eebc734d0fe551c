// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registers of the virtual PMU: the registers that CPUID reports exist, and an access to any
 * other register of a PMU raises #GP.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "branch_records.h"
#include "harness.h"
#include "pmu.h"

/* The CPUs that have the registers of a block, and the number of registers */
enum register_presence {
	NEVER,
	INTEL_GENERAL,
	INTEL_FULL_WIDTH,
	INTEL_FIXED,
	INTEL_FIXED_CTRL,
	INTEL_V2,
	INTEL_V2_READ_ONLY,
	INTEL_V4,
	INTEL_V4_READ_ONLY,
	INTEL_V6_GENERAL,
	INTEL_V6_FIXED,
	INTEL_RELOAD,
	INTEL_RELOAD_FIXED,
	INTEL_CAPABILITIES,	/* read-only */
	INTEL_OFFCORE,
	INTEL_LATENCY_FRONTEND,
	INTEL_LBR,
	INTEL_LBR_STACK,
	INTEL_LBR_INFO,
	INTEL_ARCH_LBR,
	AMD_LBR,
	AMD_LEGACY,
	AMD_CORE_EXT,
	AMD_V2,
	CLOCKS,
	INTEL_THERMAL,
	INTEL_THERMAL_READ_ONLY,
	INTEL_ENERGY_READ_ONLY,		/* of the package, and the unit */
	INTEL_ENERGY_CORES_READ_ONLY,
	INTEL_ENERGY_MEMORY_READ_ONLY,
	AMD_ENERGY_READ_ONLY,
	ANY,
};

struct register_block {
	__u32 first;
	int max_count;		/* the most registers that the architecture allows */
	int stride;
	enum register_presence presence;
};

/* Intel SDM, volume 4, chapter 2; AMD APM, volume 2, appendix A */
static const struct register_block blocks[] = {
	{ 0x040, 8, 1, NEVER },			/* LBR of other models */
	{ 0x060, 8, 1, NEVER },
	{ 0x0c1, 10, 1, INTEL_GENERAL },
	{ 0x0e7, 2, 1, CLOCKS },		/* MPERF, APERF */
	{ 0x186, 10, 1, INTEL_GENERAL },
	{ 0x19c, 1, 1, INTEL_THERMAL },		/* status; writes are ignored */
	{ 0x1a2, 1, 1, INTEL_THERMAL_READ_ONLY },
	{ 0x1a6, 2, 1, INTEL_OFFCORE },		/* OFFCORE_RSP */
	{ 0x1b1, 1, 1, INTEL_THERMAL },
	{ 0x1c8, 2, 1, INTEL_LBR },		/* LBR_SELECT, LBR_TOS */
	{ 0x1d9, 1, 1, ANY },			/* DEBUGCTL */
	{ 0x309, 16, 1, INTEL_FIXED },
	{ 0x329, 1, 1, NEVER },			/* PERF_METRICS */
	{ 0x345, 1, 1, INTEL_CAPABILITIES },
	{ 0x38d, 1, 1, INTEL_FIXED_CTRL },
	{ 0x38e, 1, 1, INTEL_V2_READ_ONLY },	/* GLOBAL_STATUS */
	{ 0x38f, 1, 1, INTEL_V2 },		/* GLOBAL_CTRL */
	{ 0x390, 1, 1, INTEL_V2 },		/* GLOBAL_STATUS_RESET */
	{ 0x391, 1, 1, INTEL_V4 },		/* GLOBAL_STATUS_SET */
	{ 0x392, 1, 1, INTEL_V4_READ_ONLY },	/* GLOBAL_INUSE */
	{ 0x394, 3, 1, NEVER },			/* uncore */
	{ 0x3e0, 4, 1, NEVER },			/* OMR */
	{ 0x3f1, 2, 1, NEVER },			/* PEBS */
	{ 0x3f4, 2, 1, NEVER },			/* architectural PEBS */
	{ 0x3f6, 2, 1, INTEL_LATENCY_FRONTEND },	/* PEBS_LD_LAT, PEBS_FRONTEND */
	{ 0x4c1, 10, 1, INTEL_FULL_WIDTH },
	{ 0x600, 1, 1, NEVER },			/* DS_AREA */
	{ 0x606, 1, 1, INTEL_ENERGY_READ_ONLY },
	{ 0x610, 1, 1, NEVER },			/* limits of power */
	{ 0x611, 1, 1, INTEL_ENERGY_READ_ONLY },
	{ 0x618, 1, 1, NEVER },
	{ 0x619, 1, 1, INTEL_ENERGY_MEMORY_READ_ONLY },
	{ 0x638, 1, 1, NEVER },
	{ 0x639, 1, 1, INTEL_ENERGY_CORES_READ_ONLY },
	{ 0x640, 2, 1, NEVER },
	{ 0x64d, 1, 1, NEVER },
	{ 0x680, 32, 1, INTEL_LBR_STACK },
	{ 0x6c0, 32, 1, INTEL_LBR_STACK },
	{ 0x700, 64, 1, NEVER },		/* uncore */
	{ 0xdc0, 32, 1, INTEL_LBR_INFO },
	{ 0xe01, 2, 1, NEVER },			/* uncore */
	{ 0x1200, 32, 1, INTEL_ARCH_LBR },
	{ 0x1328, 2, 1, NEVER },		/* SNOOP_RSP: of small cores */
	{ 0x14ce, 2, 1, INTEL_ARCH_LBR },	/* LBR_CTL, LBR_DEPTH */
	{ 0x1500, 32, 1, INTEL_ARCH_LBR },
	{ 0x1600, 32, 1, INTEL_ARCH_LBR },
	{ 0x1900, 32, 4, INTEL_V6_GENERAL },	/* counters... */
	{ 0x1901, 32, 4, INTEL_V6_GENERAL },	/* ...and selects */
	{ 0x1902, 32, 4, INTEL_RELOAD },
	{ 0x1903, 32, 4, INTEL_RELOAD },
	{ 0x1980, 32, 4, INTEL_V6_FIXED },
	{ 0x1981, 32, 4, NEVER },
	{ 0x1982, 32, 4, INTEL_RELOAD_FIXED },
	{ 0x1983, 32, 4, INTEL_RELOAD_FIXED },
	{ 0xc00000e7, 2, 1, NEVER },		/* AMD MPERF, APERF */
	{ 0xc000010e, 2, 1, AMD_LBR },		/* LBR_SELECT, DBG_EXTN_CFG */
	{ 0xc0000300, 1, 1, AMD_V2 },		/* its writes are ignored */
	{ 0xc0000301, 3, 1, AMD_V2 },
	{ 0xc0010000, 8, 1, AMD_LEGACY },
	{ 0xc0010200, 16, 2, AMD_CORE_EXT },
	{ 0xc0010201, 16, 2, AMD_CORE_EXT },
	{ 0xc0010230, 12, 1, NEVER },		/* AMD L3, data fabric, LBR */
	{ 0xc0010240, 32, 1, NEVER },
	{ 0xc0010299, 3, 1, AMD_ENERGY_READ_ONLY },
	{ 0xc0010300, 32, 1, AMD_LBR },
	{ 0xc0011030, 16, 1, NEVER },		/* AMD IBS */
};

/* Returns a bit map of the registers of a block that exist. */
static __u64 present_registers(const struct pmu *p, enum register_presence presence)
{
	__u64 general = (1ULL << p->counters) - 1;

	switch (presence) {
	case INTEL_GENERAL:
		return p->is_intel ? general : 0;
	case INTEL_FULL_WIDTH:
		return p->full_width ? general : 0;
	case INTEL_FIXED:
		return p->fixed;
	case INTEL_FIXED_CTRL:
		return p->fixed ? ALL : 0;
	case INTEL_V2:
	case INTEL_V2_READ_ONLY:
		return p->is_intel && p->version >= 2 ? ALL : 0;
	case INTEL_V4:
	case INTEL_V4_READ_ONLY:
		return p->is_intel && p->version >= 4 ? ALL : 0;
	case INTEL_V6_GENERAL:
		return p->is_intel && p->version >= 6 ? general : 0;
	case INTEL_V6_FIXED:
		return p->is_intel && p->version >= 6 ? p->fixed : 0;
	case INTEL_RELOAD:
		return p->reload;
	case INTEL_RELOAD_FIXED:
		return p->reload_fixed;
	case INTEL_CAPABILITIES:
		return p->capabilities ? ALL : 0;
	case INTEL_OFFCORE:
		return (1ULL << p->offcore) - 1;
	case INTEL_LATENCY_FRONTEND:
		return (p->load_latency ? 1 : 0) | (p->frontend ? 2 : 0);
	case INTEL_LBR:
		return branch_records()->newest ? ALL : 0;
	case INTEL_LBR_STACK:
		return branch_records()->newest ? (1ULL << branch_records()->depth) - 1 : 0;
	case INTEL_LBR_INFO:
		return branch_records()->newest && branch_records()->info ? ALL : 0;
	case INTEL_ARCH_LBR:
		return branch_records()->types ? ALL : 0;
	case AMD_LBR:
		return branch_records()->spec ? ALL : 0;
	case AMD_LEGACY:
		return p->is_intel ? 0 : ALL;
	case AMD_CORE_EXT:
		return p->core_ext ? general : 0;
	case AMD_V2:
		return !p->is_intel && p->version >= 2 ? ALL : 0;
	case CLOCKS:
		return p->clocks ? ALL : 0;
	case INTEL_THERMAL:
	case INTEL_THERMAL_READ_ONLY:
		return p->thermal ? ALL : 0;
	case INTEL_ENERGY_READ_ONLY:
		return p->is_intel && p->energy & ENERGY_PACKAGE ? ALL : 0;
	case INTEL_ENERGY_CORES_READ_ONLY:
		return p->is_intel && p->energy & ENERGY_CORES ? ALL : 0;
	case INTEL_ENERGY_MEMORY_READ_ONLY:
		return p->is_intel && p->energy & ENERGY_MEMORY ? ALL : 0;
	case AMD_ENERGY_READ_ONLY:
		return !p->is_intel && p->energy ? ALL : 0;
	case ANY:
		return ALL;
	case NEVER:
		break;
	}
	return 0;
}

static bool is_writable(enum register_presence presence)
{
	switch (presence) {
	case INTEL_V2_READ_ONLY:
	case INTEL_V4_READ_ONLY:
	case INTEL_CAPABILITIES:
	case INTEL_THERMAL_READ_ONLY:
	case INTEL_ENERGY_READ_ONLY:
	case INTEL_ENERGY_CORES_READ_ONLY:
	case INTEL_ENERGY_MEMORY_READ_ONLY:
	case AMD_ENERGY_READ_ONLY:
		return false;
	default:
		return true;
	}
}

FIXTURE(registers)
{
	struct pmu p;
};

FIXTURE_SETUP(registers)
{
	ASSERT_TRUE(pmu_describe(&self->p));
}

FIXTURE_TEARDOWN(registers)
{
}

/*
 * CPUID describes the machine of $VPMU (version, general counters, bit map of fixed ones, width)
 * and of $ENERGY.
 */
TEST_F(registers, cpuid_shows_the_configured_pmu)
{
	const char *want = getenv("VPMU");
	unsigned int version, counters, fixed, width;
	int n;

	ASSERT_NE(NULL, want);
	n = sscanf(want, "%u,%u,%u,%u", &version, &counters, &fixed, &width);
	ASSERT_EQ(4, n);
	EXPECT_EQ(version, self->p.version);
	EXPECT_EQ(counters, self->p.counters);
	EXPECT_EQ(fixed, self->p.fixed);
	EXPECT_EQ(width, self->p.width);
	EXPECT_EQ(getenv("ENERGY") != NULL, self->p.clocks);
	EXPECT_EQ(getenv("ENERGY") != NULL && self->p.is_intel, self->p.thermal);
	want = getenv("ENERGY");
	EXPECT_EQ(want ? (unsigned int)atoi(want) : 0, self->p.energy);
}

TEST_F(registers, read_of_a_missing_register_faults)
{
	const struct register_block *b;
	__u64 value;
	__u32 msr;
	int i, want;

	for (b = blocks; b < blocks + ARRAY_SIZE(blocks); b++) {
		for (i = 0; i < b->max_count; i++) {
			msr = b->first + i * b->stride;
			want = present_registers(&self->p, b->presence) >> (i % 64) & 1 ?
			       0 : -EIO;
			EXPECT_EQ(want, msr_read(0, msr, &value)) {
				TH_LOG("MSR %#x", msr);
			}
		}
	}
}

TEST_F(registers, write_of_a_missing_register_faults)
{
	const struct register_block *b;
	__u64 value;
	__u32 msr;
	int i, want;

	for (b = blocks; b < blocks + ARRAY_SIZE(blocks); b++) {
		for (i = 0; i < b->max_count; i++) {
			msr = b->first + i * b->stride;
			value = 0;
			want = -EIO;
			if (present_registers(&self->p, b->presence) >> (i % 64) & 1 &&
			    is_writable(b->presence)) {
				ASSERT_EQ(0, msr_read(0, msr, &value));
				want = 0;
			}
			EXPECT_EQ(want, msr_write(0, msr, value)) {
				TH_LOG("MSR %#x", msr);
			}
		}
	}
}

TEST_HARNESS_MAIN
