// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "device.h"
#include "model.h"
#include "trace.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))

/* Bits of an event select. */
#define SELECT_EVENT	0xffffULL	/* with its unit mask */
#define SELECT_MODE	((__u64)(PMCF_USR | PMCF_OS) << 16)
#define SELECT_DRIVERS	((__u64)PMCF_SYS_FLAGS << 16)
#define SELECT_EN	((__u64)PMCF_EN << 16)
#define SELECT_REFUSED	((__u64)(PMCF_ANY | PMCF_PC) << 16)
#define SELECT_INTEL	0xffffffffULL
#define SELECT_AMD	0xfffffffffULL

void model_init(struct model *m, const struct machine *machine)
{
	memset(m, 0, sizeof(*m));
	m->machine = machine;
}

/* --- Counters ------------------------------------------------------------ */

static bool is_fixed(int num)
{
	return num >= PMC_FIXED(0);
}

/* NULL if there is no such counter. */
static struct model_counter *counter(struct model *m, int num)
{
	const struct perfmon_properties *p = &m->machine->properties;

	if (is_fixed(num) && num < PMC_FIXED(p->max_num_fixed_events))
		return &m->fixed[num - PMC_FIXED(0)];
	if (num >= 0 && num < p->max_num_programmable_events)
		return &m->general[num];
	return NULL;
}

/* The select that a call has, whichever of the two it is. */
static __u64 select_of(const struct call *c)
{
	return c->cmd == PMIOSETUP ? c->arg.pmc.pmc_val : c->arg.pmc2.pmc2_select;
}

/* Whether a counter counts the instructions of user mode, as often as it runs. */
static bool counts_instructions(__u64 select, bool first_fixed)
{
	return select == ((__u64)PMCF_USR << 16 |
			  (first_fixed ? 0 : EVENT_INSTRUCTIONS));
}

static void executed(struct model_counter *c, bool first_fixed, __u64 insns,
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
		executed(&m->general[i], false, insns, more);
	for (i = 0; i < MODEL_MAX_FIXED; i++)
		executed(&m->fixed[i], i == 0, insns, more);
}

/* --- What is wrong with a call ------------------------------------------- */

/* Each of these says whether a call is to be refused. */
typedef bool check(struct model *m, const struct call *c);

static bool has_unknown_bits(const struct model *m, __u64 select)
{
	return select & (SELECT_REFUSED |
			 ~(m->machine->intel ? SELECT_INTEL : SELECT_AMD));
}

/*
 * Whether the select is that of an architectural event which CPUID says is
 * missing (Intel SDM, volume 3B, table 21-1).
 */
static bool is_missing(const struct model *m, __u64 select)
{
	static const __u16 encodings[] = {
		0x003c, 0x00c0, 0x013c, 0x4f2e, 0x412e, 0x00c4, 0x00c5, 0x01a4,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(encodings); i++) {
		if ((select & SELECT_EVENT) == encodings[i])
			return m->machine->arch_missing >> i & 1;
	}
	return false;
}

static bool setup_reserved(struct model *m, const struct call *c)
{
	return has_unknown_bits(m, select_of(c));
}

static bool pmc2_reserved(struct model *, const struct call *c)
{
	return c->arg.pmc2.pmc2_flags || c->arg.pmc2.pmc2_extra ||
	       c->arg.pmc2.reserved;
}

static bool setup2_reserved(struct model *m, const struct call *c)
{
	return pmc2_reserved(m, c) || setup_reserved(m, c);
}

static bool cpu_data_reserved(struct model *, const struct call *c)
{
	return c->arg.cpu_data.reserved;
}

static bool definition_reserved(struct model *m, const struct call *c)
{
	const struct perfmon_event_definition *d = &c->arg.definition;

	return d->reserved[0] || d->reserved[1] || d->reserved[2] ||
	       d->extra || d->reserved2[0] || d->reserved2[1] ||
	       has_unknown_bits(m, d->select);
}

static bool no_such_counter(struct model *m, const struct call *c)
{
	return !counter(m, c->arg.num);
}

static bool no_such_buffer(struct model *m, const struct call *c)
{
	return c->arg.handle.descriptor >= m->machine->info.nr_cpu_ids;
}

static bool no_model_event(struct model *, const struct call *c)
{
	return PERFMON_EVENT_ID_GROUP(c->arg.definition.id) !=
	       PERFMON_GROUP_MODEL;
}

static bool not_set_up(struct model *m, const struct call *c)
{
	return !counter(m, c->arg.num)->set_up;
}

static bool setup_value(struct model *m, const struct call *c)
{
	const __u64 select = select_of(c);

	return is_fixed(c->arg.num) ? select & ~(SELECT_MODE | SELECT_DRIVERS) :
				      is_missing(m, select);
}

static bool cpu_values(struct model *m, const struct call *c)
{
	return c->arg.cpu_data.pmcc_first_cpu >= m->machine->info.nr_cpu_ids ||
	       !c->arg.cpu_data.pmcc_count ||
	       c->arg.cpu_data.pmcc_count > PMC_CPU_MAX;
}

static bool alloc_value(struct model *m, const struct call *c)
{
	const struct perfmon_alloc *a = &c->arg.alloc;

	return a->num_buffers != m->machine->info.nr_cpu_ids ||
	       !a->buffer_size_in_pages ||
	       a->buffer_size_in_pages > PERFMON_MAX_BUFFER_PAGES;
}

static bool definition_value(struct model *m, const struct call *c)
{
	return is_missing(m, c->arg.definition.select);
}

static bool of_trace(struct model *m, const struct call *c)
{
	return counter(m, c->arg.num)->of_trace;
}

/* --- Configs ------------------------------------------------------------- */

static int group(const struct perfmon_config *c, int i)
{
	return PERFMON_EVENT_ID_GROUP(c->events[i]);
}

static int event(const struct perfmon_config *c, int i)
{
	return PERFMON_EVENT_ID_EVENT(c->events[i]);
}

static int events_of(const struct perfmon_config *c)
{
	int n = 0;

	while (n < PERFMON_MAX_EVENTS && c->events[n] != PERFMON_EVENT_ID_NONE)
		n++;
	return n;
}

static bool dependent(const struct perfmon_config *c, int i)
{
	return i && c->flags[i] & FLAG_TIMEBASE0;
}

static bool event_exists(const struct model *m, const struct perfmon_config *c,
			 int i)
{
	switch (group(c, i)) {
	case PERFMON_GROUP_ARCH:
		return event(c, i) < 32 &&
		       m->machine->arch_events >> event(c, i) & 1;
	case PERFMON_GROUP_FIXED:
		return event(c, i) >= 1 &&
		       event(c, i) <= m->machine->properties.max_num_fixed_events;
	case PERFMON_GROUP_MODEL:
		return m->defined[event(c, i)];
	}
	return false;
}

static __u64 largest_rate(const struct machine *m, bool fixed)
{
	const int width = fixed ? m->properties.max_fixed_counter_width :
				  m->properties.max_programmable_counter_width;
	const __u64 range = (1ULL << width) - 1;

	if (!(m->info.features & PERFMON_FEATURE_FULL_WIDTH_WRITES) &&
	    range > 1ULL << 31)
		return 1ULL << 31;
	return range;
}

static bool last_branch_fits(const struct model *m,
			     const struct perfmon_config *c, int i)
{
	const __u32 modes = FLAG_OS | FLAG_USER;
	int j;

	if (!(m->machine->properties.flags &
	      PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH) ||
	    !c->rate[i] || dependent(c, i))
		return false;
	/* All of them have the modes of the first. */
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
	if (!dependent(c, i) &&
	    c->rate[i] > largest_rate(m->machine,
				      group(c, i) == PERFMON_GROUP_FIXED))
		return false;
	if (c->flags[i] & FLAG_TIMEBASE0 && !c->rate[0])
		return false;
	return !(c->flags[i] & FLAG_LAST_BRANCH) || last_branch_fits(m, c, i);
}

static bool config_value(struct model *m, const struct call *call)
{
	const struct perfmon_config *c = &call->arg.config;
	int i, n = events_of(c), general = 0;

	for (i = n; i < PERFMON_MAX_EVENTS; i++) {
		if (c->events[i] || c->rate[i] || c->flags[i])
			return true;
	}
	for (i = 0; i < n; i++) {
		if (!event_fits(m, c, i))
			return true;
		general += group(c, i) != PERFMON_GROUP_FIXED;
	}
	return !n || general > m->machine->properties.max_num_programmable_events;
}

/*
 * The counter that the config's event @i gets: the lowest that is free, of those
 * that were not given to the events before it, which are up to @next.
 */
static struct model_counter *counter_for(struct model *m, int i, int *next)
{
	const int general = m->machine->properties.max_num_programmable_events;
	struct model_counter *c;

	if (group(&m->config, i) == PERFMON_GROUP_FIXED) {
		c = &m->fixed[event(&m->config, i) - 1];
		return c->set_up ? NULL : c;
	}
	while (*next < general) {
		c = &m->general[(*next)++];
		if (!c->set_up)
			return c;
	}
	return NULL;
}

static bool too_few_counters(struct model *m, const struct call *)
{
	int i, next = 0;

	for (i = 0; i < events_of(&m->config); i++) {
		if (!counter_for(m, i, &next))
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
	switch (group(c, i)) {
	case PERFMON_GROUP_ARCH:
		return event(c, i) == PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED;
	case PERFMON_GROUP_FIXED:
		return event(c, i) == PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED;
	}
	return (m->select[event(c, i)] & ~(SELECT_MODE | SELECT_DRIVERS)) ==
	       EVENT_INSTRUCTIONS;
}

/* --- What a call does ---------------------------------------------------- */

typedef void effect(struct model *m, const struct call *c);

static void set_up(struct model *m, const struct call *c)
{
	*counter(m, c->arg.num) = (struct model_counter) {
		.set_up = true,
		.select = select_of(c) & ~SELECT_DRIVERS,
	};
}

static void start_counter(struct model *m, const struct call *c)
{
	counter(m, c->arg.num)->running = true;
}

static void stop_counter(struct model *m, const struct call *c)
{
	counter(m, c->arg.num)->running = false;
}

static void reset(struct model *m, const struct call *c)
{
	counter(m, c->arg.num)->low = 0;
	counter(m, c->arg.num)->high = 0;
}

static void define(struct model *m, const struct call *c)
{
	const int n = PERFMON_EVENT_ID_EVENT(c->arg.definition.id);

	m->defined[n] = true;
	m->select[n] = c->arg.definition.select;
}

static void alloc(struct model *m, const struct call *c)
{
	m->alloc = c->arg.alloc;
	m->state = ALLOCATED;
}

static void free_trace(struct model *m, const struct call *)
{
	m->state = IDLE;
}

static void stage(struct model *m, const struct call *c)
{
	m->config = c->arg.config;
	m->state = STAGED;
}

static void start_trace(struct model *m, const struct call *)
{
	int i, next = 0;

	for (i = 0; i < events_of(&m->config); i++)
		counter_for(m, i, &next)->of_trace = true;
	m->state = RUNNING;
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
	m->state = STAGED;
}

/* --- What a call answers ------------------------------------------------- */

typedef const char *answer(struct model *m, const struct call *c,
			   const union argument *a);

static const char *is_between(struct model_counter *c, __s64 value)
{
	if (value < 0 || (__u64)value < c->low)
		return "it counted too little";
	if ((__u64)value > c->high)
		return "it counted too much";
	c->low = value;
	if (!c->running)
		c->high = value;
	return "";
}

static const char *answer_value(struct model *m, const struct call *c,
				const union argument *a)
{
	if (a->num != c->arg.num || a->data.reserved)
		return "the number or the reserved member";
	return is_between(counter(m, a->num), a->data.pmcd_value);
}

static const char *answer_values(struct model *m, const struct call *c,
				 const union argument *a)
{
	const struct pmc_cpu_data *d = &a->cpu_data;
	const __u32 there = m->machine->info.nr_cpu_ids - d->pmcc_first_cpu;
	const __u32 asked = c->arg.cpu_data.pmcc_count;
	__s64 sum = 0;
	__u32 i;

	if (d->pmcc_num != c->arg.num || d->reserved ||
	    d->pmcc_first_cpu != c->arg.cpu_data.pmcc_first_cpu)
		return "the number, the first CPU or the reserved member";
	if (d->pmcc_count != (asked < there ? asked : there))
		return "how many values there are";
	for (i = 0; i < d->pmcc_count; i++) {
		if (d->pmcc_value[i] < 0)
			return "a value below 0";
		sum += d->pmcc_value[i];
	}
	for (; i < PMC_CPU_MAX; i++) {
		if (d->pmcc_value[i])
			return "a value of no CPU";
	}
	if (d->pmcc_count == m->machine->info.nr_cpu_ids)
		return is_between(counter(m, d->pmcc_num), sum);
	return "";
}

/* What PMIOGET2 gives, of which PMIOGET gives the lower half. */
static __u64 select_now(struct model *m, int num)
{
	const struct model_counter *c = counter(m, num);

	return c->select | (c->running ? SELECT_EN : 0);
}

static const char *answer_select_32(struct model *m, const struct call *c,
				    const union argument *a)
{
	return a->num == c->arg.num &&
	       a->pmc.pmc_val == (__u32)select_now(m, a->num) ? "" :
								"the select";
}

static const char *answer_select_64(struct model *m, const struct call *c,
				    const union argument *a)
{
	const struct pmc2 want = {
		.pmc2_num = c->arg.num,
		.pmc2_select = select_now(m, c->arg.num),
	};

	return memcmp(&a->pmc2, &want, sizeof(want)) ? "the select" : "";
}

static const char *answer_tstamp(struct model *, const struct call *,
				 const union argument *a)
{
	return a->tstamp.pmct_rate > 0 && !a->tstamp.reserved &&
	       a->tstamp.pmct_value > 0 ? "" : "the time";
}

static const char *answer_properties(struct model *m, const struct call *,
				     const union argument *a)
{
	return memcmp(&a->properties, &m->machine->properties,
		      sizeof(a->properties)) ? "the properties" : "";
}

static const char *answer_info(struct model *m, const struct call *,
			       const union argument *a)
{
	return memcmp(&a->info, &m->machine->info, sizeof(a->info)) ?
		"the information" : "";
}

static const char *answer_allocated(struct model *m, const struct call *,
				    const union argument *a)
{
	return memcmp(&a->alloc, &m->alloc, sizeof(a->alloc)) ?
		"what was allocated" : "";
}

static const char *answer_staged(struct model *m, const struct call *,
				 const union argument *a)
{
	return memcmp(&a->config, &m->config, sizeof(a->config)) ?
		"the config" : "";
}

/* --- The commands -------------------------------------------------------- */

#define IN(state)	(1U << (state))
#define ANY		(IN(IDLE) | IN(ALLOCATED) | IN(STAGED) | IN(RUNNING))

/*
 * The checks are made in the order of the columns: write access (EPERM), the
 * argument (EFAULT), reserved bits and numbers (EINVAL), whether the counter is
 * set up (EBUSY), the trace's state (EBADFD), values (EINVAL), the owner of the
 * hardware (EBUSY).
 */
static const struct rule {
	unsigned int cmd;
	bool writer;
	check *reserved;
	check *number;
	check *unused;
	unsigned int states;
	check *values;
	check *owner;
	effect *effect;
	answer *answer;
} rules[] = {
	{ PMIOSETUP, true, setup_reserved, no_such_counter, NULL, ANY,
	  setup_value, of_trace, set_up, NULL },
	{ PMIOSETUP2, true, setup2_reserved, no_such_counter, NULL, ANY,
	  setup_value, of_trace, set_up, NULL },
	{ PMIOSTART, true, NULL, no_such_counter, not_set_up, ANY,
	  NULL, NULL, start_counter, NULL },
	{ PMIOSTOP, true, NULL, no_such_counter, not_set_up, ANY,
	  NULL, NULL, stop_counter, NULL },
	{ PMIORESET, true, NULL, no_such_counter, not_set_up, ANY,
	  NULL, NULL, reset, NULL },
	{ PMIOREAD, false, NULL, no_such_counter, not_set_up, ANY,
	  NULL, NULL, NULL, answer_value },
	{ PMIOREADCPU, false, cpu_data_reserved, no_such_counter, not_set_up, ANY,
	  cpu_values, NULL, NULL, answer_values },
	{ PMIOGET, false, NULL, no_such_counter, not_set_up, ANY,
	  NULL, NULL, NULL, answer_select_32 },
	{ PMIOGET2, false, pmc2_reserved, no_such_counter, not_set_up, ANY,
	  NULL, NULL, NULL, answer_select_64 },
	{ PMIOTSTAMP, false, NULL, NULL, NULL, ANY,
	  NULL, NULL, NULL, answer_tstamp },
	{ IOCTL_PERFMON_GET_PROPERTIES, false, NULL, NULL, NULL, ANY,
	  NULL, NULL, NULL, answer_properties },
	{ PERFMON_GET_INFO, false, NULL, NULL, NULL, ANY,
	  NULL, NULL, NULL, answer_info },
	{ PERFMON_DEFINE_EVENT, true, definition_reserved, no_model_event, NULL,
	  IN(IDLE) | IN(ALLOCATED), definition_value, NULL, define, NULL },
	{ IOCTL_PERFMON_ALLOC_TRACE, true, NULL, NULL, NULL,
	  IN(IDLE), alloc_value, NULL, alloc, NULL },
	{ IOCTL_PERFMON_FREE_TRACE, true, NULL, NULL, NULL,
	  IN(ALLOCATED) | IN(STAGED), NULL, NULL, free_trace, NULL },
	{ IOCTL_PERFMON_GET_ALLOC, true, NULL, NULL, NULL,
	  ANY & ~IN(IDLE), NULL, NULL, NULL, answer_allocated },
	{ IOCTL_PERFMON_STAGE_CONFIG, true, NULL, NULL, NULL,
	  IN(ALLOCATED) | IN(STAGED), config_value, NULL, stage, NULL },
	{ IOCTL_PERFMON_GET_CONFIG, true, NULL, NULL, NULL,
	  IN(STAGED), NULL, NULL, NULL, answer_staged },
	{ IOCTL_PERFMON_GET_BUFFER_HANDLE, true, NULL, no_such_buffer, NULL,
	  IN(ALLOCATED) | IN(STAGED), NULL, NULL, NULL, NULL },
	{ IOCTL_PERFMON_START, true, NULL, NULL, NULL,
	  IN(STAGED), NULL, too_few_counters, start_trace, NULL },
	{ IOCTL_PERFMON_STOP, true, NULL, NULL, NULL,
	  ANY & ~IN(IDLE), NULL, NULL, stop_trace, NULL },
};

/* The rule of a command, or NULL if there is no such command here. */
static const struct rule *rule_of(const struct model *m, unsigned int cmd)
{
	size_t i;

	if (cmd == PMIOTSTAMP && !m->machine->tstamp)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		if (rules[i].cmd == cmd)
			return &rules[i];
	}
	return NULL;
}

static bool refused(check *check, struct model *m, const struct call *c)
{
	return check && check(m, c);
}

int model_call(struct model *m, bool writer, const struct call *c,
	       const struct placed *p)
{
	const struct rule *rule = rule_of(m, c->cmd);

	if (!rule)
		return -ENOTTY;
	if (rule->writer && !writer)
		return -EPERM;
	if (_IOC_DIR(c->cmd) & _IOC_WRITE && !p->readable)
		return -EFAULT;
	if (refused(rule->reserved, m, c) || refused(rule->number, m, c))
		return -EINVAL;
	if (refused(rule->unused, m, c))
		return -EBUSY;
	if (!(rule->states & IN(m->state)))
		return -EBADFD;
	if (refused(rule->values, m, c))
		return -EINVAL;
	if (refused(rule->owner, m, c))
		return -EBUSY;
	if (_IOC_DIR(c->cmd) & _IOC_READ && !p->writable)
		return -EFAULT;
	if (rule->effect)
		rule->effect(m, c);
	return 0;
}

const char *model_check(struct model *m, const struct call *c,
			const union argument *a)
{
	const struct rule *rule = rule_of(m, c->cmd);

	return rule && rule->answer ? rule->answer(m, c, a) : "";
}
