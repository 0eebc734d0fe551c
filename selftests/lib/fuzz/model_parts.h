/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the model: checks of arguments and checks of results, which a table in
 * model.c refers to.
 */
#ifndef SELFTESTS_MODEL_PARTS_H
#define SELFTESTS_MODEL_PARTS_H

#include "model.h"

/* Bits of an event select. */
#define SELECT_EVENT	0xffffULL	/* with its unit mask */
#define SELECT_NUMBER	0xf000000ffULL	/* of the event, without its unit mask */
#define SELECT_UMASK2	0xff0000000000ULL /* Intel's second unit mask, from version 6 on */
#define SELECT_MODE	((__u64)(PMCF_USR | PMCF_OS) << 16)
#define SELECT_DRIVERS	((__u64)PMCF_SYS_FLAGS << 16)
#define SELECT_EN	((__u64)PMCF_EN << 16)
#define SELECT_REFUSED	((__u64)(PMCF_ANY | PMCF_PC) << 16)

static inline bool model_is_fixed(int num)
{
	return num >= PMC_FIXED(0);
}

/* Returns counter @num; NULL if there is no such counter. */
struct model_counter *model_counter(struct model *m, int num);

/* Returns the event select in the argument of PMIOSETUP or PMIOSETUP2. */
__u64 model_select_of(const struct call *c);

/* --- model_checks.c ------------------------------------------------------ */

/* Returns true if this check refuses the call. The name of the check is the reason. */
typedef bool check_fn(struct model *m, const struct call *c);

check_fn setup_reserved, pmc2_reserved, setup2_reserved, cpu_data_reserved;
check_fn definition_reserved, no_such_counter, no_such_buffer, no_model_event;
check_fn not_set_up, setup_value, cpu_values, alloc_value, definition_value;
check_fn setup_merges, definition_merges, belongs_to_trace;

/* --- model_config.c ------------------------------------------------------ */

check_fn config_value, too_few_counters;

/* Returns the number of events in a config. */
int model_events(const struct perfmon_config *c);

/*
 * Returns the counter of the config's event @i: the lowest free counter above the counters of
 * the previous events. The search begins at counter @next.
 */
struct model_counter *model_counter_for(struct model *m, int i, int *next);

/* --- model_answers.c ----------------------------------------------------- */

/* Checks the argument @a that a call has returned. Returns "", or the mistake. */
typedef const char *answer_check_fn(struct model *m, const struct call *c,
				    const union argument *a);

answer_check_fn check_value, check_values, check_select_32, check_select_64;
answer_check_fn check_timestamp, check_properties, check_info, check_allocation;
answer_check_fn check_staged_config;

#endif
