// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>

#include "cpu.h"

int cpus_online(cpu_set_t *cpus)
{
	return sched_getaffinity(0, sizeof(*cpus), cpus) ? -errno : 0;
}

int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

int cpu_next(const cpu_set_t *set, int cpu)
{
	while (++cpu < CPU_SETSIZE) {
		if (CPU_ISSET(cpu, set))
			return cpu;
	}
	return -1;
}
