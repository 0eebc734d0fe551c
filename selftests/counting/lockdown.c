// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel_lockdown(7) at its level "confidentiality" forbids counting, also through a descriptor
 * that was opened before. Lockdown can't be undone, so the test needs a virtual machine of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "rights.h"
#include "tsc.h"

TEST(counting_is_forbidden)
{
	struct perfmon_properties p;
	struct pmc_tstamp t;
	struct pmc pmc;
	__s64 value;
	int fd;

	SKIP_WITHOUT_PMU();
	SKIP_WITHOUT_LOCKDOWN();

	fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(fd, 0, 1000));
	ASSERT_LE(LOOP_INSNS * 1000, pmc_value(fd, 0));

	ASSERT_EQ(0, lockdown("confidentiality"));
	EXPECT_EQ(-EPERM, pmc_start(fd, 0));
	EXPECT_EQ(-EPERM, pmc_stop(fd, 0));
	EXPECT_EQ(-EPERM, pmc_reset(fd, 0));
	EXPECT_EQ(-EPERM, pmc_read(fd, 0, &value));
	EXPECT_EQ(-EPERM, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_OS));
	EXPECT_EQ(-EPERM, pmc_setup(fd, 1, EVENT_INSTRUCTIONS, PMCF_USR));

	/* Query calls are allowed, and show that nothing has changed. */
	EXPECT_EQ(0, pmc_get(fd, 0, &pmc));
	EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	EXPECT_EQ(-EBUSY, pmc_get(fd, 1, &pmc));
	EXPECT_EQ(0, device_properties(fd, &p));
	EXPECT_TRUE(tsc_allows(tsc_mhz(), device_ioctl(fd, PMIOTSTAMP, &t)));

	/* The policy is checked after the number and before the state. */
	EXPECT_EQ(-EINVAL, pmc_start(fd, PMC_ALL));
	EXPECT_EQ(-EPERM, pmc_start(fd, 1));

	/* Closing is always allowed. */
	EXPECT_EQ(0, close(fd));
	fd = device_open(O_RDWR);
	EXPECT_LE(0, fd);
	EXPECT_EQ(-EBUSY, pmc_get(fd, 0, &pmc));
}

TEST_HARNESS_MAIN
