// SPDX-License-Identifier: GPL-2.0-only
/*
 * A machine without a PMU: the module refuses to load and says why. Runs in a
 * virtual machine whose CPU has none.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "kmsg.h"
#include "kselftest_harness.h"
#include "module.h"

TEST(load_is_refused_with_one_clear_line)
{
	struct kmsg_lines lines;
	int kmsg;

	if (pmu_expected())
		SKIP(return, "this CPU has a PMU");
	kmsg = kmsg_open_end();
	ASSERT_LE(0, kmsg);

	EXPECT_EQ(-ENODEV, module_load());
	EXPECT_FALSE(module_loaded());
	EXPECT_EQ(-ENOENT, device_open(O_RDONLY));

	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	EXPECT_EQ(1, lines.count);

	/* It says what was looked for, and where. */
	EXPECT_NE(NULL, strstr(lines.line[0], "CPUID")) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
	close(kmsg);
}

TEST_HARNESS_MAIN
