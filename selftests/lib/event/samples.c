// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "samples.h"

/* The part of a record that is not parsed yet. */
struct unparsed_words {
	const __u64 *at;
	size_t words;
	bool too_short;
};

static __u64 take_word(struct unparsed_words *rest, __u64 type, __u64 part)
{
	if (!(type & part))
		return 0;
	if (!rest->words) {
		rest->too_short = true;
		return 0;
	}
	rest->words--;
	return *rest->at++;
}

/* Removes a part of several words from @rest, and returns it. */
static const __u64 *take_words(struct unparsed_words *rest, __u64 words)
{
	const __u64 *at = rest->at;

	if (words > rest->words) {
		rest->too_short = true;
		return at;
	}
	rest->words -= words;
	rest->at += words;
	return at;
}

static void take_ids(struct unparsed_words *rest, __u64 type, struct sample *s)
{
	__u64 word = take_word(rest, type, PERF_SAMPLE_TID);

	s->pid = word;
	s->tid = word >> 32;
	s->time = take_word(rest, type, PERF_SAMPLE_TIME);
}

/* Returns the number of words of the read(2) result at the beginning of @rest. */
static __u64 words_of_read(const struct unparsed_words *rest, __u64 format)
{
	const __u64 times = __builtin_popcountll(format & (PERF_FORMAT_TOTAL_TIME_ENABLED |
							   PERF_FORMAT_TOTAL_TIME_RUNNING));
	const __u64 event = 1 + __builtin_popcountll(format & (PERF_FORMAT_ID |
							       PERF_FORMAT_LOST));

	if (!(format & PERF_FORMAT_GROUP))
		return times + event;
	return rest->words ? 1 + times + *rest->at * event : 1;
}

bool sample_parse(const struct event_record *record, const struct sample_parts *parts,
		  struct sample *s)
{
	const __u64 type = parts->type;
	struct unparsed_words rest = {
		.at = record->words,
		.words = (record->header.size - sizeof(record->header)) / sizeof(__u64),
	};

	*s = (struct sample) { .misc = record->header.misc };
	s->identifier = take_word(&rest, type, PERF_SAMPLE_IDENTIFIER);
	s->ip = take_word(&rest, type, PERF_SAMPLE_IP);
	take_ids(&rest, type, s);
	s->addr = take_word(&rest, type, PERF_SAMPLE_ADDR);
	s->id = take_word(&rest, type, PERF_SAMPLE_ID);
	s->stream_id = take_word(&rest, type, PERF_SAMPLE_STREAM_ID);
	s->cpu = take_word(&rest, type, PERF_SAMPLE_CPU);
	s->period = take_word(&rest, type, PERF_SAMPLE_PERIOD);
	if (type & PERF_SAMPLE_READ)
		s->count_words = words_of_read(&rest, parts->read_format);
	s->counts = take_words(&rest, s->count_words);
	s->chain_length = take_word(&rest, type, PERF_SAMPLE_CALLCHAIN);
	s->chain = take_words(&rest, s->chain_length);
	s->branch_count = take_word(&rest, type, PERF_SAMPLE_BRANCH_STACK);
	s->branch_index = take_word(&rest, parts->branch_type, PERF_SAMPLE_BRANCH_HW_INDEX);
	s->branches = (const struct perf_branch_entry *)
		take_words(&rest, s->branch_count * sizeof(*s->branches) / sizeof(__u64));
	s->user_abi = take_word(&rest, type, PERF_SAMPLE_REGS_USER);
	s->user_registers = take_words(&rest, s->user_abi ?
				       __builtin_popcountll(parts->user_registers) : 0);
	s->stack_size = take_word(&rest, type, PERF_SAMPLE_STACK_USER);
	s->stack = take_words(&rest, s->stack_size / sizeof(__u64));
	s->stack_read = take_word(&rest, s->stack_size ? type : 0, PERF_SAMPLE_STACK_USER);
	s->weight = take_word(&rest, type, PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT);
	s->data_src = take_word(&rest, type, PERF_SAMPLE_DATA_SRC);
	s->abi = take_word(&rest, type, PERF_SAMPLE_REGS_INTR);
	s->registers = take_words(&rest, s->abi ? __builtin_popcountll(parts->registers) : 0);
	s->cgroup = take_word(&rest, type, PERF_SAMPLE_CGROUP);
	return !rest.too_short && !rest.words;
}

bool sample_parse_trailer(const struct event_record *record, __u64 type, struct sample *s)
{
	const __u64 parts = type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
				    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
				    PERF_SAMPLE_IDENTIFIER);
	size_t words = (record->header.size - sizeof(record->header)) / sizeof(__u64);
	struct unparsed_words rest = { .words = __builtin_popcountll(parts) };

	if (rest.words > words)
		return false;
	rest.at = record->words + words - rest.words;
	*s = (struct sample) { .ip = 0 };
	take_ids(&rest, parts, s);
	s->id = take_word(&rest, parts, PERF_SAMPLE_ID);
	s->stream_id = take_word(&rest, parts, PERF_SAMPLE_STREAM_ID);
	s->cpu = take_word(&rest, parts, PERF_SAMPLE_CPU);
	s->identifier = take_word(&rest, parts, PERF_SAMPLE_IDENTIFIER);
	return true;
}

int sampler_open(struct sampler *s, const struct event_maker *maker, struct perf_event_attr *attr,
		 pid_t pid, int cpu, unsigned int order)
{
	int err;

	s->parts = (struct sample_parts) {
		.type = attr->sample_type,
		.registers = attr->sample_regs_intr,
		.user_registers = attr->sample_regs_user,
		.read_format = attr->read_format,
		.branch_type = attr->branch_sample_type,
	};
	s->ring.page = NULL;
	s->fd = maker->open(attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (s->fd < 0) {
		err = s->fd;
		s->fd = -1;
		return err;
	}
	err = event_ring_map(&s->ring, s->fd, order, false);
	if (err)
		sampler_close(s);
	return err;
}

void sampler_close(struct sampler *s)
{
	event_ring_unmap(&s->ring);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

bool sampler_has_right_trailer(const struct sampler *s, size_t words, pid_t tid)
{
	const struct perf_event_header *h = &s->record.header;
	__u64 id = event_id(s->fd);
	struct sample end;

	words += __builtin_popcountll(ALL_TRAILER_PARTS);
	return h->size == sizeof(*h) + words * sizeof(__u64) &&
	       sample_parse_trailer(&s->record, s->parts.type, &end) && end.pid == (__u32)getpid() &&
	       end.tid == (__u32)tid && end.time && end.id == id && end.stream_id == id &&
	       end.identifier == id;
}

static void add_sample(struct sampler *s, struct sample_sums *sums, struct sample *sample)
{
	sums->samples++;
	if (!sample_parse(&s->record, &s->parts, sample)) {
		sums->malformed = true;
		return;
	}
	sums->periods += sample->period;
	sums->ordered &= sample->time >= sums->last_time;
	sums->last_time = sample->time;
}

void sampler_read(struct sampler *s, struct sample_sums *sums,
		  void (*each)(const struct sample *sample, void *data), void *data)
{
	struct sample sample;

	while (!event_ring_is_empty(&s->ring)) {
		if (!event_ring_next(&s->ring, &s->record)) {
			sums->malformed = true;
			break;
		}
		switch (s->record.header.type) {
		case PERF_RECORD_SAMPLE:
			add_sample(s, sums, &sample);
			if (each && !sums->malformed)
				each(&sample, data);
			break;
		case PERF_RECORD_LOST:
			sums->lost += s->record.words[1];
			break;
		case PERF_RECORD_THROTTLE:
			sums->throttled++;
			break;
		case PERF_RECORD_UNTHROTTLE:
			sums->unthrottled++;
			break;
		default:
			sums->others++;
		}
	}
}

struct perf_event_attr event_every(__u64 period)
{
	struct perf_event_attr attr = event_instructions();

	attr.sample_period = period;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			   PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	attr.precise_ip = env_number("PRECISE", 0);
	return attr;
}

/* The function is neither cloned nor inlined, because its labels may exist only once. */
__attribute__((noinline, noclone)) void labelled_loop(unsigned long n)
{
	__asm__ volatile(".globl labelled_loop_begin, labelled_loop_end\n"
			 "labelled_loop_begin:\n"
			 "1:	dec	%0\n"
			 "	jnz	1b\n"
			 "labelled_loop_end:\n"
			 : "+c" (n) : : "cc");
}

int sampler_loop_until_record(struct sampler *s, unsigned long n)
{
	int err;

	do {
		err = event_enable(s->fd);
		if (err)
			return err;
		labelled_loop(n);
		err = event_disable(s->fd);
		if (err)
			return err;
	} while (event_ring_is_empty(&s->ring));
	return 0;
}
