// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "device.h"
#include "msr.h"
#include "trace.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))

/* Buffers stay small: many are allocated, and many are filled. */
#define MAX_PAGES	8

/* Few model-specific events, so that those of a config have been defined. */
#define MODEL_EVENTS	3

/* What a field means. */
enum kind {
	NUMBER = 1,	/* of a counter */
	SELECT,		/* an event select, as wide as the field */
	ZERO,		/* must be 0 */
	CPU,
	CPU_COUNT,	/* how many values of CPUs are wanted */
	BUFFERS,	/* how many buffers there are */
	PAGES,
	MODEL_ID,
	CONFIG,		/* all of struct perfmon_config */
};

struct field {
	enum kind kind;
	__u16 offset;
	__u16 size;
};

struct command {
	const char *name;
	unsigned int cmd;
	struct field fields[6];
};

#define FIELD(kind, type, member) \
	{ kind, offsetof(struct type, member), sizeof(((struct type *)0)->member) }
#define INT_NUMBER	{ NUMBER, 0, sizeof(int) }

static const struct command commands[CALLS_COMMANDS] = {
	{ "PMIOSETUP", PMIOSETUP, {
		FIELD(NUMBER, pmc, pmc_num),
		FIELD(SELECT, pmc, pmc_val),
	} },
	{ "PMIOSTART", PMIOSTART, { INT_NUMBER } },
	{ "PMIOSTOP", PMIOSTOP, { INT_NUMBER } },
	{ "PMIOREAD", PMIOREAD, { FIELD(NUMBER, pmc_data, pmcd_num) } },
	{ "PMIORESET", PMIORESET, { INT_NUMBER } },
	{ "PMIOTSTAMP", PMIOTSTAMP, { } },
	{ "PMIOGET", PMIOGET, { FIELD(NUMBER, pmc, pmc_num) } },
	{ "PMIOREADCPU", PMIOREADCPU, {
		FIELD(NUMBER, pmc_cpu_data, pmcc_num),
		FIELD(CPU, pmc_cpu_data, pmcc_first_cpu),
		FIELD(CPU_COUNT, pmc_cpu_data, pmcc_count),
		FIELD(ZERO, pmc_cpu_data, reserved),
	} },
	{ "PMIOSETUP2", PMIOSETUP2, {
		FIELD(NUMBER, pmc2, pmc2_num),
		FIELD(ZERO, pmc2, pmc2_flags),
		FIELD(SELECT, pmc2, pmc2_select),
		FIELD(ZERO, pmc2, pmc2_extra),
		FIELD(ZERO, pmc2, reserved),
	} },
	{ "PMIOGET2", PMIOGET2, {
		FIELD(NUMBER, pmc2, pmc2_num),
		FIELD(ZERO, pmc2, pmc2_flags),
		FIELD(ZERO, pmc2, pmc2_extra),
		FIELD(ZERO, pmc2, reserved),
	} },
	{ "GET_PROPERTIES", IOCTL_PERFMON_GET_PROPERTIES, { } },
	{ "ALLOC_TRACE", IOCTL_PERFMON_ALLOC_TRACE, {
		FIELD(BUFFERS, perfmon_alloc, num_buffers),
		FIELD(PAGES, perfmon_alloc, buffer_size_in_pages),
	} },
	{ "FREE_TRACE", IOCTL_PERFMON_FREE_TRACE, { } },
	{ "GET_ALLOC", IOCTL_PERFMON_GET_ALLOC, { } },
	{ "STAGE_CONFIG", IOCTL_PERFMON_STAGE_CONFIG, {
		{ CONFIG, 0, sizeof(struct perfmon_config) },
	} },
	{ "GET_CONFIG", IOCTL_PERFMON_GET_CONFIG, { } },
	{ "GET_BUFFER_HANDLE", IOCTL_PERFMON_GET_BUFFER_HANDLE, {
		FIELD(CPU, perfmon_buffer_handle_req, descriptor),
	} },
	{ "START", IOCTL_PERFMON_START, { } },
	{ "STOP", IOCTL_PERFMON_STOP, { } },
	{ "DEFINE_EVENT", PERFMON_DEFINE_EVENT, {
		FIELD(MODEL_ID, perfmon_event_definition, id),
		FIELD(ZERO, perfmon_event_definition, reserved),
		FIELD(SELECT, perfmon_event_definition, select),
		FIELD(ZERO, perfmon_event_definition, extra),
		FIELD(ZERO, perfmon_event_definition, reserved2),
	} },
	{ "GET_INFO", PERFMON_GET_INFO, { } },
};

const char *command_name(unsigned int i)
{
	return commands[i].name;
}

/* --- The machine --------------------------------------------------------- */

/*
 * Intel SDM, volume 2A, "CPUID", leaf 0AH: EBX tells which architectural events
 * are missing, of as many as EAX[31:24] says. AMD has no such leaf; there the
 * core counts neither reference cycles nor slots.
 */
static void read_arch_events(struct machine *m)
{
	const __u32 missing_on_amd =
		1U << PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES |
		1U << PERFMON_ARCH_EVENT_TOPDOWN_SLOTS;
	unsigned int eax = 0, ebx = 0, ecx, edx;
	__u32 told;

	if (m->intel) {
		__get_cpuid(0xa, &eax, &ebx, &ecx, &edx);
		told = (1ULL << (eax >> 24)) - 1;
		m->arch_missing = told & ebx;
		m->arch_events = told & ~ebx;
	} else {
		m->arch_missing = 0;
		m->arch_events = 0xff & ~missing_on_amd;
	}
}

int machine_read(struct machine *m)
{
	struct pmc_tstamp t;
	int fd, err;

	fd = device_open(O_RDONLY);
	if (fd < 0)
		return fd;
	err = device_properties(fd, &m->properties);
	if (!err)
		err = device_ioctl(fd, PERFMON_GET_INFO, &m->info);
	m->intel = pmu_registers()->select0 == MSR_IA32_PERFEVTSEL0;
	m->tstamp = device_ioctl(fd, PMIOTSTAMP, &t) != -ENOTTY;
	read_arch_events(m);
	close(fd);
	return err;
}

/* --- Values -------------------------------------------------------------- */

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
	/* Few counters, so that a sequence of calls comes back to them. */
	if (fixed && rng_once_in(rng, 4))
		return PMC_FIXED(rng_below(rng, fixed < 2 ? fixed : 2));
	return rng_below(rng, general < 3 ? general : 3);
}

/* Events that the virtual PMU counts, and others. */
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
		/* That of a fixed counter. */
		select &= 0xff0000;
		break;
	case 3:
		select |= 1ULL << rng_below(rng, 8 * size);
		break;
	case 4:
		/* Bits that only AMD has. */
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
		PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, 0), 0xffff,
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
		PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, 0),
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

/* Rates at which a machine gets something else done are the more frequent. */
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

/* A config that is right, if its model-specific events have been defined. */
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
	/* Anything, up to more events than there are counters. */
	n = rng_below(rng, rng_once_in(rng, 8) ? PERFMON_MAX_EVENTS + 1 : 4);
	for (i = 0; i < n; i++) {
		c->events[i] = random_event_id(rng);
		c->rate[i] = random_rate(rng);
		c->flags[i] = random_config_flags(rng);
	}
}

static __u64 random_value(struct rng *rng, const struct machine *m,
			  const struct field *f)
{
	switch (f->kind) {
	case NUMBER:
		return random_number(rng, m);
	case SELECT:
		return random_select(rng, f->size);
	case ZERO:
		return rng_once_in(rng, 24) ? 1ULL << rng_below(rng, 64) : 0;
	case CPU:
		return random_cpu(rng, m);
	case CPU_COUNT:
		return random_cpu_count(rng, m);
	case BUFFERS:
		return random_buffers(rng, m);
	case PAGES:
		return random_pages(rng);
	case MODEL_ID:
		return random_model_id(rng);
	case CONFIG:
		break;
	}
	return 0;
}

static void random_field(struct call *c, struct rng *rng,
			 const struct machine *m, const struct field *f)
{
	__u64 value;

	if (f->kind == CONFIG) {
		random_config(rng, m, &c->arg.config);
		return;
	}
	/* The machine is little-endian; of a longer field the rest stays 0. */
	value = random_value(rng, m, f);
	memcpy(c->arg.bytes + f->offset, &value,
	       f->size < sizeof(value) ? f->size : sizeof(value));
}

static void random_place(struct call *c, struct rng *rng)
{
	c->where = rng_once_in(rng, 10) ? rng_below(rng, NON_CANONICAL + 1) :
					  GOOD;
	c->offset = rng_below(rng, 4096);
}

/* The field at random of a command that has one; NULL if it has none. */
static const struct field *any_field(const struct command *command,
				     struct rng *rng)
{
	int n = 0;

	while (n < (int)ARRAY_SIZE(command->fields) && command->fields[n].kind)
		n++;
	return n ? &command->fields[rng_below(rng, n)] : NULL;
}

/*
 * Not the bits of the letter: with another one it could be a command that the
 * kernel knows for all files.
 */
static unsigned int other_command(unsigned int cmd, struct rng *rng)
{
	const unsigned int bit = rng_below(rng, 24);

	return cmd ^ 1U << (bit < 8 ? bit : bit + 8);
}

void call_mutate(struct call *c, struct rng *rng, const struct machine *m)
{
	const struct field *f = any_field(&commands[c->command], rng);
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
}

void call_random(struct call *c, struct rng *rng, const struct machine *m)
{
	const struct command *command;
	size_t i;

	memset(c, 0, sizeof(*c));
	c->command = rng_below(rng, ARRAY_SIZE(commands));
	command = &commands[c->command];
	c->cmd = command->cmd;
	c->size = _IOC_SIZE(c->cmd);
	for (i = 0; i < ARRAY_SIZE(command->fields) && command->fields[i].kind; i++)
		random_field(c, rng, m, &command->fields[i]);
	random_place(c, rng);
	if (rng_once_in(rng, 16))
		call_mutate(c, rng, m);
}

struct call call_of(unsigned int cmd, const void *arg, __u16 size)
{
	struct call c = { .cmd = cmd, .size = _IOC_SIZE(cmd), .where = GOOD };

	while (commands[c.command].cmd != cmd)
		c.command++;
	if (arg)
		memcpy(c.arg.bytes, arg, size);
	return c;
}

/* --- Places -------------------------------------------------------------- */

int places_map(struct places *p)
{
	const int both = PROT_READ | PROT_WRITE;
	int fd, err = 0;

	p->page_size = sysconf(_SC_PAGESIZE);
	fd = memfd_create("arguments", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, 4 * p->page_size))
		err = -errno;
	p->pages = mmap(NULL, 4 * p->page_size, both, MAP_SHARED, fd, 0);
	p->alias = mmap(NULL, 3 * p->page_size, both, MAP_SHARED, fd, 0);
	close(fd);
	if (err)
		return err;
	if (p->pages == MAP_FAILED || p->alias == MAP_FAILED ||
	    mprotect(p->pages + 2 * p->page_size, p->page_size, PROT_READ) ||
	    munmap(p->pages + 3 * p->page_size, p->page_size))
		return -errno;
	return 0;
}

/* The address that is so far before the end of page @page. */
static long before_end(const struct places *places, int page, long bytes)
{
	return (page + 1) * places->page_size - bytes;
}

/* 32-bit programs can have all but the last page. */
static const unsigned long nowhere[] = {
	[UNMAPPED] = 0,
	[KERNEL] = sizeof(long) == 8 ? -1UL << 40 : -4096UL,
	[NON_CANONICAL] = 1UL << (8 * sizeof(long) - 2),
};

struct placed call_place(const struct places *places, const struct call *c)
{
	const long page = places->page_size, size = c->size;
	/* Some bytes on this side of a border, and at least one beyond it. */
	const long part = size > 1 ? 1 + c->offset % (size - 1) : 0;
	struct placed placed = { .readable = true, .writable = true };
	long at = 0;

	switch (c->where) {
	case GOOD:
		at = c->offset % (page - size);
		break;
	case CROSSING:
		at = before_end(places, 0, part);
		break;
	case HALF_WRITABLE:
		at = before_end(places, 1, part);
		placed.writable = !size;
		break;
	case READ_ONLY:
		at = 2 * page + c->offset % (page - size);
		placed.writable = !size;
		break;
	case STRADDLING:
		at = before_end(places, 2, part);
		placed.readable = placed.writable = !size;
		break;
	default:
		placed.readable = placed.writable = !size;
		placed.p = (char *)nowhere[c->where] + c->offset;
		return placed;
	}
	placed.p = places->pages + at;
	if (placed.readable)
		placed.alias = places->alias + at;
	return placed;
}
