// SPDX-License-Identifier: GPL-2.0-only
#include <limits.h>
#include <string.h>

#include <linux/perf_event.h>

#include "calls.h"
#include "device.h"
#include "places.h"
#include "random_call.h"
#include "trace.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))

/*
 * The largest size of a buffer in pages. It is small, so that many buffers can be allocated, and
 * many become full.
 */
#define MAX_PAGES	8

/*
 * The number of model-specific events. It is small, so that the events of a config are likely to be
 * defined.
 */
#define MODEL_EVENTS	3

#define PICK(rng, array)	((array)[rng_below((rng), ARRAY_SIZE(array))])

static __u64 random_number(struct rng *rng, const struct machine *m)
{
	const int general = m->properties.max_num_programmable_events;
	const int fixed = m->properties.max_num_fixed_events;
	const int edges[] = {
		PMC_ALL, general - 1, general, NPMC, INT_MAX, INT_MIN,
		PMC_FIXED(-1), PMC_FIXED(fixed), PMC_FIXED(63),
	};

	if (rng_once_in(rng, 12))
		return PICK(rng, edges);
	/* Chooses among few counters, so that later calls are likely to use the same counter. */
	if (fixed && rng_once_in(rng, 4))
		return PMC_FIXED(rng_below(rng, fixed < 2 ? fixed : 2));
	return rng_below(rng, general < 3 ? general : 3);
}

/* Events that the virtual PMU counts, and some that it does not. */
static const __u16 events[] = {
	EVENT_INSTRUCTIONS, EVENT_INSTRUCTIONS, EVENT_INSTRUCTIONS,
	0x003c, 0x013c, 0x00c4, 0x00c5, 0x4f2e, 0x412e, 0x01c0, 0x0000, 0xffff,
};

static __u64 random_select(struct rng *rng, int size)
{
	__u64 select = PICK(rng, events);

	select |= rng_below(rng, 4) << 16;
	switch (rng_below(rng, 16)) {
	case 0:
		select |= rng_below(rng, 1 << 16) << 16;
		break;
	case 1:
		select |= (__u64)PMCF_SYS_FLAGS << 16;
		break;
	case 2:
		/* A valid select of a fixed counter. */
		select &= 0xff0000;
		break;
	case 3:
		select |= 1ULL << rng_below(rng, 8 * size);
		break;
	case 4:
		/* The upper event bits, which only AMD has. */
		select |= (size == 8 ? rng_below(rng, 16) : 0) << 32;
		break;
	}
	return select;
}

static __u64 random_pages(struct rng *rng)
{
	static const __u32 edges[] = {
		0, PERFMON_MAX_BUFFER_PAGES + 1, 1U << 20, 1U << 31, ~0U,
	};

	if (rng_once_in(rng, 8))
		return PICK(rng, edges);
	return 1 + rng_below(rng, MAX_PAGES);
}

static __u16 random_model_id(struct rng *rng)
{
	static const __u16 edges[] = {
		0, MODEL_EVENT(PERFMON_MAX_EVENT), MODEL_EVENT(-1),
		MISC_EVENT(ENERGY_PACKAGE), 0xffff,
	};

	if (rng_once_in(rng, 8))
		return PICK(rng, edges);
	return MODEL_EVENT(rng_below(rng, MODEL_EVENTS));
}

static __u64 random_cpu(struct rng *rng, const struct machine *m)
{
	const __u32 edges[] = { m->info.nr_cpu_ids, 1U << 16, 1U << 31, ~0U };

	if (rng_once_in(rng, 8))
		return PICK(rng, edges);
	return rng_below(rng, m->info.nr_cpu_ids);
}

static __u64 random_buffers(struct rng *rng, const struct machine *m)
{
	const __u32 edges[] = { 0, m->info.nr_cpu_ids + 1, 1U << 31, ~0U };

	return rng_once_in(rng, 12) ? PICK(rng, edges) : m->info.nr_cpu_ids;
}

static __u64 random_cpu_count(struct rng *rng, const struct machine *m)
{
	const __u32 edges[] = { 0, PMC_CPU_MAX, PMC_CPU_MAX + 1, 1U << 31, ~0U };

	return rng_once_in(rng, 4) ? PICK(rng, edges) :
				      1 + rng_below(rng, m->info.nr_cpu_ids);
}

static __u16 random_event_id(struct rng *rng)
{
	static const __u16 edges[] = {
		PERFMON_EVENT_ID_NONE, 1,
		MISC_EVENT(ENERGY_PACKAGE),
		PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, 8),
		PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, 0),
		PERFMON_MAKE_EVENT_ID(PERFMON_MAX_GROUP, PERFMON_MAX_EVENT),
		MODEL_EVENT(PERFMON_MAX_EVENT),
	};

	switch (rng_below(rng, 16)) {
	case 0:
		return PICK(rng, edges);
	case 1 ... 3:
		return MODEL_EVENT(rng_below(rng, MODEL_EVENTS));
	case 4 ... 6:
		return PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED,
					     1 + rng_below(rng, 4));
	case 7 ... 9:
		return INSTRUCTIONS;
	default:
		return PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH,
					     rng_below(rng, 8));
	}
}

/* Returns a rate, in most cases large enough that the machine has time for other work. */
static __u32 random_rate(struct rng *rng)
{
	static const __u32 edges[] = {
		1, 2, 97, 1U << 24, (1U << 31) - 1, 1U << 31, (1U << 31) + 1,
		~0U,
	};

	switch (rng_below(rng, 8)) {
	case 0:
		return PICK(rng, edges);
	case 1 ... 3:
		return 0;
	default:
		return 10000 + rng_below(rng, 1000000);
	}
}

static __u32 random_config_flags(struct rng *rng)
{
	__u32 flags = rng_below(rng, FLAG_TIMEBASE0);

	if (rng_once_in(rng, 4))
		flags |= FLAG_TIMEBASE0;
	if (rng_once_in(rng, 8))
		flags |= FLAG_LAST_BRANCH;
	if (rng_once_in(rng, 32))
		flags |= 1U << rng_below(rng, 32);
	return flags;
}

/* Makes a valid config, provided that its model-specific events are defined. */
static void plain_config(struct perfmon_config *c, struct rng *rng,
			 const struct machine *m)
{
	static const __u16 pool[] = {
		INSTRUCTIONS, FIXED_EVENT(INSTRUCTIONS_RETIRED),
		ARCH_EVENT(UNHALTED_CORE_CYCLES), ARCH_EVENT(BRANCHES_RETIRED),
		FIXED_EVENT(UNHALTED_CORE_CYCLES), MODEL_EVENT(0), MODEL_EVENT(1),
	};
	const int n = 1 + rng_below(rng, 4), first = rng_below(rng, ARRAY_SIZE(pool));
	int i, k = 0;
	__u16 id;

	for (i = 0; i < n; i++) {
		id = pool[(first + i) % ARRAY_SIZE(pool)];
		if (PERFMON_EVENT_ID_GROUP(id) == PERFMON_GROUP_FIXED &&
		    !m->properties.max_num_fixed_events)
			continue;
		c->events[k] = id;
		c->rate[k] = random_rate(rng);
		c->flags[k] = rng_below(rng, FLAG_TIMEBASE0);
		if (k && c->rate[0] && rng_once_in(rng, 3))
			c->flags[k] |= FLAG_TIMEBASE0;
		k++;
	}
}

static void random_config(struct rng *rng, const struct machine *m,
			  struct perfmon_config *c)
{
	int i, n;

	memset(c, 0, sizeof(*c));
	plain_config(c, rng, m);
	if (rng_below(rng, 3))
		return;
	/* Takes any number of events, even more than there are counters. */
	n = rng_below(rng, rng_once_in(rng, 8) ? PERFMON_MAX_EVENTS + 1 : 4);
	for (i = 0; i < n; i++) {
		c->events[i] = random_event_id(rng);
		c->rate[i] = random_rate(rng);
		c->flags[i] = random_config_flags(rng);
	}
}

/* Returns 0 mostly, else perf's type of the big cores or a type of no kind of core. */
static __u64 random_core_type(struct rng *rng)
{
	static const __u32 edges[] = { PERF_TYPE_RAW, PERF_TYPE_RAW, 1, 1U << 31, ~0U };

	return rng_once_in(rng, 8) ? PICK(rng, edges) : 0;
}

static __u64 random_value(struct rng *rng, const struct machine *m,
			  const struct command_field *f)
{
	switch (f->kind) {
	case NUMBER:
		return random_number(rng, m);
	case SELECT:
	case DEFINITION:
		return random_select(rng, f->size);
	case ZERO:
		return rng_once_in(rng, 24) ? 1ULL << rng_below(rng, 64) : 0;
	case CORE_TYPE:
		return random_core_type(rng);
	case CPU:
		return random_cpu(rng, m);
	case CPU_COUNT:
		return random_cpu_count(rng, m);
	case BUFFERS:
		return random_buffers(rng, m);
	case PAGES_EACH:
		return random_pages(rng);
	case MODEL_ID:
		return random_model_id(rng);
	case CONFIG:
		break;
	}
	return 0;
}

static void random_field(struct call *c, struct rng *rng,
			 const struct machine *m, const struct command_field *f)
{
	if (f->kind == CONFIG)
		random_config(rng, m, &c->arg.config);
	else
		field_put(f, &c->arg, random_value(rng, m, f));
}

static void random_place(struct call *c, struct rng *rng)
{
	c->where = rng_once_in(rng, 10) ? rng_below(rng, NON_CANONICAL + 1) :
					  GOOD;
	c->offset = rng_below(rng, 4096);
}

/* Returns a random field of a command, or NULL if it has none. */
static const struct command_field *choose_field(const struct command *command,
						struct rng *rng)
{
	int n = 0;

	while (n < COMMAND_FIELDS && command->fields[n].kind)
		n++;
	return n ? &command->fields[rng_below(rng, n)] : NULL;
}

/*
 * Returns another command with the same type (letter). With another letter, the command could be
 * one that the kernel handles for all files.
 */
static unsigned int other_command(unsigned int cmd, struct rng *rng)
{
	const unsigned int bit = rng_below(rng, 24);

	return cmd ^ 1U << (bit < 8 ? bit : bit + 8);
}

/*
 * If the call sets up an event of a kind of core, replaces the event by an architectural event or
 * by event 0: the model does not know which counters can count other events.
 */
static void fix_event_of_type(struct call *c, struct rng *rng)
{
	static const __u16 architectural[] = { EVENT_INSTRUCTIONS, 0x003c, 0x00c4, 0x0000 };
	const __u64 event = PICK(rng, architectural);

	if (c->cmd == PMIOSETUP2 && c->arg.pmc2.pmc2_type)
		c->arg.pmc2.pmc2_select = (c->arg.pmc2.pmc2_select & ~0xffffULL) | event;
	if (c->cmd == PERFMON_DEFINE_EVENT && c->arg.definition.type)
		c->arg.definition.select = (c->arg.definition.select & ~0xffffULL) | event;
}

void call_mutate(struct call *c, struct rng *rng, const struct machine *m)
{
	const struct command_field *f = choose_field(&commands[c->command], rng);
	size_t word;

	switch (rng_below(rng, 8)) {
	case 0:
		c->cmd = other_command(c->cmd, rng);
		break;
	case 1:
		random_place(c, rng);
		break;
	case 2:
		if (c->size)
			c->arg.bytes[rng_below(rng, c->size)] ^=
				1U << rng_below(rng, 8);
		break;
	case 3:
		if (c->size >= sizeof(__u32)) {
			static const __u32 edges[] = { 0, 1, 1U << 31, ~0U };

			word = rng_below(rng, c->size / sizeof(__u32));
			memcpy(c->arg.bytes + word * sizeof(__u32),
			       &PICK(rng, edges), sizeof(__u32));
		}
		break;
	default:
		if (f)
			random_field(c, rng, m, f);
	}
	fix_event_of_type(c, rng);
}

void call_random(struct call *c, struct rng *rng, const struct machine *m)
{
	const struct command *command;
	int i;

	memset(c, 0, sizeof(*c));
	c->command = rng_below(rng, COMMANDS);
	command = &commands[c->command];
	c->cmd = command->cmd;
	c->size = _IOC_SIZE(c->cmd);
	for (i = 0; i < COMMAND_FIELDS && command->fields[i].kind; i++)
		random_field(c, rng, m, &command->fields[i]);
	random_place(c, rng);
	if (rng_once_in(rng, 16))
		call_mutate(c, rng, m);
	fix_event_of_type(c, rng);
}

struct call call_make(unsigned int cmd, const void *arg, __u16 size)
{
	struct call c = {
		.cmd = cmd,
		.size = _IOC_SIZE(cmd),
		.where = GOOD,
		.command = command_find(cmd) - commands,
	};

	if (arg)
		memcpy(c.arg.bytes, arg, size);
	return c;
}
