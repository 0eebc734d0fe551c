// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's own policy for perf events, asked anew at each call: a descriptor
 * does not carry the rights of the process that opened it.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "kselftest_harness.h"
#include "loop.h"
#include "rights.h"
#include "tsc.h"

#define SET_UP	0
#define UNUSED	1

FIXTURE(policy)
{
	int fd;
	int paranoid;	/* as it was before the test */
	int err;	/* that is to be expected, negative */
	__s64 value;
};

FIXTURE_VARIANT(policy)
{
	int paranoid;
	bool capable;	/* of CAP_PERFMON, and of nothing else */
	int err;
};

FIXTURE_VARIANT_ADD(policy, paranoid_3) { .paranoid = 3, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_2) { .paranoid = 2, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_1) { .paranoid = 1, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_0) { .paranoid = 0 };
FIXTURE_VARIANT_ADD(policy, paranoid_off) { .paranoid = -1 };
FIXTURE_VARIANT_ADD(policy, capable) { .paranoid = 2, .capable = true };

FIXTURE_SETUP(policy)
{
	if (!pmu_expected())
		SKIP(return, "this CPU has no PMU");
	self->fd = device_open(O_RDWR);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pmc_setup(self->fd, SET_UP, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->fd, SET_UP, 1000));
	ASSERT_EQ(0, pmc_read(self->fd, SET_UP, &self->value));

	self->err = policy_errno(variant->err, variant->capable);
	self->paranoid = paranoid_read();
	ASSERT_EQ(0, paranoid_write(variant->paranoid));
	ASSERT_EQ(0, drop_rights(variant->capable));
}

FIXTURE_TEARDOWN(policy)
{
	if (seteuid(0) || paranoid_write(self->paranoid))
		TH_LOG("can't put %s back", PARANOID);
	close(self->fd);
}

TEST_F(policy, calls_that_count)
{
	int err = self->err;
	struct pmc pmc;
	__s64 value;

	EXPECT_EQ(err, pmc_start(self->fd, SET_UP));
	loop(1000);
	EXPECT_EQ(err, pmc_stop(self->fd, SET_UP));
	EXPECT_EQ(err, pmc_read(self->fd, SET_UP, &value));
	EXPECT_EQ(err, pmc_reset(self->fd, SET_UP));
	EXPECT_EQ(err, pmc_setup(self->fd, SET_UP, 0x3c, PMCF_USR));
	EXPECT_EQ(err, pmc_setup(self->fd, SET_UP, 0x3c, PMCF_OS));
	EXPECT_EQ(err, pmc_setup(self->fd, UNUSED, 0x3c, PMCF_USR | PMCF_OS));

	/* Allowed calls did what they do; refused ones changed nothing. */
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, pmc_get(self->fd, SET_UP, &pmc));
	EXPECT_EQ(err ? 0x000100c0U : 0x0002003cU, pmc.pmc_val);
	EXPECT_EQ(err ? self->value : 0,
		  pmc_value(self->fd, SET_UP));
	EXPECT_EQ(err ? -EBUSY : 0,
		  pmc_get(self->fd, UNUSED, &pmc));
}

TEST_F(policy, calls_that_only_ask)
{
	struct perfmon_properties p;
	struct pmc_tstamp t;
	struct pmc pmc;

	EXPECT_EQ(0, pmc_get(self->fd, SET_UP, &pmc));
	EXPECT_EQ(tsc_mhz() ? 0 : -ENOTTY,
		  device_ioctl(self->fd, PMIOTSTAMP, &t));
	EXPECT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_PROPERTIES, &p));
}

/* The number is checked before the policy, the policy before the state. */
TEST_F(policy, order_of_checks)
{
	EXPECT_EQ(-EFAULT, device_ioctl(self->fd, PMIOSTART, NULL));
	EXPECT_EQ(-EINVAL, pmc_start(self->fd, PMC_ALL));
	EXPECT_EQ(-EINVAL, pmc_setup(self->fd, NPMC, 0x3c, PMCF_USR));
	EXPECT_EQ(self->err ?: -EBUSY, pmc_start(self->fd, UNUSED));
}

TEST_HARNESS_MAIN
