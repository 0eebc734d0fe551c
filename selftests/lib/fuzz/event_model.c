// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <string.h>
#include <time.h>

#include <linux/perfmon.h>

#include "event_model.h"

/* The first published size of struct perf_event_attr, which size 0 stands for. */
#define ATTR_SIZE_VER0	64

/* --- Attributes ------------------------------------------------------------ */

/* Returns whether samples can have these registers: all but DS, ES, FS and GS. */
static bool are_registers(__u64 mask)
{
	return mask && !(mask & ~0xff0fffULL);
}

/* Returns whether perf refuses the attributes for events of all types. */
static bool is_invalid(const union model_attr *u)
{
	const struct perf_event_attr *a = &u->fields;
	const __u64 weights = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;
	const __u64 type = a->sample_type;

	if (u->words[ATTR_FLAGS] >> 40 || a->__reserved_2 || u->words[ATTR_AUX] >> 32 & ~7ULL ||
	    type >= PERF_SAMPLE_MAX || a->read_format >= PERF_FORMAT_MAX)
		return true;
	if (type & PERF_SAMPLE_BRANCH_STACK &&
	    (a->branch_sample_type >= PERF_SAMPLE_BRANCH_MAX ||
	     !(a->branch_sample_type & ~(__u64)PERF_SAMPLE_BRANCH_PLM_ALL)))
		return true;
	if (type & PERF_SAMPLE_STACK_USER &&
	    (a->sample_stack_user >= 0xffff || a->sample_stack_user % 8))
		return true;
	if ((type & PERF_SAMPLE_REGS_USER && !are_registers(a->sample_regs_user)) ||
	    (type & PERF_SAMPLE_REGS_INTR && !are_registers(a->sample_regs_intr)))
		return true;
	if ((type & weights) == weights ||
	    (a->inherit && type & PERF_SAMPLE_READ && !(type & PERF_SAMPLE_TID)))
		return true;
	if ((a->inherit_thread && !a->inherit) || (a->remove_on_exec && a->enable_on_exec) ||
	    (a->sigtrap && !a->remove_on_exec) || a->sample_period >> 63)
		return true;
	return false;
}

/* Returns whether the sample frequency is above the administrator's limit. */
static bool is_frequency_too_high(const struct event_model *m, const struct perf_event_attr *a)
{
	return a->freq && m->max_rate && a->sample_freq > m->max_rate;
}

/* Returns whether the clock can be read in an NMI. */
static bool is_allowed_clock(const struct perf_event_attr *a)
{
	return !a->use_clockid || a->clockid == CLOCK_MONOTONIC ||
	       a->clockid == CLOCK_MONOTONIC_RAW;
}

static bool counts_cycles(const struct perf_event_attr *a)
{
	return a->type == PERF_TYPE_HARDWARE && (__u32)a->config == PERF_COUNT_HW_CPU_CYCLES;
}

static bool counts_instructions(const struct perf_event_attr *a)
{
	return a->type == PERF_TYPE_RAW ||
	       (a->type == PERF_TYPE_HARDWARE && (__u32)a->config == PERF_COUNT_HW_INSTRUCTIONS);
}

/*
 * Returns whether precise samples can have this period or frequency. All frequencies except 0 are
 * possible.
 */
static bool is_precise_period(const struct perf_event_attr *a, __u64 period)
{
	return (a->freq && period) || (period >= (a->exclude_kernel ? 2 : 256) && period < 1ULL << 31);
}

/*
 * Returns whether the processor can take the samples itself. The fuzzer's only raw event is
 * instructions.
 */
static bool can_be_precise(const struct event_model *m, const struct perf_event_attr *a)
{
	if (!m->precise || a->sample_type & PERF_SAMPLE_TRANSACTION || !is_precise_period(a, a->sample_period))
		return false;
	if (a->precise_ip == 3)
		return m->precise > 3 && counts_instructions(a);
	return m->precise > 3 || !counts_cycles(a);
}

/*
 * Returns whether only perf supports the attributes. The module supports a branch stack only if the
 * processor writes it into precise samples: for all other samples the fuzzer asks for a branch type
 * that is not supported.
 */
static bool is_unsupported(const struct event_model *m, const union model_attr *u)
{
	const struct perf_event_attr *a = &u->fields;
	const bool has_branches = a->precise_ip && m->precise > 3 &&
				  a->branch_sample_type == RECORDED_BRANCHES;
	const __u64 parts = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			    PERF_SAMPLE_ADDR | PERF_SAMPLE_READ |
			    PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ID |
			    PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_STREAM_ID |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
			    PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC |
			    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TRANSACTION |
			    PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_WEIGHT_STRUCT |
			    PERF_SAMPLE_CGROUP;

	if ((a->precise_ip && !can_be_precise(m, a)) || a->exclude_host || a->aux_output || a->sigtrap ||
	    u->words[ATTR_AUX] || u->words[ATTR_CONFIG2] || u->words[ATTR_CONFIG3] ||
	    u->words[ATTR_CONFIG4])
		return true;
	if (a->type != PERF_TYPE_RAW && u->words[ATTR_CONFIG1])
		return true;
	if (a->type != PERF_TYPE_HARDWARE && a->type != PERF_TYPE_HW_CACHE &&
	    a->type != PERF_TYPE_RAW)
		return true;
	if (a->type != PERF_TYPE_RAW && a->config >> 32 && a->config >> 32 != PERF_TYPE_RAW)
		return true;
	return a->sample_period && a->sample_type & ~(parts | (has_branches ? PERF_SAMPLE_BRANCH_STACK : 0));
}

/*
 * Returns whether no processor has the event. The fuzzer never opens an event that only some
 * processors have.
 */
static bool is_unknown_event(const struct perf_event_attr *a)
{
	const __u32 config = a->config;

	switch (a->type) {
	case PERF_TYPE_HARDWARE:
		return config >= PERF_COUNT_HW_MAX;
	case PERF_TYPE_HW_CACHE:
		return (config & 0xff) >= PERF_COUNT_HW_CACHE_MAX ||
		       (config >> 8 & 0xff) >= PERF_COUNT_HW_CACHE_OP_MAX ||
		       (config >> 16 & 0xff) >= PERF_COUNT_HW_CACHE_RESULT_MAX ||
		       config >> 24;
	default:
		/* Pin control, bits that no processor has, and a register that the event does not need. */
		return a->config & (1 << 19 | 0xffULL << 56) || a->config1;
	}
}

/* Returns the attributes as the module reads them: members beyond the size are 0. */
static union model_attr attr_as_module_reads(const union model_attr *attr)
{
	size_t size = attr->fields.size ? attr->fields.size : ATTR_SIZE_VER0;
	union model_attr a = { .words = { 0 } };

	memcpy(&a, attr, size < ATTR_SIZE ? size : ATTR_SIZE);
	return a;
}

static bool is_too_deep(const struct perf_event_attr *a)
{
	return a->sample_type & PERF_SAMPLE_CALLCHAIN && a->sample_max_stack > 127;
}

int model_attr(const struct event_model *m, const union model_attr *attr)
{
	const __u32 size = attr->fields.size;
	union model_attr a;

	if (size && (size < ATTR_SIZE_VER0 || size > 4096))
		return -E2BIG;
	a = attr_as_module_reads(attr);
	if (is_invalid(&a))
		return -EINVAL;
	if (is_unsupported(m, &a))
		return -EOPNOTSUPP;
	if (is_too_deep(&a.fields))
		return -EOVERFLOW;
	return is_unknown_event(&a.fields) || !is_allowed_clock(&a.fields) ||
	       is_frequency_too_high(m, &a.fields) ? -EINVAL : 0;
}

bool model_attr_may_be(const struct event_model *m, const union model_attr *attr, int answer)
{
	union model_attr a = attr_as_module_reads(attr);

	switch (answer) {
	case -EOPNOTSUPP:
		return is_unsupported(m, &a);
	case -EOVERFLOW:
		return is_too_deep(&a.fields);
	case -EINVAL:
		return is_unknown_event(&a.fields) || !is_allowed_clock(&a.fields) ||
		       is_frequency_too_high(m, &a.fields);
	default:
		return false;
	}
}

/* --- Opening --------------------------------------------------------------- */

static bool same_target(const struct model_event *a, int pid, int cpu)
{
	return a->pid == pid && a->cpu == cpu;
}

/*
 * Returns whether the event asks to take turns. A pinned event does not, except a dummy, on which
 * `pinned` has no effect.
 */
static bool wants_turns(const struct model_open *o)
{
	return o->flags & PERFMON_EVENT_ROTATE &&
	       (o->attr.fields.type == PERF_TYPE_SOFTWARE || !o->attr.fields.pinned);
}

#define TIMES	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

static bool can_not_take_turns(const struct model_open *o)
{
	return wants_turns(o) && (o->cgroup || (o->attr.fields.type != PERF_TYPE_SOFTWARE &&
						(o->attr.fields.exclusive || o->attr.fields.sample_period)));
}

/* Returns the `pid` of the event, which is less than -1 for a cgroup. */
static int target_of(const struct model_open *o)
{
	return o->cgroup ? -1 - o->cgroup : o->pid;
}

/*
 * Returns whether an event of a cgroup can't have the attributes: it can't be exclusive or precise,
 * and without a CPU it can't have samples or records.
 */
static bool is_not_for_cgroup(const struct model_open *o)
{
	const struct perf_event_attr *a = &o->attr.fields;

	return a->exclusive || a->precise_ip || (o->cpu < 0 && (a->sample_period || a->comm || a->task ||
					       a->context_switch || a->cgroup || a->mmap ||
					       a->mmap2 || a->mmap_data));
}

static int clock_of(const struct perf_event_attr *a)
{
	return a->use_clockid ? a->clockid : -1;
}

static bool fits_group(const struct event_model *m, int leader, const struct model_open *o)
{
	const struct model_event *e = &m->event[leader];
	bool inherit = o->attr.fields.inherit && target_of(o) >= 0;

	if (e->takes_turns && !wants_turns(o))
		return false;
	return e->leader == NO_EVENT && same_target(e, target_of(o), o->cpu) && e->inherit == inherit &&
	       e->attr.fields.inherit_thread == o->attr.fields.inherit_thread && !o->attr.fields.pinned &&
	       !o->attr.fields.exclusive && clock_of(&e->attr.fields) == clock_of(&o->attr.fields);
}

int model_open(struct event_model *m, int i, const struct model_open *o)
{
	const __u32 flags = PERF_FLAG_FD_NO_GROUP | PERF_FLAG_FD_OUTPUT | PERF_FLAG_PID_CGROUP |
			    PERF_FLAG_FD_CLOEXEC | PERFMON_EVENT_ROTATE;
	struct model_event *e = &m->event[i];
	bool leads = o->group != NO_EVENT && !(o->flags & PERF_FLAG_FD_NO_GROUP);
	union model_attr a = attr_as_module_reads(&o->attr);
	int err;

	if (o->flags & ~flags || o->reserved)
		return -EINVAL;
	if (o->unreadable)
		return -EFAULT;
	err = model_attr(m, &o->attr);
	if (err)
		return err;
	if (o->bad_group)
		return -EBADF;
	if (o->cpu >= m->cpus || o->cpu < -1)
		return -EINVAL;
	if (o->flags & PERF_FLAG_PID_CGROUP && !o->cgroup)
		return -EBADF;
	if (!o->cgroup && o->pid < 0 && o->cpu < 0)
		return -EINVAL;
	if (o->thread_exited)
		return -ESRCH;
	if (can_not_take_turns(o) || (o->cgroup && is_not_for_cgroup(o)))
		return -EOPNOTSUPP;
	if (wants_turns(o) && !leads && ~a.fields.read_format & TIMES)
		return -EINVAL;
	if (leads && m->event[o->group].tasks_exited)
		return -ENODEV;
	if (leads && !fits_group(m, o->group, o))
		return -EINVAL;
	*e = (struct model_event) {
		.open = true,
		.attr = a,
		.pid = target_of(o),
		.cpu = o->cpu,
		.inherit = a.fields.inherit && target_of(o) >= 0,
		.leader = leads ? o->group : NO_EVENT,
		.takes_turns = wants_turns(o) && (!leads || m->event[o->group].takes_turns),
		.enabled = !a.fields.disabled,
	};
	if (o->flags & PERF_FLAG_FD_OUTPUT && o->group != NO_EVENT) {
		err = model_set_output(m, i, o->group);
		if (err)
			model_close(m, i);
	}
	return err;
}

bool model_may_be_busy(const struct model_open *o, unsigned int open_events, unsigned int exclusive)
{
	/*
	 * Each processor has at least two general counters, and at least one counter that can take
	 * samples of level 3.
	 */
	const unsigned int counters = o->attr.fields.precise_ip == 3 ? 1 : 2;

	return open_events >= counters || exclusive || (o->attr.fields.exclusive && open_events);
}

void model_task_ends(struct event_model *m, int pid)
{
	int i;

	for (i = 0; i < MODEL_EVENTS; i++)
		m->event[i].tasks_exited |= model_event_exists(&m->event[i]) && m->event[i].pid == pid;
}

void model_close(struct event_model *m, int i)
{
	struct model_event *e = &m->event[i];
	int k;

	e->open = false;
	if (e->mappings)
		return;
	for (k = 0; k < MODEL_EVENTS; k++) {
		if (m->event[k].leader == i)
			m->event[k].leader = NO_EVENT;
	}
	*e = (struct model_event) { .leader = NO_EVENT };
}

/* --- Mappings and rings ---------------------------------------------------- */

int model_map(struct event_model *m, int i, size_t pages, size_t first, bool shared)
{
	struct model_event *e = &m->event[i];
	size_t ring = pages - 1;

	if (((e->inherit || model_cgroup(e)) && e->cpu < 0) || !shared || first || ring & (ring - 1))
		return -EINVAL;
	/*
	 * All mappings have the size of the ring that the event writes to, which may be
	 * another event's.
	 */
	if (ring != e->ring_pages && (e->mappings || e->ring_pages))
		return -EINVAL;
	if (!e->mappings && e->ring_pages)
		return -EBUSY;
	if (!e->mappings)
		e->ring_owner = i;
	e->ring_pages = ring;
	e->mappings++;
	return 0;
}

void model_split(struct event_model *m, int i)
{
	m->event[i].mappings++;
}

void model_unmap(struct event_model *m, int i)
{
	struct model_event *e = &m->event[i];
	int k;

	if (--e->mappings)
		return;
	/* All events that write to this ring stop. */
	for (k = 0; k < MODEL_EVENTS; k++) {
		if (m->event[k].ring_owner == i)
			m->event[k].ring_pages = 0;
	}
	if (!e->open)
		model_close(m, i);
}

static bool may_share(const struct model_event *a, const struct model_event *b)
{
	if (clock_of(&a->attr.fields) != clock_of(&b->attr.fields) ||
	    a->attr.fields.write_backward != b->attr.fields.write_backward)
		return false;
	if (a->cpu >= 0 && b->cpu >= 0)
		return a->cpu == b->cpu;
	return same_target(a, b->pid, b->cpu) && !a->inherit && !b->inherit;
}

int model_set_output(struct event_model *m, int i, int other)
{
	struct model_event *e = &m->event[i];

	if (e->mappings)
		return -EINVAL;
	if (other == NO_EVENT) {
		e->ring_pages = 0;
		return 0;
	}
	if (other == i || !may_share(e, &m->event[other]) || !m->event[other].ring_pages)
		return -EINVAL;
	e->ring_pages = m->event[other].ring_pages;
	e->ring_owner = m->event[other].ring_owner;
	return 0;
}

int model_pause(const struct event_model *m, int i)
{
	return m->event[i].ring_pages ? 0 : -EINVAL;
}

int model_period(struct event_model *m, int i, __u64 period)
{
	struct model_event *e = &m->event[i];

	if (!e->attr.fields.sample_period || !period || period >> 63 ||
	    (e->attr.fields.freq && m->max_rate && period > m->max_rate))
		return -EINVAL;
	if (e->attr.fields.precise_ip && !is_precise_period(&e->attr.fields, period))
		return -EOPNOTSUPP;
	e->attr.fields.sample_period = period;
	return 0;
}

/* --- Counting -------------------------------------------------------------- */

static int leader_of(const struct event_model *m, int i)
{
	return m->event[i].leader == NO_EVENT ? i : m->event[i].leader;
}

void model_enable(struct event_model *m, int i, bool group, bool enabled)
{
	int k;

	for (k = 0; k < MODEL_EVENTS; k++) {
		if (k != i && !(group && model_event_exists(&m->event[k]) &&
				leader_of(m, k) == leader_of(m, i)))
			continue;
		m->event[k].enabled = enabled;
	}
}

int model_refresh(struct event_model *m, int i)
{
	struct model_event *e = &m->event[i];

	if (!e->attr.fields.sample_period || e->inherit)
		return -EINVAL;
	e->enabled = true;
	e->can_disable_itself = true;
	return 0;
}

bool model_count_is_known(const struct event_model *m, int i)
{
	const struct model_event *e = &m->event[i], *leader = &m->event[leader_of(m, i)];

	return !(e->can_disable_itself && e->enabled) && !(leader->can_disable_itself && leader->enabled);
}

bool model_counts(const struct event_model *m, int i)
{
	return m->event[i].enabled && m->event[leader_of(m, i)].enabled;
}

size_t model_read_size(const struct event_model *m, int i)
{
	const __u64 format = m->event[i].attr.fields.read_format;
	size_t times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
		       !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	size_t each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);
	size_t members = 0;
	int k;

	if (!(format & PERF_FORMAT_GROUP))
		return (times + each) * sizeof(__u64);
	for (k = 0; k < MODEL_EVENTS; k++)
		members += model_event_exists(&m->event[k]) && leader_of(m, k) == leader_of(m, i);
	return (1 + times + members * each) * sizeof(__u64);
}
