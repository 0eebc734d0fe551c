// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "model_parts.h"

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

const char *check_value(struct model *m, const struct call *c,
			const union argument *a)
{
	if (a->num != c->arg.num || a->data.reserved)
		return "the number or the reserved member";
	return is_between(model_counter(m, a->num), a->data.pmcd_value);
}

const char *check_values(struct model *m, const struct call *c,
			 const union argument *a)
{
	const struct pmc_cpu_data *d = &a->cpu_data;
	const __u32 existing_cpus = m->machine->info.nr_cpu_ids - d->pmcc_first_cpu;
	const __u32 asked = c->arg.cpu_data.pmcc_count;
	__s64 sum = 0;
	__u32 i;

	if (d->pmcc_num != c->arg.num || d->reserved ||
	    d->pmcc_first_cpu != c->arg.cpu_data.pmcc_first_cpu)
		return "the number, the first CPU or the reserved member";
	if (d->pmcc_count != (asked < existing_cpus ? asked : existing_cpus))
		return "the number of values";
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
		return is_between(model_counter(m, d->pmcc_num), sum);
	return "";
}

/* Returns the event select of PMIOGET2. PMIOGET returns its lower half. */
static __u64 select_now(struct model *m, int num)
{
	const struct model_counter *c = model_counter(m, num);

	return c->select | (c->running ? SELECT_EN : 0);
}

const char *check_select_32(struct model *m, const struct call *c,
			    const union argument *a)
{
	return a->num == c->arg.num &&
	       a->pmc.pmc_val == (__u32)select_now(m, a->num) ? "" :
								"the select";
}

const char *check_select_64(struct model *m, const struct call *c,
			    const union argument *a)
{
	const struct pmc2 want = {
		.pmc2_num = c->arg.num,
		.pmc2_select = select_now(m, c->arg.num),
		.pmc2_type = model_counter(m, c->arg.num)->type,
	};

	return memcmp(&a->pmc2, &want, sizeof(want)) ? "the select" : "";
}

const char *check_timestamp(struct model *, const struct call *,
			    const union argument *a)
{
	return a->tstamp.pmct_rate > 0 && !a->tstamp.reserved &&
	       a->tstamp.pmct_value > 0 ? "" : "the time";
}

const char *check_properties(struct model *m, const struct call *,
			     const union argument *a)
{
	return memcmp(&a->properties, &m->machine->properties,
		      sizeof(a->properties)) ? "the properties" : "";
}

const char *check_info(struct model *m, const struct call *,
		       const union argument *a)
{
	return memcmp(&a->info, &m->machine->info, sizeof(a->info)) ?
		"the information" : "";
}

const char *check_allocation(struct model *m, const struct call *,
			     const union argument *a)
{
	return memcmp(&a->alloc, &m->alloc, sizeof(a->alloc)) ?
		"the allocation" : "";
}

const char *check_staged_config(struct model *m, const struct call *,
				const union argument *a)
{
	return memcmp(&a->config, &m->config, sizeof(a->config)) ?
		"the config" : "";
}
