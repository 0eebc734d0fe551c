/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The registers of the virtual PMU with pmu-power=on: energy, clocks and temperatures, which are
 * computed from the retired instructions.
 *
 * $ENERGY is a bit map of ENERGY_*, $UNIT the exponent of the unit of energy, $MEMORY_UNIT that of
 * memory if it differs.
 */
#ifndef SELFTESTS_VPMU_POWER_H
#define SELFTESTS_VPMU_POWER_H

#include "options.h"
#include "pmu.h"

#define MSR_MPERF		0xe7
#define MSR_APERF		0xe8
#define MSR_THERM_STATUS	0x19c
#define MSR_TEMPERATURE_TARGET	0x1a2
#define MSR_PACKAGE_THERM_STATUS	0x1b1
#define MSR_POWER_UNIT		0x606
#define MSR_PACKAGE_ENERGY	0x611
#define MSR_MEMORY_ENERGY	0x619
#define MSR_CORES_ENERGY	0x639
#define MSR_AMD_POWER_UNIT	0xc0010299
#define MSR_AMD_CORE_ENERGY	0xc001029a
#define MSR_AMD_PACKAGE_ENERGY	0xc001029b

/* The exponent of the unit of `per_insn`: 2^-22 Joules. */
#define INSN_UNIT	22

struct energy_register {
	const char *name;
	__u32 msr;
	unsigned int per_insn;
	unsigned int unit;
};

/* Stores the energy registers that the machine has, and returns their number. */
static inline int list_energy_registers(const struct pmu *p, struct energy_register registers[3])
{
	unsigned int unit = env_number("UNIT", 14);
	int n = 0;

	if (p->energy & ENERGY_PACKAGE)
		registers[n++] = (struct energy_register) {
			"package", p->is_intel ? MSR_PACKAGE_ENERGY :
					      MSR_AMD_PACKAGE_ENERGY,
			4, unit,
		};
	if (p->energy & ENERGY_CORES)
		registers[n++] = (struct energy_register) {
			"cores", p->is_intel ? MSR_CORES_ENERGY :
					    MSR_AMD_CORE_ENERGY,
			3, unit,
		};
	if (p->energy & ENERGY_MEMORY)
		registers[n++] = (struct energy_register) {
			"memory", MSR_MEMORY_ENERGY, 1,
			env_number("MEMORY_UNIT", unit),
		};
	return n;
}

/* Returns the number by which @insns instructions increase the register. */
static inline __u64 energy_of(const struct energy_register *e, __u64 insns)
{
	__u64 energy = insns * e->per_insn;

	return e->unit >= INSN_UNIT ? energy << (e->unit - INSN_UNIT) :
				      energy >> (INSN_UNIT - e->unit);
}

#endif
