// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kmsg.h"
#include "tsc.h"

static void find_rate(const char *text, void *data)
{
	static const char *const prefixes[] = {
		"tsc: Detected ",
		"tsc: Refined TSC clocksource calibration: ",
	};
	int *mhz = data;
	size_t i;

	/* If the log has both lines, the later line has the better measurement. */
	for (i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
			*mhz = atoi(text + strlen(prefixes[i]));
	}
}

int tsc_mhz(void)
{
	int mhz = 0, err, kmsg = kmsg_open_start();

	if (kmsg < 0)
		return kmsg;
	err = kmsg_for_each(kmsg, find_rate, &mhz);
	close(kmsg);
	return err ? err : mhz;
}

bool tsc_allows(int mhz, int err)
{
	return !err || (err == -ENOTTY && !mhz);
}
