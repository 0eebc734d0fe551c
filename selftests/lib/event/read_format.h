/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The result of read(2) of an event, which depends on its read_format.
 */
#ifndef SELFTESTS_READ_FORMAT_H
#define SELFTESTS_READ_FORMAT_H

#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/types.h>

#include "fixture.h"

#define TIMES	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* The largest number of values of a result. */
#define READ_VALUES	8

/* The members of a result, as perf_event_open(2) describes it. */
struct read_result {
	__u64 nr, enabled, running;
	__u64 value[READ_VALUES], id[READ_VALUES], lost[READ_VALUES];
};

static inline size_t words_of(__u64 format, int members)
{
	int each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);

	if (!(format & PERF_FORMAT_GROUP))
		members = 1;
	return each * members + !!(format & PERF_FORMAT_GROUP) +
	       !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
	       !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
}

static inline void parse_times(struct read_result *r, __u64 format, const __u64 **word)
{
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		r->enabled = *(*word)++;
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		r->running = *(*word)++;
}

static inline struct read_result parse_result(__u64 format, const __u64 *word)
{
	struct read_result r = { .nr = 1 };
	unsigned int i;

	if (format & PERF_FORMAT_GROUP) {
		r.nr = *word++;
		parse_times(&r, format, &word);
	}
	for (i = 0; i < r.nr && i < READ_VALUES; i++) {
		r.value[i] = *word++;
		if (!(format & PERF_FORMAT_GROUP))
			parse_times(&r, format, &word);
		if (format & PERF_FORMAT_ID)
			r.id[i] = *word++;
		if (format & PERF_FORMAT_LOST)
			r.lost[i] = *word++;
	}
	return r;
}

/* Reads @fd and checks the size. The result has @members events. */
static inline struct read_result read_and_check(struct __test_metadata *_metadata, int fd,
						__u64 format, int members)
{
	const size_t size = words_of(format, members) * sizeof(__u64);
	__u64 word[64];
	struct read_result r;

	/*
	 * read(2) fills a larger buffer or one of exactly this size, and refuses to read a part of
	 * the result.
	 */
	memset(word, 0xaa, sizeof(word));
	EXPECT_EQ((ssize_t)size, read(fd, word, sizeof(word))) {
		TH_LOG("read_format %#llx", format);
	}
	EXPECT_EQ(0xaaaaaaaaaaaaaaaaULL, word[size / sizeof(*word)]);
	EXPECT_EQ((ssize_t)size, read(fd, word, size));
	errno = 0;
	EXPECT_EQ(-1, read(fd, word, size - 1));
	EXPECT_EQ(ENOSPC, errno);
	r = parse_result(format, word);
	EXPECT_EQ((format & PERF_FORMAT_GROUP) ? (__u64)members : 1, r.nr);
	return r;
}

#endif
