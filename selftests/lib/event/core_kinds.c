// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>

#include "core_kinds.h"
#include "cpu.h"
#include "device.h"
#include "file.h"
#include "loop.h"

/* Linux's names of the kinds */
static const char *const names[KINDS] = { "cpu_core", "cpu_atom" };

/* Returns the first number in a file of a PMU of Linux's, or a negative errno. */
static int pmu_number(const char *pmu, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/%s", pmu, name);
	return read_number(path);
}

int core_kinds_find(int cpu[KINDS], __u32 type[KINDS])
{
	int i;

	for (i = 0; i < KINDS; i++) {
		const int number = pmu_number(names[i], "type");

		cpu[i] = pmu_number(names[i], "cpus");
		if (cpu[i] < 0)
			return cpu[i];
		if (number < 0)
			return number;
		type[i] = number;
	}
	return 0;
}

/*
 * CPUID.0AH has the numbers of the CPU's counters. A place-holder takes the last general counter
 * that all kinds have, and the module then uses only the general counters below it.
 */
int core_kinds_counters(int fd, const int cpu[KINDS], int general[KINDS], int fixed[KINDS])
{
	struct perfmon_info info = {};
	int i, err, most = NPMC;

	for (i = 0; i < KINDS; i++) {
		unsigned int eax, ebx, ecx, edx;

		err = pin_to_cpu(cpu[i]);
		if (err)
			return err;
		if (!__get_cpuid(0x0a, &eax, &ebx, &ecx, &edx))
			return -ENODEV;
		general[i] = eax >> 8 & 0xff;
		fixed[i] = edx & 0x1f;
		if (general[i] < most)
			most = general[i];
	}
	err = device_ioctl(fd, PERFMON_GET_INFO, &info);
	if (err || !(info.features & PERFMON_FEATURE_PLACE_HOLDER))
		return err;
	for (i = 0; i < KINDS; i++)
		general[i] = most - 1;
	return 0;
}

void loop_on_each_kind(const int cpu[KINDS], unsigned long pieces, unsigned long n)
{
	while (pieces--) {
		int i;

		for (i = 0; i < KINDS; i++) {
			pin_to_cpu(cpu[i]);
			loop(n);
		}
	}
}
