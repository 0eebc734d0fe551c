/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The event rates of the virtual PMU. Each event has its own constant rate, so that a
 * counter with a wrong event is noticed.
 */
#ifndef SELFTESTS_CPI_H
#define SELFTESTS_CPI_H

#include "trace.h"

/* Eighths of an event per instruction, see Documentation/virtual-pmu.rst */
#define CPI_CYCLES	10
#define CPI_REF_CYCLES	9
#define CPI_BUS_CYCLES	1
#define CPI_ONE		8

/**
 * cpi_of() - eighths of an event that a trace's event counts per instruction
 * @event: instructions, or one of the clocks
 */
static inline __u64 cpi_of(__u32 event)
{
	switch (event) {
	case ARCH_EVENT(UNHALTED_CORE_CYCLES):
	case FIXED_EVENT(UNHALTED_CORE_CYCLES):
		return CPI_CYCLES;
	case FIXED_EVENT(UNHALTED_REFERENCE_CYCLES):
		return CPI_REF_CYCLES;
	case ARCH_EVENT(UNHALTED_REFERENCE_CYCLES):
		return CPI_BUS_CYCLES;
	default:
		return CPI_ONE;
	}
}

/* Returns the count after @insns instructions since the counter was started. */
static inline __u64 cpi_count(__u32 event, __u64 insns)
{
	return insns * cpi_of(event) / CPI_ONE;
}

/* Returns the smallest number of instructions after which the count is at least @count. */
static inline __u64 cpi_insns(__u32 event, __u64 count)
{
	return (count * CPI_ONE + cpi_of(event) - 1) / cpi_of(event);
}

#endif
