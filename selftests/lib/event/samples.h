/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples of an event, taken apart.
 */
#ifndef SELFTESTS_SAMPLES_H
#define SELFTESTS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/types.h>

#include "event.h"
#include "event_ring.h"

/* The parts of a sample, or of the end of another record. A part that is not there is 0. */
struct sample {
	__u64 identifier, ip, time, addr, id, stream_id, period;
	__u32 pid, tid, cpu;
	__u64 count_words;
	const __u64 *counts;	/* as from read(2) */
	__u64 length;		/* of the call chain */
	const __u64 *chain;
	__u64 branch_count, branch_index;
	const struct perf_branch_entry *branches;
	__u64 user_abi;		/* of the program's registers */
	const __u64 *user_registers;
	__u64 stack_size, stack_read;	/* bytes: there, and of the stack */
	const __u64 *stack;
	__u64 abi;		/* of the registers at the interrupt */
	const __u64 *registers;
};

/* The parts of samples: members of struct perf_event_attr. Registers are the last. */
struct sample_parts {
	__u64 type, registers, user_registers, read_format, branch_type;
};

/* Takes a sample apart. False if it is longer or shorter than its parts. */
bool sample_parse(const struct event_record *record, const struct sample_parts *parts,
		  struct sample *sample);

/* Takes the end apart that sample_id_all gives another record. */
bool sample_parse_end(const struct event_record *record, __u64 type, struct sample *sample);

/* All parts that such an end can have. */
#define SAMPLE_END (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | \
		    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

/* An event with its ring. */
struct sampler {
	int fd;			/* -1: it is not open */
	struct event_ring ring;
	struct sample_parts parts;
	struct event_record record;	/* the last */
};

/* Opens an event and maps 2^@order pages for its records: 0 or a negative errno. */
int sampler_open(struct sampler *s, const struct event_maker *by, struct perf_event_attr *attr,
		 pid_t pid, int cpu, unsigned int order);

/* Nothing if it is not open. */
void sampler_close(struct sampler *s);

/*
 * Has the last record @words of its own, and behind them an end with the numbers of the
 * event and of the thread @tid of this process? The event has sample_id_all and SAMPLE_END.
 */
bool sampler_ends_well(const struct sampler *s, size_t words, pid_t tid);

/* The sums over the records of a ring. */
struct seen {
	unsigned long samples, lost, throttled, unthrottled, others;
	__u64 periods;		/* the sum */
	__u64 last_time;
	bool ordered;		/* by time */
	bool malformed;		/* there is a record that is not what it should be */
};

/*
 * Reads all records that are there, and adds them to @seen, which begins as
 * SEEN_NOTHING. Calls @each with each sample, if it is not NULL.
 */
#define SEEN_NOTHING ((struct seen) { .ordered = true })
void sampler_read(struct sampler *s, struct seen *seen,
		  void (*each)(const struct sample *sample, void *data), void *data);

/* Instructions in user mode, with a sample (ip, tid, time, cpu, period) after each @period. */
struct perf_event_attr event_every(__u64 period);

/*
 * loop(@n) at a place that is known: from labelled_loop_begin on to before
 * labelled_loop_end, with what is left of @n in RCX.
 */
void labelled_loop(unsigned long n);
extern const char labelled_loop_begin[], labelled_loop_end[];

static inline bool in_labelled_loop(__u64 ip)
{
	return ip >= (uintptr_t)labelled_loop_begin && ip < (uintptr_t)labelled_loop_end;
}

/* The register RCX, for sample_regs_intr. */
#define REGISTER_CX	(1ULL << 2)

#endif
