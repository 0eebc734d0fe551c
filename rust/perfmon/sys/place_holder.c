// SPDX-License-Identifier: GPL-2.0-only
/*
 * Place-holders: events of Linux's perf that count nothing, and keep perf's other
 * events off a CPU.
 *
 * perf schedules the pinned events of a CPU before all others. While an
 * exclusive event has the CPU, no other event of the same PMU gets it. So the
 * counters that a place-holder does not take are free for the module. perf
 * still turns all counters off for moments, by the global control register,
 * when other events come and go: in the kernel, with interrupts off, and never
 * while a program runs.
 *
 * A pinned event of the CPU that was opened before the place-holder has precedence
 * as soon as it is enabled. Then perf puts the place-holder into the error state,
 * where it stays.
 */
#include <linux/err.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/workqueue.h>

#include "perfmon_shim.h"

static DEFINE_PER_CPU(struct perf_event *, place_holder);

static bool is_active(const struct perf_event *event, int counter)
{
	return READ_ONCE(event->state) == PERF_EVENT_STATE_ACTIVE &&
	       READ_ONCE(event->hw.idx) == counter;
}

static int make_place_holder(unsigned int cpu, int counter, bool constrain)
{
	/*
	 * The event is branches, which no fixed-function counter counts: perf would
	 * take a fixed-function counter rather than a general one, but the module
	 * needs the fixed-function counters.
	 */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.disabled = 1,
		.pinned = 1,
		.exclusive = 1,
		.exclude_user = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		return PTR_ERR(event);
	/* perf first tries the counter that an event had the last time. */
	event->hw.idx = counter;
	if (constrain)
		event->hw.dyn_constraint = BIT_ULL(counter);
	perf_event_enable(event);
	if (!is_active(event, counter)) {
		bool misplaced = event->state == PERF_EVENT_STATE_ACTIVE;

		perf_event_release_kernel(event);
		return misplaced ? -ENXIO : -EBUSY;
	}
	per_cpu(place_holder, cpu) = event;
	return 0;
}

int perfmon_place_holder_make(unsigned int cpu, unsigned int counter, bool constrain)
{
	struct perf_event *event = per_cpu(place_holder, cpu);

	if (event && is_active(event, counter))
		return 0;
	perfmon_place_holder_end(cpu);
	return make_place_holder(cpu, counter, constrain);
}

void perfmon_place_holder_end(unsigned int cpu)
{
	struct perf_event *event = per_cpu(place_holder, cpu);

	per_cpu(place_holder, cpu) = NULL;
	if (event)
		perf_event_release_kernel(event);
}

bool perfmon_place_holder_is_active(unsigned int counter)
{
	struct perf_event *event = raw_cpu_read(place_holder);

	return event && is_active(event, counter);
}

static void (*end_callback)(void);

static void run_end_callback(struct work_struct *work)
{
	end_callback();
}

static DECLARE_WORK(end_work, run_end_callback);

void perfmon_place_holder_end_soon(void (*f)(void))
{
	end_callback = f;
	queue_work(system_dfl_wq, &end_work);
}

void perfmon_place_holder_end_wait(void)
{
	flush_work(&end_work);
}
