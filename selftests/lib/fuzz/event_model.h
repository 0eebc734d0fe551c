/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of PERFMON_EVENT_OPEN and of the descriptors that it gives: what each call
 * answers. Written from Documentation/events.rst and rings.rst, not from the module.
 *
 * Answers are 0 or a negative errno.
 */
#ifndef SELFTESTS_EVENT_MODEL_H
#define SELFTESTS_EVENT_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/perf_event.h>
#include <linux/types.h>

#define MODEL_EVENTS	8
#define NO_EVENT	(-1)

/* As Linux 7.3 has it; the headers may be older. */
#define ATTR_SIZE	144

union model_attr {
	struct perf_event_attr attr;
	__u64 words[ATTR_SIZE / 8];
};

/* Words of it: the flags, and those that the headers may lack. */
enum {
	ATTR_FLAGS = 5,
	ATTR_CONFIG1 = 7,
	ATTR_CONFIG2 = 8,
	ATTR_AUX = 14,		/* aux_sample_size, aux_action */
	ATTR_CONFIG3 = 16,
	ATTR_CONFIG4 = 17,
};

struct model_event {
	bool open;
	unsigned int areas;	/* mappings; the event is there as long as one is */
	union model_attr a;
	int pid, cpu;		/* of the thread, not 0; -1 */
	bool inherit;		/* of a CPU there is nothing to inherit */
	int leader;		/* another event, or NO_EVENT */
	bool turns;		/* it may have to wait for its turn */
	bool enabled;
	bool limited;		/* by REFRESH: it may disable itself while it is enabled */
	size_t ring;		/* the pages of the ring that it writes to; 0: none */
	int ring_of;		/* the event with whose page that is mapped */
	bool gone;		/* no task is left that it counts */
};

struct event_model {
	struct model_event event[MODEL_EVENTS];
	int cpus;		/* numbers from 0 on */
	__u64 max_rate;		/* perf_event_max_sample_rate; 0: no limit */
};

/* The arguments of an open. */
struct model_open {
	union model_attr a;
	bool unreadable;	/* there is no memory where attr should be */
	int pid;		/* of a thread, not 0; -1 */
	bool gone;		/* there is no such thread any more */
	int cpu;
	int group;		/* an event that is open, or NO_EVENT */
	bool bad_group;		/* the descriptor is none of an event */
	__u32 flags;
	__u32 reserved;
};

/* There is an event, open or mapped. */
static inline bool model_is_there(const struct model_event *e)
{
	return e->open || e->areas;
}

/* What @attr alone is answered: of its size, and of its members. */
int model_attr(const struct event_model *m, const union model_attr *attr);

/* It is wrong in several ways, and could be answered so as well. */
bool model_attr_may(const struct event_model *m, const union model_attr *attr, int answer);

/*
 * Opens event @i, which is not there yet. EBUSY, for want of a counter, is not among the
 * answers; model_may_be_busy() says whether it is possible.
 */
int model_open(struct event_model *m, int i, const struct model_open *o);

/* Whether an open that would succeed can find no counter, with so many events there. */
bool model_may_be_busy(const struct model_open *o, unsigned int there, unsigned int exclusive);

/* Thread @pid is gone, and what inherits events from it. */
void model_task_ends(struct event_model *m, int pid);

/* close(2) of the last descriptor. */
void model_close(struct event_model *m, int i);

/* mmap(2) of @pages from page @first on. */
int model_map(struct event_model *m, int i, size_t pages, size_t first, bool shared);

/* A mapping has become two. */
void model_split(struct event_model *m, int i);

/* A mapping is gone. */
void model_unmap(struct event_model *m, int i);

/* @other: an event, or NO_EVENT for -1. */
int model_set_output(struct event_model *m, int i, int other);

int model_pause(const struct event_model *m, int i);
int model_period(struct event_model *m, int i, __u64 period);
void model_enable(struct event_model *m, int i, bool group, bool enabled);
int model_refresh(struct event_model *m, int i);

/* The size of what read(2) gives. */
size_t model_read_size(const struct event_model *m, int i);

/* Whether it counts can be told, and if so: it counts now, if its task runs. */
bool model_knows(const struct event_model *m, int i);
bool model_counts(const struct event_model *m, int i);

#endif
