/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps that many fixtures of a trace begin with, in addition to the steps of fixture.h.
 */
#ifndef SELFTESTS_TRACE_FIXTURE_H
#define SELFTESTS_TRACE_FIXTURE_H

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "trace.h"

/*
 * Allocates a trace with buffers of @pages, and pins the thread to the first CPU.
 * Returns the number of that CPU.
 */
static inline int trace_on_first_cpu(struct __test_metadata *_metadata,
				     struct trace *t, int fd, __u32 pages)
{
	int cpu = pin_to_first_cpu();

	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, trace_alloc(t, fd, pages));
	return cpu;
}

/* Makes the first @n model-specific events count instructions. */
static inline void define_instructions(struct __test_metadata *_metadata,
				       int fd, int n)
{
	int i;

	for (i = 0; i < n; i++)
		ASSERT_EQ(0, trace_define(fd, i, EVENT_INSTRUCTIONS));
}

#endif
