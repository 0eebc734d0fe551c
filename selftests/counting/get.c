// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMIOGET returns what PMIOSETUP has set.
 */
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"

FIXTURE(get)
{
	int fd;
};

FIXTURE_VARIANT(get)
{
	__u32 setup;	/* pmc_val */
	__u32 got;
};

#define SAME(val) { .setup = (val), .got = (val) }

FIXTURE_VARIANT_ADD(get, zero) SAME(0);
FIXTURE_VARIANT_ADD(get, user) SAME(0x000100c0);
FIXTURE_VARIANT_ADD(get, kernel) SAME(0x000200c0);
FIXTURE_VARIANT_ADD(get, user_and_kernel) SAME(0x000300c0);
FIXTURE_VARIANT_ADD(get, edge) SAME(0x0005003c);
FIXTURE_VARIANT_ADD(get, unit) SAME(0x00014e2e);
FIXTURE_VARIANT_ADD(get, counter_mask) SAME(0x020100c0);
FIXTURE_VARIANT_ADD(get, inverted_counter_mask) SAME(0xff8100c0);
FIXTURE_VARIANT_ADD(get, every_bit_that_is_the_callers) SAME(0xff87ffff);

/* PMCF_INT and PMCF_EN belong to the driver: PMIOSETUP accepts and ignores them. */
FIXTURE_VARIANT_ADD(get, interrupt_dropped) {
	.setup = 0x001100c0, .got = 0x000100c0,
};
FIXTURE_VARIANT_ADD(get, enable_dropped) {
	.setup = 0x004100c0, .got = 0x000100c0,
};
FIXTURE_VARIANT_ADD(get, system_flags_dropped) {
	.setup = 0x005100c0, .got = 0x000100c0,
};

FIXTURE_SETUP(get)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
}

FIXTURE_TEARDOWN(get)
{
	close(self->fd);
}

TEST_F(get, get_returns_what_setup_set)
{
	struct pmc pmc = { .pmc_num = 1, .pmc_val = variant->setup };
	__u32 running = variant->got | (PMCF_EN << 16);

	ASSERT_EQ(0, device_ioctl(self->fd, PMIOSETUP, &pmc));

	/* SETUP does not write to its argument. */
	EXPECT_EQ(variant->setup, pmc.pmc_val);

	ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
	EXPECT_EQ(1, pmc.pmc_num);
	EXPECT_EQ(variant->got, pmc.pmc_val);

	/* PMCF_EN shows that the counter runs. */
	ASSERT_EQ(0, pmc_start(self->fd, 1));
	ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
	EXPECT_EQ(running, pmc.pmc_val);
	ASSERT_EQ(0, pmc_stop(self->fd, 1));
	ASSERT_EQ(0, pmc_get(self->fd, 1, &pmc));
	EXPECT_EQ(variant->got, pmc.pmc_val);
}

TEST_F(get, get_ignores_pmc_val_on_input)
{
	struct pmc pmc = { .pmc_num = 1, .pmc_val = variant->setup };

	ASSERT_EQ(0, device_ioctl(self->fd, PMIOSETUP, &pmc));
	pmc.pmc_val = 0xffffffff;
	EXPECT_EQ(0, device_ioctl(self->fd, PMIOGET, &pmc));
	EXPECT_EQ(variant->got, pmc.pmc_val);
}

TEST_HARNESS_MAIN
