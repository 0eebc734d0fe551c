// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>

#include <linux/perf_event.h>

#include "device.h"
#include "model_parts.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))

static bool has_unknown_bits(const struct model *m, __u64 select)
{
	return select & (SELECT_REFUSED | ~m->machine->select_bits);
}

/*
 * Returns true for an architectural event that CPUID reports as missing (Intel SDM,
 * volume 3B, table 21-1).
 */
static bool is_missing(const struct model *m, __u64 select)
{
	static const __u16 encodings[] = {
		0x003c, 0x00c0, 0x013c, 0x4f2e, 0x412e, 0x00c4, 0x00c5, 0x01a4,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(encodings); i++) {
		if ((select & (SELECT_EVENT | SELECT_UMASK2)) == encodings[i])
			return m->machine->arch_missing >> i & 1;
	}
	return false;
}

bool setup_reserved(struct model *m, const struct call *c)
{
	return has_unknown_bits(m, model_select_of(c));
}

bool pmc2_reserved(struct model *, const struct call *c)
{
	return c->arg.pmc2.pmc2_flags || c->arg.pmc2.pmc2_extra ||
	       c->arg.pmc2.reserved;
}

/*
 * Returns true for a type that is the type of no kind of core. All CPUs of the tested machines are
 * of one kind.
 */
static bool is_unknown_type(__u32 type)
{
	return type && type != PERF_TYPE_RAW;
}

bool setup2_reserved(struct model *m, const struct call *c)
{
	return pmc2_reserved(m, c) || is_unknown_type(c->arg.pmc2.pmc2_type) ||
	       setup_reserved(m, c);
}

bool cpu_data_reserved(struct model *, const struct call *c)
{
	return c->arg.cpu_data.reserved;
}

bool definition_reserved(struct model *m, const struct call *c)
{
	const struct perfmon_event_definition *d = &c->arg.definition;

	return d->reserved || d->extra || d->reserved2[0] || d->reserved2[1] ||
	       is_unknown_type(d->type) ||
	       has_unknown_bits(m, d->select);
}

bool no_such_counter(struct model *m, const struct call *c)
{
	return !model_counter(m, c->arg.num);
}

bool no_such_buffer(struct model *m, const struct call *c)
{
	return c->arg.handle.descriptor >= m->machine->info.nr_cpu_ids;
}

bool no_model_event(struct model *, const struct call *c)
{
	return PERFMON_EVENT_ID_GROUP(c->arg.definition.id) !=
	       PERFMON_GROUP_MODEL;
}

bool not_set_up(struct model *m, const struct call *c)
{
	return !model_counter(m, c->arg.num)->set_up;
}

/* Returns true for event 0 of Intel, which no general counter counts. A kind of core refuses it. */
static bool is_uncounted(const struct model *m, __u64 select, __u32 type)
{
	return type && m->machine->is_intel && !(select & 0xff);
}

bool setup_value(struct model *m, const struct call *c)
{
	const __u64 select = model_select_of(c);
	const __u32 type = c->cmd == PMIOSETUP2 ? c->arg.pmc2.pmc2_type : 0;

	if (model_is_fixed(c->arg.num))
		return select & ~(SELECT_MODE | SELECT_DRIVERS);
	return is_missing(m, select) || is_uncounted(m, select, type);
}

bool cpu_values(struct model *m, const struct call *c)
{
	return c->arg.cpu_data.pmcc_first_cpu >= m->machine->info.nr_cpu_ids ||
	       !c->arg.cpu_data.pmcc_count ||
	       c->arg.cpu_data.pmcc_count > PMC_CPU_MAX;
}

bool alloc_value(struct model *m, const struct call *c)
{
	const struct perfmon_alloc *a = &c->arg.alloc;

	return a->num_buffers != m->machine->info.nr_cpu_ids ||
	       !a->buffer_size_in_pages ||
	       a->buffer_size_in_pages > PERFMON_MAX_BUFFER_PAGES;
}

bool definition_value(struct model *m, const struct call *c)
{
	const struct perfmon_event_definition *d = &c->arg.definition;

	return is_missing(m, d->select) || is_uncounted(m, d->select, d->type);
}

/*
 * Returns true for an event that needs two counters, and for the event that merges two counters
 * (AMD PPR, "Large Increment per Cycle Events"; the virtual PMU of AMD is that of a Zen).
 */
static bool merges_counters(const struct model *m, __u64 select)
{
	const __u64 event = select & SELECT_NUMBER;

	return !m->machine->is_intel && (event == 0x003 || event == 0xf000000ffULL);
}

bool setup_merges(struct model *m, const struct call *c)
{
	return merges_counters(m, model_select_of(c));
}

bool definition_merges(struct model *m, const struct call *c)
{
	return merges_counters(m, c->arg.definition.select);
}

bool belongs_to_trace(struct model *m, const struct call *c)
{
	return model_counter(m, c->arg.num)->of_trace;
}
