// SPDX-License-Identifier: GPL-2.0-only
/*
 * Machines on which the module can't work: a machine without a PMU, and a machine without a local
 * APIC (nolapic), which can't deliver PMIs. The module refuses to load, and logs the reason:
 * $REFUSED is a word of that line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "kmsg.h"
#include "module.h"

TEST(load_is_refused_with_one_clear_line)
{
	const char *why = getenv("REFUSED");
	int kmsg = kmsg_open_end();
	struct kmsg_lines lines;

	ASSERT_NE(NULL, why);
	ASSERT_LE(0, kmsg);

	EXPECT_EQ(-ENODEV, module_load());
	EXPECT_FALSE(module_loaded());
	EXPECT_EQ(-ENOENT, device_open(O_RDONLY));

	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	ASSERT_EQ(1, lines.count);
	EXPECT_NE(NULL, strstr(lines.line[0], why)) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
	close(kmsg);
}

TEST_HARNESS_MAIN
