// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "device.h"
#include "model_parts.h"

void model_init(struct model *m, const struct machine *machine)
{
	memset(m, 0, sizeof(*m));
	m->machine = machine;
}

/* --- Counters ------------------------------------------------------------ */

struct model_counter *model_counter(struct model *m, int num)
{
	const struct perfmon_properties *p = &m->machine->properties;

	if (model_is_fixed(num) && num < PMC_FIXED(p->max_num_fixed_events))
		return &m->fixed[num - PMC_FIXED(0)];
	if (num >= 0 && num < p->max_num_programmable_events)
		return &m->general[num];
	return NULL;
}

__u64 model_select_of(const struct call *c)
{
	return c->cmd == PMIOSETUP ? c->arg.pmc.pmc_val : c->arg.pmc2.pmc2_select;
}

/* Returns true if the select counts only instructions in user mode. */
static bool counts_instructions(__u64 select, bool first_fixed)
{
	return select == ((__u64)PMCF_USR << 16 |
			  (first_fixed ? 0 : EVENT_INSTRUCTIONS));
}

static void count_executed(struct model_counter *c, bool first_fixed, __u64 insns,
		     __u64 more)
{
	if (!c->running || !(c->select & SELECT_MODE))
		return;
	if (!counts_instructions(c->select, first_fixed)) {
		c->high = INT64_MAX;
		return;
	}
	c->low += insns;
	c->high += insns + more;
}

void model_executed(struct model *m, __u64 insns, __u64 more)
{
	int i;

	for (i = 0; i < NPMC; i++)
		count_executed(&m->general[i], false, insns, more);
	for (i = 0; i < MODEL_MAX_FIXED; i++)
		count_executed(&m->fixed[i], i == 0, insns, more);
}

/* --- What a call does ---------------------------------------------------- */

/* Updates the model for a call that succeeds, except for the trace's state. */
typedef void effect_fn(struct model *m, const struct call *c);

static void set_up_counter(struct model *m, const struct call *c)
{
	*model_counter(m, c->arg.num) = (struct model_counter) {
		.set_up = true,
		.select = model_select_of(c) & ~SELECT_DRIVERS,
		.type = c->cmd == PMIOSETUP2 ? c->arg.pmc2.pmc2_type : 0,
	};
}

static void start_counter(struct model *m, const struct call *c)
{
	model_counter(m, c->arg.num)->running = true;
}

static void stop_counter(struct model *m, const struct call *c)
{
	model_counter(m, c->arg.num)->running = false;
}

static void reset_counter(struct model *m, const struct call *c)
{
	model_counter(m, c->arg.num)->low = 0;
	model_counter(m, c->arg.num)->high = 0;
}

static void define_event(struct model *m, const struct call *c)
{
	const int n = PERFMON_EVENT_ID_EVENT(c->arg.definition.id);

	m->defined[n] = true;
	m->select[n] = c->arg.definition.select;
}

static void alloc_trace(struct model *m, const struct call *c)
{
	m->alloc = c->arg.alloc;
}

static void stage_config(struct model *m, const struct call *c)
{
	m->config = c->arg.config;
}

static void start_trace(struct model *m, const struct call *)
{
	int i, next = 0;

	for (i = 0; i < model_events(&m->config); i++)
		model_counter_for(m, i, &next)->of_trace = true;
}

static void stop_trace(struct model *m, const struct call *)
{
	int i;

	if (m->state != RUNNING)
		return;
	for (i = 0; i < NPMC; i++)
		m->general[i].of_trace = false;
	for (i = 0; i < MODEL_MAX_FIXED; i++)
		m->fixed[i].of_trace = false;
}

/* --- The commands -------------------------------------------------------- */

/*
 * The checks are made in the order of the columns: reserved bits and numbers (EINVAL), a counter
 * that is not set up (EBUSY), values (EINVAL), events that need two counters (EOPNOTSUPP), the
 * owner of the hardware (EBUSY). The table of calls adds two checks: write access (EPERM), checked
 * first, and the trace's state (EBADFD), checked before the values.
 */
static const struct command_rule {
	unsigned int cmd;
	check_fn *reserved;
	check_fn *number;
	check_fn *unused;
	check_fn *values;
	check_fn *unsupported;
	check_fn *owner;
	effect_fn *effect;
	answer_check_fn *answer;
} rules[] = {
	{ PMIOSETUP, setup_reserved, no_such_counter, NULL,
	  setup_value, setup_merges, belongs_to_trace, set_up_counter, NULL },
	{ PMIOSETUP2, setup2_reserved, no_such_counter, NULL,
	  setup_value, setup_merges, belongs_to_trace, set_up_counter, NULL },
	{ PMIOSTART, NULL, no_such_counter, not_set_up,
	  NULL, NULL, NULL, start_counter, NULL },
	{ PMIOSTOP, NULL, no_such_counter, not_set_up,
	  NULL, NULL, NULL, stop_counter, NULL },
	{ PMIORESET, NULL, no_such_counter, not_set_up,
	  NULL, NULL, NULL, reset_counter, NULL },
	{ PMIOREAD, NULL, no_such_counter, not_set_up,
	  NULL, NULL, NULL, NULL, check_value },
	{ PMIOREADCPU, cpu_data_reserved, no_such_counter, not_set_up,
	  cpu_values, NULL, NULL, NULL, check_values },
	{ PMIOGET, NULL, no_such_counter, not_set_up,
	  NULL, NULL, NULL, NULL, check_select_32 },
	{ PMIOGET2, pmc2_reserved, no_such_counter, not_set_up,
	  NULL, NULL, NULL, NULL, check_select_64 },
	{ PMIOTSTAMP, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, check_timestamp },
	{ IOCTL_PERFMON_GET_PROPERTIES, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, check_properties },
	{ PERFMON_GET_INFO, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, check_info },
	{ PERFMON_DEFINE_EVENT, definition_reserved, no_model_event, NULL,
	  definition_value, definition_merges, NULL, define_event, NULL },
	{ IOCTL_PERFMON_ALLOC_TRACE, NULL, NULL, NULL,
	  alloc_value, NULL, NULL, alloc_trace, NULL },
	{ IOCTL_PERFMON_FREE_TRACE, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, NULL },
	{ IOCTL_PERFMON_GET_ALLOC, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, check_allocation },
	{ IOCTL_PERFMON_STAGE_CONFIG, NULL, NULL, NULL,
	  config_value, NULL, NULL, stage_config, NULL },
	{ IOCTL_PERFMON_GET_CONFIG, NULL, NULL, NULL,
	  NULL, NULL, NULL, NULL, check_staged_config },
	{ IOCTL_PERFMON_GET_BUFFER_HANDLE, NULL, no_such_buffer, NULL,
	  NULL, NULL, NULL, NULL, NULL },
	{ IOCTL_PERFMON_START, NULL, NULL, NULL,
	  NULL, NULL, too_few_counters, start_trace, NULL },
	{ IOCTL_PERFMON_STOP, NULL, NULL, NULL,
	  NULL, NULL, NULL, stop_trace, NULL },
};

static const struct command_rule *rule_of(unsigned int cmd)
{
	const struct command_rule *rule = rules;

	while (rule->cmd != cmd)
		rule++;
	return rule;
}

/* Returns the command with the number @cmd; NULL if this machine has no such command. */
static const struct command *command_of(const struct model *m, unsigned int cmd)
{
	return cmd == PMIOTSTAMP && !m->machine->tsc_freq_known ? NULL :
							  command_find(cmd);
}

static bool is_refused_by(check_fn *check, struct model *m, const struct call *c)
{
	return check && check(m, c);
}

int model_call(struct model *m, bool writer, const struct call *c,
	       const struct placed_argument *p)
{
	const struct command *command = command_of(m, c->cmd);
	const struct command_rule *rule;
	int next;

	if (!command)
		return -ENOTTY;
	if (command->needs_writer && !writer)
		return -EPERM;
	if (_IOC_DIR(c->cmd) & _IOC_WRITE && !p->readable)
		return -EFAULT;
	rule = rule_of(c->cmd);
	if (is_refused_by(rule->reserved, m, c) || is_refused_by(rule->number, m, c))
		return -EINVAL;
	if (is_refused_by(rule->unused, m, c))
		return -EBUSY;
	next = command->next[m->state];
	if (next < 0)
		return next;
	if (is_refused_by(rule->values, m, c))
		return -EINVAL;
	if (is_refused_by(rule->unsupported, m, c))
		return -EOPNOTSUPP;
	if (is_refused_by(rule->owner, m, c))
		return -EBUSY;
	if (_IOC_DIR(c->cmd) & _IOC_READ && !p->writable)
		return -EFAULT;
	if (rule->effect)
		rule->effect(m, c);
	m->state = next;
	return 0;
}

const char *model_check(struct model *m, const struct call *c,
			const union argument *a)
{
	const struct command *command = command_of(m, c->cmd);
	const struct command_rule *rule = command ? rule_of(c->cmd) : NULL;

	return rule && rule->answer ? rule->answer(m, c, a) : "";
}
