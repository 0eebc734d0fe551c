// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading of the module.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "module.h"

FIXTURE(module)
{
};

FIXTURE_SETUP(module)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_loaded() ? 0 : module_load());
}

FIXTURE_TEARDOWN(module)
{
	ensure_module(_metadata);
}

TEST_F(module, second_load_is_refused)
{
	int fd;

	EXPECT_EQ(-EEXIST, module_load());
	EXPECT_TRUE(module_loaded());
	fd = device_open(O_RDONLY);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_F(module, unload_is_refused_while_a_descriptor_is_open)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		fd = open_device(_metadata, modes[i]);
		EXPECT_EQ(-EWOULDBLOCK, module_unload());

		/* The descriptor works after the refused unload. */
		if (modes[i] != O_RDONLY) {
			EXPECT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS,
					       PMCF_USR));
			EXPECT_EQ(0, pmc_start(fd, 0));
			EXPECT_EQ(-EWOULDBLOCK, module_unload());
		}
		close(fd);
	}
	EXPECT_EQ(0, module_unload());
}

TEST_F_TIMEOUT(module, device_comes_and_goes_with_the_module, 300)
{
	int i, fd;

	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, module_unload());
		EXPECT_EQ(-ENOENT, device_open(O_RDONLY));
		EXPECT_EQ(-ENOENT, module_unload());
		ASSERT_EQ(0, module_load());
		fd = device_open(O_RDONLY);
		EXPECT_LE(0, fd);
		close(fd);
	}
}

TEST_HARNESS_MAIN
