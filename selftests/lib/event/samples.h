/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parsing samples of an event.
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

/* The parts of a sample, or of the trailer of another record. A missing part is 0. */
struct sample {
	__u16 misc;		/* misc of the header */
	__u64 identifier, ip, time, addr, id, stream_id, period;
	__u32 pid, tid, cpu;
	__u64 count_words;
	const __u64 *counts;	/* the result of read(2) */
	__u64 chain_length;	/* words of the call chain */
	const __u64 *chain;
	__u64 branch_count, branch_index;
	const struct perf_branch_entry *branches;
	__u64 user_abi;		/* ABI of `user_registers` */
	const __u64 *user_registers;
	__u64 stack_size, stack_read;	/* bytes of stack in the record, and how many of them are valid */
	const __u64 *stack;
	__u64 weight;		/* or union perf_sample_weight */
	__u64 data_src;		/* union perf_mem_data_src */
	__u64 abi;		/* ABI of `registers`, which are those at the PMI */
	const __u64 *registers;
	__u64 cgroup;
};

/* Members of struct perf_event_attr that define the fields of a sample. */
struct sample_parts {
	__u64 type, registers, user_registers, read_format, branch_type;
};

/*
 * Parses a sample. Returns false if the record's size differs from the size of the sample's parts.
 */
bool sample_parse(const struct event_record *record, const struct sample_parts *parts,
		  struct sample *sample);

/* Parses the trailer (sample_id) that sample_id_all adds to another record. */
bool sample_parse_trailer(const struct event_record *record, __u64 type, struct sample *sample);

/* All parts that the trailer of another record can have. */
#define ALL_TRAILER_PARTS (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | \
		    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

/* A sampled event with its ring. */
struct sampler {
	int fd;			/* -1: not open */
	struct event_ring ring;
	struct sample_parts parts;
	struct event_record record;	/* the last record read */
};

/* Opens an event and maps 2^@order pages for its records. Returns 0 or a negative errno. */
int sampler_open(struct sampler *s, const struct event_maker *maker, struct perf_event_attr *attr,
		 pid_t pid, int cpu, unsigned int order);

/* Closes the event, if it is open. */
void sampler_close(struct sampler *s);

/*
 * Returns whether the last record has @words words, followed by a trailer with the ids of the event
 * and of thread @tid of this process. The event must have sample_id_all and ALL_TRAILER_PARTS.
 */
bool sampler_has_right_trailer(const struct sampler *s, size_t words, pid_t tid);

/* Sums over the records of a ring. */
struct sample_sums {
	unsigned long samples, lost, throttled, unthrottled, others;
	__u64 periods;		/* the sum of the samples' periods */
	__u64 last_time;
	bool ordered;		/* times never decrease */
	bool malformed;		/* a record has a wrong size */
};

/*
 * Reads all records of the ring, and adds them to @sums, which starts as SAMPLE_SUMS_INIT. Calls
 * @each, if it is not NULL, with each sample.
 */
#define SAMPLE_SUMS_INIT ((struct sample_sums) { .ordered = true })
void sampler_read(struct sampler *s, struct sample_sums *sums,
		  void (*each)(const struct sample *sample, void *data), void *data);

/*
 * Returns the attributes of an event with a sample (ip, tid, time, cpu, period) every @period
 * instructions. Their level of precision (precise_ip) is in the environment variable PRECISE.
 */
struct perf_event_attr event_every(__u64 period);

/*
 * Executes loop(@n) between labelled_loop_begin and labelled_loop_end, with the remaining
 * rounds in RCX.
 */
void labelled_loop(unsigned long n);
extern const char labelled_loop_begin[], labelled_loop_end[];

/*
 * Executes labelled_loop(@n) again and again until there is a record in the ring. The event is
 * enabled only during these loops. Returns 0 or a negative errno.
 */
int sampler_loop_until_record(struct sampler *s, unsigned long n);

static inline bool in_labelled_loop(__u64 ip)
{
	return ip >= (uintptr_t)labelled_loop_begin && ip < (uintptr_t)labelled_loop_end;
}

/* The register RCX, for sample_regs_intr. */
#define REGISTER_CX	(1ULL << 2)

#endif
