// SPDX-License-Identifier: GPL-2.0-only
/* The types of the PMUs that Linux's perf has for the CPUs. */
#include <linux/err.h>
#include <linux/perf_event.h>

#include "perfmon_shim.h"

int perfmon_perf_type(unsigned int cpu)
{
	/*
	 * perf gives an event of a CPU to that CPU's PMU. The event takes no
	 * counter, since it is not enabled.
	 */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	struct perf_event *event;
	int type;

	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		return PTR_ERR(event);
	type = event->pmu->type;
	perf_event_release_kernel(event);
	return type;
}
