/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of /dev/perfmon: each call's answer and its effect. Written from the rules
 * of the interface, not from the module.
 */
#ifndef SELFTESTS_MODEL_H
#define SELFTESTS_MODEL_H

#include "calls.h"
#include "machine.h"
#include "places.h"
#include "random_call.h"

/* A counter. Its value is known when it is stopped, and else lies between. */
struct model_counter {
	bool set_up;
	bool running;
	bool of_trace;
	__u64 select;	/* without PMCF_INT and PMCF_EN */
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

/* The state before the first open and after the last close. */
void model_init(struct model *m, const struct machine *machine);

/**
 * model_call() - what a call answers
 * @writer: the descriptor is open for writing
 * @p: what can be done with the argument's memory
 *
 * Takes note of what is different after it.
 *
 * Return: 0 or a negative errno.
 */
int model_call(struct model *m, bool writer, const struct call *c,
	       const struct placed *p);

/**
 * model_check() - whether an answer is one that is possible
 * @c: the call, which succeeded
 * @answer: its argument afterwards
 *
 * Takes note of values that were not known before.
 *
 * Return: "", or what is wrong.
 */
const char *model_check(struct model *m, const struct call *c,
			const union argument *answer);

/*
 * @insns instructions were executed in user mode, and up to @more. Counters of
 * something else may have counted anything.
 */
void model_executed(struct model *m, __u64 insns, __u64 more);

/* Returns true if the trace's event @i counts instructions in user mode only. */
bool model_counts_instructions(const struct model *m, int i);

#endif
