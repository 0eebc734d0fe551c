/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A trace: its calls, its buffers, and the sums of its records.
 */
#ifndef SELFTESTS_TRACE_H
#define SELFTESTS_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/perfmon.h>

#include "loop.h"

#define ARCH_EVENT(name)					\
	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, PERFMON_ARCH_EVENT_##name)
#define FIXED_EVENT(name)					\
	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, PERFMON_FIXED_EVENT_##name)
#define MISC_EVENT(name)					\
	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MISC, PERFMON_MISC_EVENT_##name)
#define MODEL_EVENT(n)	PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_MODEL, n)

/* The event that every CPU has and the virtual PMU counts exactly. */
#define INSTRUCTIONS	ARCH_EVENT(INSTRUCTIONS_RETIRED)

#define FLAG_USER	PERFMON_CONFIG_FLAG_USER
#define FLAG_OS		PERFMON_CONFIG_FLAG_OS
#define FLAG_PC		PERFMON_CONFIG_FLAG_PC
#define FLAG_TIMEBASE0	PERFMON_CONFIG_FLAG_TIMEBASE0
#define FLAG_LAST_BRANCH	PERFMON_CONFIG_FLAG_LAST_BRANCH

/* A config of one event. */
static inline struct perfmon_config one_event(__u16 id, __u32 rate, __u32 flags)
{
	return (struct perfmon_config) {
		.events = { id },
		.rate = { rate },
		.flags = { flags },
	};
}

/* The largest number of buffers that struct trace has room for. */
#define TRACE_MAX_CPUS	64

struct trace {
	int fd;				/* the caller's descriptor of the device */
	unsigned int cpus;		/* number of buffers */
	size_t size;			/* bytes of each buffer */
	struct perfmon_config config;	/* the config that was staged last */
	const struct perfmon_buffer_header *buffer[TRACE_MAX_CPUS];
};

/*
 * The calls. They return 0 or a negative errno; trace_handle() returns the descriptor of a
 * buffer or a negative errno.
 */
int trace_alloc_buffers(int fd, __u32 buffers, __u32 pages);
int trace_handle(int fd, __u32 cpu);
int trace_stage(struct trace *t, const struct perfmon_config *config);
int trace_start(struct trace *t);
int trace_stop(struct trace *t);

/*
 * Puts an event for each counter into @c, general counters first. The events have rate 0 and no
 * flags. Returns the number of events.
 */
int trace_all_counters(struct perfmon_config *c, const struct perfmon_properties *p);

/* Defines MODEL event @n by the event select @select. */
int trace_define(int fd, unsigned int n, __u64 select);

/**
 * trace_alloc() - allocate a trace and map its buffers
 * @t: filled in
 * @fd: the device, open for writing
 * @pages: size of each buffer
 */
int trace_alloc(struct trace *t, int fd, __u32 pages);

/*
 * trace_map() is the second half of trace_alloc(): maps the buffers of an allocated trace.
 * trace_unmap() undoes it.
 */
int trace_map(struct trace *t);
void trace_unmap(struct trace *t);

/* Stops the trace if it runs, unmaps the buffers, and frees them. */
int trace_free(struct trace *t);

/**
 * trace_loop() - start the trace, execute loop(@n), stop the trace
 *
 * Exactly TRACE_LOOP_BEFORE + LOOP_INSNS * @n + TRACE_LOOP_AFTER instructions are executed in user
 * mode between the two calls. The last of them is the system call instruction of the second call.
 *
 * Return: 0, or the negative errno of the call that failed.
 */
int trace_loop(const struct trace *t, unsigned long n);

#define TRACE_LOOP_BEFORE	1
#define TRACE_LOOP_AFTER	3
#define TRACE_LOOP_INSNS(n)	\
	(TRACE_LOOP_BEFORE + LOOP_INSNS * (__u64)(n) + TRACE_LOOP_AFTER)

/* The two instructions of trace_loop()'s loop: samples have one of these addresses. */
extern const char trace_loop_dec[], trace_loop_jnz[];

/**
 * trace_count_misplaced() - count the samples of trace_loop(@n) at a wrong place
 * @cpu: the CPU that executed trace_loop()
 * @skid: the number of instructions by which an interrupt is late
 * @interrupts: number of other interrupts of this CPU meanwhile
 *
 * The config's first event is instructions in user mode, with PC records. A sample's address is
 * right if it is the instruction after the last counted instruction. Samples outside of the loop
 * are left out. With a @skid, up to @interrupts samples in the kernel are left out, too: another
 * interrupt may come before a late PMI.
 */
__u64 trace_count_misplaced(const struct trace *t, unsigned int cpu, unsigned long n,
		      unsigned int skid, __u64 interrupts);

/* Kernel addresses are the upper half. */
static inline bool is_kernel_address(__u64 address)
{
	return address >> 63;
}

/*
 * Waits until the buffer of CPU @cpu has PERFMON_BUFFER_FLAG_LOST. Returns 0, or -ETIMEDOUT after a
 * minute.
 */
int trace_wait_until_lost(const struct trace *t, unsigned int cpu);

/* A record, with the time of the preceding TIME record. */
struct trace_record {
	__u8 type;
	__u16 event;
	__s64 time;
	union {
		__u64 count;
		struct {
			__u64 aspace;
			__u64 pc;
		};
		const struct perfmon_last_branch_record *branches;
	};
};

/* A position in a buffer, and the end of what can be read. */
struct trace_cursor {
	const char *next;
	const char *end;
	__s64 time;
};

/*
 * Returns a cursor at the first record of CPU @cpu. The cursor can read all records that have been
 * written until now, also while the trace runs.
 */
struct trace_cursor trace_records(const struct trace *t, unsigned int cpu);

/* Extends the cursor to the records that have been written since its last update. */
void trace_records_update(const struct trace *t, unsigned int cpu,
			  struct trace_cursor *c);

/* Reads a record. Returns 1, 0 at the end, or -EBADMSG for an invalid record. */
int trace_next(struct trace_cursor *c, struct trace_record *r);

/* The sums of an event's records. */
struct trace_sum {
	__u64 ticks;	/* TICK and PC records */
	__u64 counts;	/* COUNT records */
	__u64 counted;	/* sum of the COUNT records */
	__u64 total;	/* number of events, computed from the records */
	__u64 values;	/* VALUE records */
	__u64 value;	/* value of the last VALUE record */
};

/* The sums of a buffer's records, for each event of the config. */
struct trace_sums {
	struct trace_sum event[PERFMON_MAX_EVENTS];
	__u64 branches;		/* LAST_BRANCH records */
	__u64 times;		/* TIME records */
	__s64 first;		/* the first and the last time */
	__s64 last;
};

/**
 * trace_sum() - check all records of CPU @cpu and add them up
 *
 * Checks that the order of the records is possible, that their events are in the config, and that
 * times never decrease.
 *
 * Return: "", or a description of the wrong record.
 */
const char *trace_sum(const struct trace *t, unsigned int cpu,
		      struct trace_sums *sums);

#endif
