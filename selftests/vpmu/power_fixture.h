/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fixture of tests of energy and clocks: an idle machine, and its first CPU.
 */
#ifndef SELFTESTS_VPMU_POWER_FIXTURE_H
#define SELFTESTS_VPMU_POWER_FIXTURE_H

#include "cpu.h"
#include "harness.h"
#include "idle.h"
#include "power.h"

FIXTURE(power)
{
	struct pmu p;
	struct energy_register registers[3];
	int n;
};

FIXTURE_SETUP(power)
{
	ASSERT_TRUE(pmu_describe(&self->p));
	self->n = list_energy_registers(&self->p, self->registers);
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(power)
{
}

#endif
