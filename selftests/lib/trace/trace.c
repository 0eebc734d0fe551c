// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpi.h"
#include "cpu.h"
#include "device.h"
#include "trace.h"

int trace_alloc_buffers(int fd, __u32 buffers, __u32 pages)
{
	struct perfmon_alloc alloc = {
		.num_buffers = buffers,
		.buffer_size_in_pages = pages,
	};

	return device_ioctl(fd, IOCTL_PERFMON_ALLOC_TRACE, &alloc);
}

int trace_handle(int fd, __u32 cpu)
{
	struct perfmon_buffer_handle_req req = { .descriptor = cpu };
	int handle = ioctl(fd, IOCTL_PERFMON_GET_BUFFER_HANDLE, &req);

	return handle < 0 ? -errno : handle;
}

int trace_stage(struct trace *t, const struct perfmon_config *config)
{
	int err = device_ioctl(t->fd, IOCTL_PERFMON_STAGE_CONFIG,
			       (void *)config);

	if (!err)
		t->config = *config;
	return err;
}

int trace_start(struct trace *t)
{
	return device_ioctl(t->fd, IOCTL_PERFMON_START, NULL);
}

int trace_stop(struct trace *t)
{
	return device_ioctl(t->fd, IOCTL_PERFMON_STOP, NULL);
}

int trace_all_counters(struct perfmon_config *c, const struct perfmon_properties *p)
{
	int i, n = 0;

	for (i = 0; i < p->max_num_programmable_events; i++, n++)
		c->events[n] = MODEL_EVENT(i);
	for (i = 0; i < p->max_num_fixed_events; i++, n++)
		c->events[n] = PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, i + 1);
	return n;
}

int trace_define(int fd, unsigned int n, __u64 select)
{
	struct perfmon_event_definition definition = {
		.id = MODEL_EVENT(n),
		.select = select,
	};

	return device_ioctl(fd, PERFMON_DEFINE_EVENT, &definition);
}

/* Maps the buffer of one CPU. */
static int map_buffer(struct trace *t, unsigned int cpu)
{
	int err = 0, handle = trace_handle(t->fd, cpu);
	void *p;

	if (handle < 0)
		return handle;
	p = mmap(NULL, t->size, PROT_READ, MAP_SHARED, handle, 0);
	if (p == MAP_FAILED)
		err = -errno;
	else
		t->buffer[cpu] = p;
	close(handle);
	return err;
}

int trace_map(struct trace *t)
{
	unsigned int cpu;
	int err = 0;

	for (cpu = 0; cpu < t->cpus && !err; cpu++)
		err = map_buffer(t, cpu);
	return err;
}

void trace_unmap(struct trace *t)
{
	unsigned int cpu;

	for (cpu = 0; cpu < t->cpus; cpu++) {
		if (t->buffer[cpu])
			munmap((void *)t->buffer[cpu], t->size);
		t->buffer[cpu] = NULL;
	}
}

int trace_alloc(struct trace *t, int fd, __u32 pages)
{
	int err;

	memset(t, 0, sizeof(*t));
	t->fd = fd;
	t->cpus = cpu_ids();
	t->size = pages * (size_t)sysconf(_SC_PAGESIZE);
	if (t->cpus > TRACE_MAX_CPUS)
		return -E2BIG;
	err = trace_alloc_buffers(fd, t->cpus, pages);
	return err ? err : trace_map(t);
}

int trace_free(struct trace *t)
{
	int err = trace_stop(t);

	trace_unmap(t);
	return err ? err : device_ioctl(t->fd, IOCTL_PERFMON_FREE_TRACE, NULL);
}

#ifdef __x86_64__
#define SYSTEM_CALL	"syscall"
#define FIRST_ARGUMENT	"D"
#define SECOND_ARGUMENT	"S"
#define CLOBBERED	"rcx", "r11",
#else
#define SYSTEM_CALL	"int	$0x80"
#define FIRST_ARGUMENT	"b"
#define SECOND_ARGUMENT	"c"
#define CLOBBERED
#endif

/*
 * The function is in a file of its own, so that the compiler can't inline it: its labels may exist
 * only once.
 */
int trace_loop(const struct trace *t, unsigned long n)
{
	unsigned int command = IOCTL_PERFMON_START;
	long started, result = SYS_ioctl;

	__asm__ volatile("	.globl	trace_loop_dec, trace_loop_jnz\n"
			 SYSTEM_CALL "\n"
			 "	mov	%[result], %[started]\n"
			 "trace_loop_dec:\n"
			 "	dec	%[n]\n"
			 "trace_loop_jnz:\n"
			 "	jnz	trace_loop_dec\n"
			 "	mov	%[stop], %[command]\n"
			 "	mov	%[ioctl], %[result]\n"
			 SYSTEM_CALL
			 : [result] "+a" (result), [started] "=&r" (started),
			   [command] "+" SECOND_ARGUMENT (command), [n] "+r" (n)
			 : FIRST_ARGUMENT (t->fd), "d" (0),
			   [stop] "i" (IOCTL_PERFMON_STOP),
			   [ioctl] "i" (SYS_ioctl)
			 : CLOBBERED "cc", "memory");
	return started ? started : result;
}

int trace_wait_until_lost(const struct trace *t, unsigned int cpu)
{
	const struct perfmon_buffer_header *header = t->buffer[cpu];
	int i;

	/* The limit is at least a minute. The wait reaches it only if the flag is never set. */
	for (i = 0; i < 6000; i++) {
		if (__atomic_load_n(&header->flags, __ATOMIC_RELAXED) &
		    PERFMON_BUFFER_FLAG_LOST)
			return 0;
		usleep(10000);
	}
	return -ETIMEDOUT;
}

struct trace_cursor trace_records(const struct trace *t, unsigned int cpu)
{
	const char *buffer = (const char *)t->buffer[cpu];
	struct trace_cursor c = {
		.next = buffer + sizeof(struct perfmon_buffer_header),
	};

	trace_records_update(t, cpu, &c);
	return c;
}

void trace_records_update(const struct trace *t, unsigned int cpu,
			  struct trace_cursor *c)
{
	const struct perfmon_buffer_header *header = t->buffer[cpu];

	c->end = (const char *)header +
		 __atomic_load_n(&header->capture_end, __ATOMIC_ACQUIRE);
}

/* Returns the size of the record at @p; 0 if it is invalid or longer than @room. */
static size_t record_size(const char *p, size_t room)
{
	static const size_t sizes[] = {
		[PERFMON_RECORD_TIME] = sizeof(struct perfmon_time_record),
		[PERFMON_RECORD_TICK] = sizeof(struct perfmon_tick_record),
		[PERFMON_RECORD_COUNT] = sizeof(struct perfmon_count_record),
		[PERFMON_RECORD_VALUE] = sizeof(struct perfmon_value_record),
		[PERFMON_RECORD_PC] = sizeof(struct perfmon_pc_record),
		[PERFMON_RECORD_LAST_BRANCH] =
			offsetof(struct perfmon_last_branch_record, branches),
	};
	const struct perfmon_last_branch_record *branches = (const void *)p;
	const struct perfmon_record_header *header = (const void *)p;
	size_t size;

	if (room < sizeof(*header) || header->reserved_flags ||
	    header->type >= sizeof(sizes) / sizeof(*sizes))
		return 0;
	size = sizes[header->type];
	if (room < size)
		return 0;
	if (header->type == PERFMON_RECORD_LAST_BRANCH) {
		if (branches->num_branches > PERFMON_MAX_NUM_LAST_BRANCH)
			return 0;
		size = PERFMON_LAST_BRANCH_RECORD_SIZE(branches);
	}
	return room < size ? 0 : size;
}

int trace_next(struct trace_cursor *c, struct trace_record *r)
{
	const struct perfmon_record_header *header = (const void *)c->next;
	size_t size;

	if (c->next == c->end)
		return 0;
	size = record_size(c->next, c->end - c->next);
	if (!size)
		return -EBADMSG;

	memset(r, 0, sizeof(*r));
	r->type = header->type;
	r->event = header->event;
	switch (r->type) {
	case PERFMON_RECORD_TIME:
		c->time = ((const struct perfmon_time_record *)header)->time;
		break;
	case PERFMON_RECORD_COUNT:
	case PERFMON_RECORD_VALUE:
		r->count = ((const struct perfmon_count_record *)header)->count;
		break;
	case PERFMON_RECORD_PC:
		r->aspace = ((const struct perfmon_pc_record *)header)->aspace;
		r->pc = ((const struct perfmon_pc_record *)header)->pc;
		break;
	case PERFMON_RECORD_LAST_BRANCH:
		r->branches = (const void *)header;
		break;
	}
	r->time = c->time;
	c->next += size;
	return 1;
}

/* Returns the index of an event in the config, or -1. */
static int event_index(const struct perfmon_config *config, __u16 event)
{
	int i;

	for (i = 0; i < PERFMON_MAX_EVENTS && config->events[i]; i++) {
		if (config->events[i] == event)
			return i;
	}
	return -1;
}

/* Returns true for an event that is recorded when the timebase overflows. */
static bool follows_timebase(const struct perfmon_config *config, int i)
{
	return i > 0 && (config->flags[i] & PERFMON_CONFIG_FLAG_TIMEBASE0);
}

static bool is_fixed(const struct perfmon_config *config, int i)
{
	return PERFMON_EVENT_ID_GROUP(config->events[i]) == PERFMON_GROUP_FIXED;
}

/* Returns the type of record at an event's overflow; RESERVED if there is none. */
static int tick_type(const struct perfmon_config *config, int i)
{
	if (!config->rate[i] || follows_timebase(config, i))
		return PERFMON_RECORD_RESERVED;
	return config->flags[i] & PERFMON_CONFIG_FLAG_PC ? PERFMON_RECORD_PC :
							    PERFMON_RECORD_TICK;
}

/*
 * The parts of the records of one PMI, in their order: the time comes first, and each other
 * part is optional.
 */
enum set_part {
	NOTHING, TIME, GENERAL_TICKS, FIXED_TICKS, COUNTS, VALUES, BRANCHES,
};

static bool is_value(const struct perfmon_config *config, int i)
{
	return PERFMON_EVENT_ID_GROUP(config->events[i]) == PERFMON_GROUP_MISC;
}

/* Returns the part that a record belongs to; NOTHING if its event has no such record. */
static enum set_part part_of(const struct perfmon_config *config, int i, int type)
{
	switch (type) {
	case PERFMON_RECORD_TICK:
	case PERFMON_RECORD_PC:
		if (type != tick_type(config, i))
			return NOTHING;
		return is_fixed(config, i) ? FIXED_TICKS : GENERAL_TICKS;
	case PERFMON_RECORD_COUNT:
		return is_value(config, i) ? NOTHING : COUNTS;
	case PERFMON_RECORD_VALUE:
		return is_value(config, i) ? VALUES : NOTHING;
	case PERFMON_RECORD_LAST_BRANCH:
		return config->flags[i] & PERFMON_CONFIG_FLAG_LAST_BRANCH ?
			BRANCHES : NOTHING;
	}
	return NOTHING;
}

static void add_record(const struct perfmon_config *config, int i,
		const struct trace_record *r, struct trace_sums *sums)
{
	struct trace_sum *sum = &sums->event[i];

	switch (r->type) {
	case PERFMON_RECORD_TICK:
	case PERFMON_RECORD_PC:
		sum->ticks++;
		sum->total += config->rate[i];
		break;
	case PERFMON_RECORD_COUNT:
		sum->counts++;
		sum->counted += r->count;
		sum->total += r->count;
		break;
	case PERFMON_RECORD_VALUE:
		sum->values++;
		sum->value = r->count;
		break;
	case PERFMON_RECORD_LAST_BRANCH:
		sums->branches++;
		break;
	}
}

static const char *header_problem(const struct trace *t, unsigned int cpu)
{
	const struct perfmon_buffer_header *header = t->buffer[cpu];

	if (header->version != PERFMON_BUFFER_VERSION)
		return "the buffer's version";
	if (header->arch != PERFMON_BUFFER_ARCH_X86_64)
		return "the buffer's architecture";
	if (header->capture_end < sizeof(*header) ||
	    header->capture_end > t->size)
		return "the end of the data";
	return "";
}

const char *trace_sum(const struct trace *t, unsigned int cpu,
		      struct trace_sums *sums)
{
	const struct perfmon_config *config = &t->config;
	const char *problem = header_problem(t, cpu);
	enum set_part last = NOTHING, part;
	struct trace_cursor c;
	struct trace_record r;
	int more, i;

	memset(sums, 0, sizeof(*sums));
	if (*problem)
		return problem;
	c = trace_records(t, cpu);
	while ((more = trace_next(&c, &r)) > 0) {
		if (r.type == PERFMON_RECORD_TIME) {
			if (r.event != PERFMON_EVENT_ID_NONE)
				return "a time record with the ID of an event";
			if (last == TIME)
				return "two time records without others between them";
			if (sums->times++ == 0)
				sums->first = r.time;
			else if (r.time < sums->last)
				return "a time earlier than the previous time";
			sums->last = r.time;
			last = TIME;
			continue;
		}
		i = event_index(config, r.event);
		if (i < 0)
			return "an event ID that is not in the config";
		part = part_of(config, i, r.type);
		if (part == NOTHING)
			return "a record type that the event does not have";
		if (part < last || last == NOTHING || last == BRANCHES)
			return "records in a wrong order";
		last = part;
		add_record(config, i, &r, sums);
	}
	return more ? "bytes that are not a record" : "";
}

/* Returns the address of trace_loop()'s instruction @i; 0 if that is outside the loop. */
static __u64 loop_address(__u64 i, unsigned long n)
{
	if (i < TRACE_LOOP_BEFORE || i >= TRACE_LOOP_BEFORE + LOOP_INSNS * n)
		return 0;
	return (unsigned long)((i - TRACE_LOOP_BEFORE) % LOOP_INSNS ?
			       trace_loop_jnz : trace_loop_dec);
}

__u64 trace_count_misplaced(const struct trace *t, unsigned int cpu, unsigned long n,
		      unsigned int skid, __u64 interrupts)
{
	struct trace_cursor c = trace_records(t, cpu);
	__u64 done = 0, wrong = 0, in_kernel = 0, want;
	struct trace_record r;

	while (trace_next(&c, &r) > 0) {
		if (r.type != PERFMON_RECORD_PC ||
		    r.event != t->config.events[0])
			continue;
		done += t->config.rate[0];
		want = loop_address(cpi_insns(r.event, done) + skid, n);
		if (!want)
			continue;
		if (skid && (__s64)r.pc < 0)
			in_kernel++;
		else if (r.pc != want)
			wrong++;
	}
	return in_kernel > interrupts ? wrong + in_kernel : wrong;
}
