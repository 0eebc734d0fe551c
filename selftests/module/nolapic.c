// SPDX-License-Identifier: GPL-2.0-only
/*
 * A machine that does not use its local APIC (nolapic) can't deliver the counters'
 * interrupt: the module does not load, and says why.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "kmsg.h"
#include "module.h"

TEST(module_refuses_to_load)
{
	int kmsg = kmsg_open_end();
	struct kmsg_lines lines;

	ASSERT_LE(0, kmsg);
	ASSERT_EQ(-ENODEV, module_load());
	ASSERT_EQ(0, kmsg_read_module(kmsg, &lines));
	ASSERT_EQ(1, lines.count);
	EXPECT_NE(NULL, strstr(lines.line[0], "local APIC")) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
	close(kmsg);
}

TEST_HARNESS_MAIN
