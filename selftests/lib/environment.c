// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "environment.h"


__u64 environment(const char *name, __u64 otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}
