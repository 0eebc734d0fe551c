// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout of the structures and the numbers of the commands. Both are the same for 64-bit and
 * 32-bit programs, so this file is built for both.
 *
 * A wrong value makes the build fail. The tests repeat the comparison at run time, with addresses
 * and values.
 */
#include <stddef.h>
#include <string.h>

#include <linux/perfmon.h>

#include "kselftest_harness.h"
#include "layout.h"

ASSERT_SIZE(struct pmc, 8);
ASSERT_MEMBER(struct pmc, pmc_num, 0, 4);
ASSERT_MEMBER(struct pmc, pmc_event, 4, 1);
ASSERT_MEMBER(struct pmc, pmc_unit, 5, 1);
ASSERT_MEMBER(struct pmc, pmc_flags, 6, 1);
ASSERT_MEMBER(struct pmc, pmc_mask, 7, 1);
ASSERT_MEMBER(struct pmc, pmc_val, 4, 4);

ASSERT_SIZE(struct pmc_data, 16);
ASSERT_MEMBER(struct pmc_data, pmcd_num, 0, 4);
ASSERT_MEMBER(struct pmc_data, reserved, 4, 4);
ASSERT_MEMBER(struct pmc_data, pmcd_value, 8, 8);

ASSERT_SIZE(struct pmc_tstamp, 16);
ASSERT_MEMBER(struct pmc_tstamp, pmct_rate, 0, 4);
ASSERT_MEMBER(struct pmc_tstamp, reserved, 4, 4);
ASSERT_MEMBER(struct pmc_tstamp, pmct_value, 8, 8);

ASSERT_SIZE(struct pmc_cpu_data, 528);
ASSERT_MEMBER(struct pmc_cpu_data, pmcc_num, 0, 4);
ASSERT_MEMBER(struct pmc_cpu_data, pmcc_first_cpu, 4, 4);
ASSERT_MEMBER(struct pmc_cpu_data, pmcc_count, 8, 4);
ASSERT_MEMBER(struct pmc_cpu_data, reserved, 12, 4);
ASSERT_MEMBER(struct pmc_cpu_data, pmcc_value, 16, 512);

ASSERT_SIZE(struct pmc2, 32);
ASSERT_MEMBER(struct pmc2, pmc2_num, 0, 4);
ASSERT_MEMBER(struct pmc2, pmc2_flags, 4, 4);
ASSERT_MEMBER(struct pmc2, pmc2_select, 8, 8);
ASSERT_MEMBER(struct pmc2, pmc2_extra, 16, 8);
ASSERT_MEMBER(struct pmc2, pmc2_type, 24, 4);
ASSERT_MEMBER(struct pmc2, reserved, 28, 4);

ASSERT_SIZE(struct perfmon_properties, 24);
ASSERT_SIZE(perfmon_ioctl_properties_t, 24);
ASSERT_MEMBER(struct perfmon_properties, api_version, 0, 2);
ASSERT_MEMBER(struct perfmon_properties, pm_version, 2, 2);
ASSERT_MEMBER(struct perfmon_properties, max_num_events, 4, 2);
ASSERT_MEMBER(struct perfmon_properties, max_num_fixed_events, 8, 2);
ASSERT_MEMBER(struct perfmon_properties, max_fixed_counter_width, 10, 2);
ASSERT_MEMBER(struct perfmon_properties, max_num_programmable_events, 12, 2);
ASSERT_MEMBER(struct perfmon_properties, max_programmable_counter_width, 14, 2);
ASSERT_MEMBER(struct perfmon_properties, max_num_misc_events, 16, 2);
ASSERT_MEMBER(struct perfmon_properties, max_misc_counter_width, 18, 2);
ASSERT_MEMBER(struct perfmon_properties, flags, 20, 4);

ASSERT_VALUE(PMIOSETUP, 0x40083501U);
ASSERT_VALUE(PMIOSTART, 0x40043502U);
ASSERT_VALUE(PMIOSTOP, 0x40043503U);
ASSERT_VALUE(PMIOREAD, 0xc0103504U);
ASSERT_VALUE(PMIORESET, 0x40043505U);
ASSERT_VALUE(PMIOTSTAMP, 0x80103506U);
ASSERT_VALUE(PMIOGET, 0xc0083507U);
ASSERT_VALUE(PMIOREADCPU, 0xc2103508U);
ASSERT_VALUE(PMIOSETUP2, 0x40203509U);
ASSERT_VALUE(PMIOGET2, 0xc020350aU);
ASSERT_VALUE(IOCTL_PERFMON_GET_PROPERTIES, 0x80183600U);

ASSERT_VALUE(PMCF_USR, 0x01);
ASSERT_VALUE(PMCF_OS, 0x02);
ASSERT_VALUE(PMCF_E, 0x04);
ASSERT_VALUE(PMCF_PC, 0x08);
ASSERT_VALUE(PMCF_INT, 0x10);
ASSERT_VALUE(PMCF_EN, 0x40);
ASSERT_VALUE(PMCF_INV, 0x80);
ASSERT_VALUE(PMCF_SYS_FLAGS, PMCF_INT | PMCF_EN);
ASSERT_VALUE(PMC_ALL, -1);
ASSERT_VALUE(PMC_FIXED(2), 0x40000002);
ASSERT_VALUE(PMC_CPU_MAX, 64);
ASSERT_VALUE(PERFMON_API_VERSION, 3);

/* Each command is a macro, since programs test for it with #ifdef. */
#if !defined(PMIOSETUP) || !defined(PMIOSTART) || !defined(PMIOSTOP) ||	\
	!defined(PMIOREAD) || !defined(PMIORESET) || !defined(PMIOTSTAMP) || \
	!defined(PMIOGET) || !defined(PMIOREADCPU) || !defined(PMIOSETUP2) || \
	!defined(PMIOGET2) || !defined(IOCTL_PERFMON_GET_PROPERTIES)
#error "a command is not a macro"
#endif

TEST(pmc_val_is_the_event_select)
{
	struct pmc pmc = { .pmc_num = 0 };

	/* PERFEVTSEL: event 7:0, unit mask 15:8, flags 23:16, mask 31:24 */
	pmc.pmc_event = 0x3c;
	pmc.pmc_unit = 0x01;
	pmc.pmc_flags = PMCF_USR | PMCF_INV;
	pmc.pmc_mask = 0x02;
	EXPECT_EQ(0x0281013cU, pmc.pmc_val);
}

TEST(members_do_not_overlap)
{
	struct perfmon_properties p;
	unsigned char *bytes = (unsigned char *)&p;
	size_t i;
	int zeros = 0;

	memset(&p, 0, sizeof(p));
	p.api_version = 0xffff;
	p.pm_version = 0xffff;
	p.max_num_events = 0xffff;
	p.max_num_fixed_events = 0xffff;
	p.max_fixed_counter_width = 0xffff;
	p.max_num_programmable_events = 0xffff;
	p.max_programmable_counter_width = 0xffff;
	p.max_num_misc_events = 0xffff;
	p.max_misc_counter_width = 0xffff;
	p.flags = 0xffffffff;
	for (i = 0; i < sizeof(p); i++)
		zeros += !bytes[i];

	/* The program has written all bytes but the two reserved ones. */
	EXPECT_EQ(2, zeros);
	EXPECT_EQ(0, p.reserved);
}

TEST_HARNESS_MAIN
