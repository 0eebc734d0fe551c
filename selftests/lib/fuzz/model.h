/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of /dev/perfmon: the result and the effect of each call. The model was written from the
 * rules of the interface, not from the module.
 */
#ifndef SELFTESTS_MODEL_H
#define SELFTESTS_MODEL_H

#include "calls.h"
#include "machine.h"
#include "places.h"
#include "random_call.h"

/* A counter. Its value is between @low and @high, which are equal while the counter is stopped. */
struct model_counter {
	bool set_up;
	bool running;
	bool of_trace;
	__u64 select;	/* without PMCF_INT and PMCF_EN */
	__u32 type;	/* of the kind of core, 0 for all CPUs */
	__u64 low;
	__u64 high;
};

#define MODEL_MAX_FIXED	8

struct model {
	const struct machine *machine;
	struct model_counter general[NPMC];
	struct model_counter fixed[MODEL_MAX_FIXED];
	enum trace_state state;
	struct perfmon_alloc alloc;
	struct perfmon_config config;
	bool defined[PERFMON_MAX_EVENT + 1];
	__u64 select[PERFMON_MAX_EVENT + 1];
};

/*
 * Sets the model to the state before the first open of the device. The state after the last close
 * is the same.
 */
void model_init(struct model *m, const struct machine *machine);

/**
 * model_call() - predict a call's result, and apply its effect
 * @writer: the descriptor is open for writing
 * @p: the argument's address, and the access that its memory allows
 *
 * Return: 0 or a negative errno.
 */
int model_call(struct model *m, bool writer, const struct call *c,
	       const struct placed_argument *p);

/**
 * model_check() - check the result of a call that has succeeded
 * @c: the call
 * @answer: the argument after the call
 *
 * Narrows the known range of counters by values in the answer.
 *
 * Return: "", or a description of the wrong result.
 */
const char *model_check(struct model *m, const struct call *c,
			const union argument *answer);

/*
 * Notes that at least @insns and at most @insns + @more instructions were executed in user mode.
 * From now on, running counters of other events may have any value.
 */
void model_executed(struct model *m, __u64 insns, __u64 more);

/* Returns true if the trace's event @i counts instructions in user mode only. */
bool model_counts_instructions(const struct model *m, int i);

#endif
