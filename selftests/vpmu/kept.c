// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of the virtual PMU keep their values while the machine is saved and restored (run
 * --restore), and at INIT, which a CPU gets when it comes online.
 *
 * KEPT in the environment is the number of registers that the machine has.
 */
#include <errno.h>
#include <unistd.h>

#include "cpu.h"
#include "harness.h"
#include "options.h"
#include "pmu.h"

/* A time that is long enough for several restores */
#define SECONDS	3

/*
 * Registers, and values that start no counter. Writing the depth empties the branch records, so the
 * depth comes before the records. On AMD the filter leaves out all branches, so that the records do
 * not change while they are enabled.
 */
static const struct kept {
	__u32 msr;
	__u64 value;
	bool reset;	/* Linux writes the register when a CPU comes online */
} table[] = {
	{ MSR_IA32_PERFEVTSEL0, PERFEVTSEL_INT | 0xc0, false },
	{ MSR_IA32_PMC0, 0x12345678, false },
	{ MSR_IA32_FIXED_CTR(0), 0x123456789a, false },
	{ MSR_IA32_FIXED_CTR(6), 0x56789abcde, false },
	{ MSR_IA32_FIXED_CTR_CTRL, 8, false },
	{ MSR_IA32_DEBUGCTL, 1 << 11, true },
	{ MSR_LBR_SELECT, 0x1f0, false },
	{ 0x1c9, 5, false },				/* LBR_TOS */
	{ 0x683, 0x401234, true },		/* LBR_FROM, LBR_TO, LBR_INFO */
	{ 0x6c3, 0x405678, true },
	{ 0xdc3, 77, true },
	{ MSR_ARCH_LBR_CTL, 6, false },
	{ MSR_ARCH_LBR_DEPTH, 8, true },
	{ 0x1503, 0x401234, true },
	{ 0x1603, 0x405678, true },
	{ 0x1203, 77, true },
	{ 0x600, 0xffffc90012345000, false },		/* DS_AREA */
	{ 0x3f1, 3, false },				/* PEBS_ENABLE */
	{ 0x3f2, 6, false },				/* PEBS_DATA_CFG: format 4 */
	{ 0x3f6, 1234, false },			/* PEBS_LD_LAT */
	{ 0x1a6, 0x10001, false },			/* OFFCORE_RSP_0, OFFCORE_RSP_1 */
	{ 0x1a7, 0x10002, false },
	{ 0x3f7, 0x12, false },				/* PEBS_FRONTEND */
	{ MSR_IA32_PMC_GP_CFG_B(2), 1, false },
	{ MSR_IA32_PMC_GP_CFG_C(2), 0xfffff123, false },
	{ MSR_IA32_PMC_FX_CFG_B(0), 2, false },
	{ MSR_IA32_PMC_FX_CFG_C(0), 0xfffff456, false },
	{ MSR_AMD_PERF_CTL0, PERFEVTSEL_INT | 0xc0, false },
	{ MSR_AMD_PERF_CTR0, 0x123456789a, false },
	{ MSR_AMD_LBR_SELECT, 0x3, true },
	{ MSR_AMD_DBG_EXTN_CFG, 0x58, false },
	{ 0xc0010306, 0x401234, true },		/* LBR_FROM, LBR_TO */
	{ 0xc0010307, 0x405678, true },
};

FIXTURE(kept)
{
	bool present[ARRAY_SIZE(table)];
	__u64 before[ARRAY_SIZE(table)];
	int home, cpu, online;	/* the CPU with the registers; online: -1 if there is no other CPU */
};

FIXTURE_SETUP(kept)
{
	unsigned int i, count = 0;
	int err;

	self->online = -1;
	err = cpu_find_hotpluggable(&self->home, &self->cpu, &self->online);
	if (err == -ENODEV)
		self->cpu = cpu_first();
	else
		ASSERT_EQ(0, err);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		self->present[i] = !msr_read(self->cpu, table[i].msr, &self->before[i]);
		if (!self->present[i])
			continue;
		count++;
		ASSERT_EQ(0, msr_write(self->cpu, table[i].msr, table[i].value)) {
			TH_LOG("MSR %#x", table[i].msr);
		}
	}
	EXPECT_EQ(env_number("KEPT", 0), count);
}

FIXTURE_TEARDOWN(kept)
{
	unsigned int i;

	for (i = ARRAY_SIZE(table); i--; ) {
		if (self->present[i])
			msr_write(self->cpu, table[i].msr, self->before[i]);
	}
	close(self->online);
}

static void expect_kept(struct __test_metadata *_metadata, FIXTURE_DATA(kept) *self, bool was_offline)
{
	unsigned int i;
	__u64 value;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (!self->present[i] || (was_offline && table[i].reset))
			continue;
		ASSERT_EQ(0, msr_read(self->cpu, table[i].msr, &value));
		EXPECT_EQ(table[i].value, value) {
			TH_LOG("MSR %#x", table[i].msr);
		}
	}
}

TEST_F(kept, registers_keep_their_values)
{
	sleep(SECONDS);
	expect_kept(_metadata, self, false);
	if (self->online < 0)
		return;
	ASSERT_EQ(0, cpu_set_online(self->online, "0"));
	ASSERT_EQ(0, cpu_set_online(self->online, "1"));
	expect_kept(_metadata, self, true);
}

TEST_HARNESS_MAIN
