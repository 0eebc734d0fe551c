// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads the module with a failure of its first allocation or copy, then of its second, and so on.
 * The module is not loaded, leaves nothing behind, and loads when no allocation fails.
 *
 * The kernel and the module make about four hundred allocations, and KUnit makes more than twice
 * as many, unless it is switched off (kunit.autorun=0). FAULT_STEP=n makes every
 * n-th allocation fail; 1 means all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "fault.h"
#include "fixture.h"
#include "leak_check.h"
#include "module.h"

#define STEP		29
#define MAX_FAULTS	100000

FIXTURE(load)
{
	char *image;
	size_t size;
};

FIXTURE_SETUP(load)
{
	ASSERT_EQ(0, fault_enable());
	self->image = module_read(&self->size);
	ASSERT_NE(NULL, self->image);
	ASSERT_EQ(0, module_loaded() ? module_unload() : 0);
}

FIXTURE_TEARDOWN(load)
{
	free(self->image);
	ensure_module(_metadata);
}

TEST_F_TIMEOUT(load, failed_load_leaves_nothing_and_works_when_repeated, 3600)
{
	int n, err, step, injected = 1, failed = 0;

	step = getenv("FAULT_STEP") ? atoi(getenv("FAULT_STEP")) : STEP;
	ASSERT_LT(0, step);
	for (n = 1; injected && n < MAX_FAULTS; n += step) {
		ASSERT_EQ(0, fault_arm(n));
		/*
		 * Loads the module from memory, since reading a file would also allocate, and print
		 * warnings.
		 */
		err = module_load_image(self->image, self->size);
		injected = fault_disarm();
		ASSERT_LE(0, injected);
		if (!err) {
			ASSERT_EQ(0, module_unload());
			continue;
		}
		failed++;
		EXPECT_TRUE(injected);
		EXPECT_TRUE(err == -ENOMEM || err == -EFAULT) {
			TH_LOG("fault %d: %s", n, strerror(-err));
		}
		EXPECT_FALSE(module_loaded());
		EXPECT_EQ(-ENOENT, device_open(O_RDONLY));
	}
	TH_LOG("%d faults, %d of which kept it from loading", n / step, failed);
	EXPECT_LT(0, failed);

	ASSERT_EQ(0, module_load());
	EXPECT_STREQ("", leak_check_counts());
}

TEST_HARNESS_MAIN
