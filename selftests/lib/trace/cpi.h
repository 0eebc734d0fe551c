/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clocks of the virtual PMU. Each runs at a constant rate of its own, so that
 * an event that is counted in the place of another shows.
 */
#ifndef SELFTESTS_CPI_H
#define SELFTESTS_CPI_H

#include "trace.h"

/* Eighths of an event for each instruction, see Documentation/virtual-pmu.rst */
#define CPI_CYCLES	10
#define CPI_REF_CYCLES	9
#define CPI_BUS_CYCLES	1
#define CPI_ONE		8

/**
 * cpi_of() - what a trace's event counts for each instruction, in eighths
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

/* The count after so many instructions since the counter was started. */
static inline __u64 cpi_count(__u32 event, __u64 insns)
{
	return insns * cpi_of(event) / CPI_ONE;
}

/* The instructions after which the count is @count or, for the first time, more. */
static inline __u64 cpi_insns(__u32 event, __u64 count)
{
	return (count * CPI_ONE + cpi_of(event) - 1) / cpi_of(event);
}

#endif
