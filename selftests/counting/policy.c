// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux's policy for perf events, which each call checks again: a descriptor does not have the
 * rights of the process that opened it.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "rights.h"
#include "tsc.h"

#define SET_UP	0
#define UNUSED	1

FIXTURE(policy)
{
	int fd;
	int paranoid;	/* perf_event_paranoid before the test */
	int err;	/* the expected negative errno */
	int mhz;	/* the TSC's frequency in the log, which root can read */
	__s64 value;
};

#include "paranoid_variants.h"

FIXTURE_SETUP(policy)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(self->fd, SET_UP, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->fd, SET_UP, 1000));
	ASSERT_EQ(0, pmc_read(self->fd, SET_UP, &self->value));

	self->err = policy_errno(variant->err, variant->capable);
	self->mhz = tsc_mhz();
	ASSERT_LE(0, self->mhz);
	self->paranoid = paranoid_read();
	ASSERT_EQ(0, paranoid_write(variant->paranoid));
	ASSERT_EQ(0, drop_rights(variant->capable));
}

FIXTURE_TEARDOWN(policy)
{
	restore_rights(_metadata, self->paranoid);
	close(self->fd);
}

TEST_F(policy, counting_calls_are_subject_to_the_policy)
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

	/* Allowed calls had their effect; refused calls had none. */
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, pmc_get(self->fd, SET_UP, &pmc));
	EXPECT_EQ(err ? 0x000100c0U : 0x0002003cU, pmc.pmc_val);
	EXPECT_EQ(err ? self->value : 0,
		  pmc_value(self->fd, SET_UP));
	EXPECT_EQ(err ? -EBUSY : 0,
		  pmc_get(self->fd, UNUSED, &pmc));
}

TEST_F(policy, query_calls_need_no_rights)
{
	struct perfmon_properties p;
	struct pmc_tstamp t;
	struct pmc pmc;

	EXPECT_EQ(0, pmc_get(self->fd, SET_UP, &pmc));
	EXPECT_TRUE(tsc_allows(self->mhz, device_ioctl(self->fd, PMIOTSTAMP, &t)));
	EXPECT_EQ(0, device_properties(self->fd, &p));
}

/* The number is checked before the policy, the policy before the state. */
TEST_F(policy, policy_is_checked_between_number_and_state)
{
	EXPECT_EQ(-EFAULT, device_ioctl(self->fd, PMIOSTART, NULL));
	EXPECT_EQ(-EINVAL, pmc_start(self->fd, PMC_ALL));
	EXPECT_EQ(-EINVAL, pmc_setup(self->fd, NPMC, 0x3c, PMCF_USR));
	EXPECT_EQ(self->err ?: -EBUSY, pmc_start(self->fd, UNUSED));
}

TEST_HARNESS_MAIN
