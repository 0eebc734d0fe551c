// SPDX-License-Identifier: GPL-2.0-only
#include "device.h"
#include "model_parts.h"
#include "trace.h"

static int event_group(const struct perfmon_config *c, int i)
{
	return PERFMON_EVENT_ID_GROUP(c->events[i]);
}

static int event_number(const struct perfmon_config *c, int i)
{
	return PERFMON_EVENT_ID_EVENT(c->events[i]);
}

int model_events(const struct perfmon_config *c)
{
	int n = 0;

	while (n < PERFMON_MAX_EVENTS && c->events[n] != PERFMON_EVENT_ID_NONE)
		n++;
	return n;
}

static bool follows_timebase(const struct perfmon_config *c, int i)
{
	return i && c->flags[i] & FLAG_TIMEBASE0;
}

static bool event_exists(const struct model *m, const struct perfmon_config *c,
			 int i)
{
	switch (event_group(c, i)) {
	case PERFMON_GROUP_ARCH:
		return event_number(c, i) < 32 &&
		       m->machine->arch_events >> event_number(c, i) & 1;
	case PERFMON_GROUP_FIXED:
		return event_number(c, i) >= 1 &&
		       event_number(c, i) <= m->machine->properties.max_num_fixed_events;
	case PERFMON_GROUP_MODEL:
		return m->defined[event_number(c, i)];
	}
	return false;
}

static bool last_branch_fits(const struct model *m,
			     const struct perfmon_config *c, int i)
{
	const __u32 modes = FLAG_OS | FLAG_USER;
	int j;

	if (!(m->machine->properties.flags &
	      PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH) ||
	    !c->rate[i] || follows_timebase(c, i))
		return false;
	/* All events with this flag must have the modes of the first event with it. */
	for (j = 0; !(c->flags[j] & FLAG_LAST_BRANCH); j++)
		;
	return (c->flags[i] & modes) == (c->flags[j] & modes);
}

static bool event_fits(const struct model *m, const struct perfmon_config *c,
		       int i)
{
	int j;

	for (j = 0; j < i; j++) {
		if (c->events[j] == c->events[i])
			return false;
	}
	if (c->flags[i] & ~PERFMON_CONFIG_FLAG_MASK || !event_exists(m, c, i))
		return false;
	if (!follows_timebase(c, i) &&
	    c->rate[i] > machine_largest_rate(m->machine, event_group(c, i) ==
					      PERFMON_GROUP_FIXED))
		return false;
	if (c->flags[i] & FLAG_TIMEBASE0 && !c->rate[0])
		return false;
	return !(c->flags[i] & FLAG_LAST_BRANCH) || last_branch_fits(m, c, i);
}

bool config_value(struct model *m, const struct call *call)
{
	const struct perfmon_config *c = &call->arg.config;
	int i, n = model_events(c), general = 0;

	for (i = n; i < PERFMON_MAX_EVENTS; i++) {
		if (c->events[i] || c->rate[i] || c->flags[i])
			return true;
	}
	for (i = 0; i < n; i++) {
		if (!event_fits(m, c, i))
			return true;
		general += event_group(c, i) != PERFMON_GROUP_FIXED;
	}
	return !n || general > m->machine->properties.max_num_programmable_events;
}

struct model_counter *model_counter_for(struct model *m, int i, int *next)
{
	const int general = m->machine->properties.max_num_programmable_events;
	struct model_counter *c;

	if (event_group(&m->config, i) == PERFMON_GROUP_FIXED) {
		c = &m->fixed[event_number(&m->config, i) - 1];
		return c->set_up ? NULL : c;
	}
	while (*next < general) {
		c = &m->general[(*next)++];
		if (!c->set_up)
			return c;
	}
	return NULL;
}

bool too_few_counters(struct model *m, const struct call *)
{
	int i, next = 0;

	for (i = 0; i < model_events(&m->config); i++) {
		if (!model_counter_for(m, i, &next))
			return true;
	}
	return false;
}

bool model_counts_instructions(const struct model *m, int i)
{
	const struct perfmon_config *c = &m->config;
	const __u32 modes = FLAG_OS | FLAG_USER;

	if ((c->flags[i] & modes) != FLAG_USER)
		return false;
	switch (event_group(c, i)) {
	case PERFMON_GROUP_ARCH:
		return event_number(c, i) == PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED;
	case PERFMON_GROUP_FIXED:
		return event_number(c, i) == PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED;
	}
	return (m->select[event_number(c, i)] & ~(SELECT_MODE | SELECT_DRIVERS)) ==
	       EVENT_INSTRUCTIONS;
}
