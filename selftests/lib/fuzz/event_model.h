/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of PERFMON_EVENT_OPEN and of its descriptors: the result of each call. The model was
 * written from Documentation/events.rst and rings.rst, not from the module.
 *
 * Results are 0 or a negative errno.
 */
#ifndef SELFTESTS_EVENT_MODEL_H
#define SELFTESTS_EVENT_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/perf_event.h>
#include <linux/types.h>

#define MODEL_EVENTS	8
#define NO_EVENT	(-1)

/* The size of struct perf_event_attr in Linux 7.3. The installed headers may be older. */
#define ATTR_SIZE	144

union model_attr {
	struct perf_event_attr fields;
	__u64 words[ATTR_SIZE / 8];
};

/* Indexes of `words`: the flags, and members that the headers may lack. */
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
	unsigned int mappings;	/* number of mappings, each of which keeps the event alive */
	union model_attr attr;
	int pid, cpu;		/* the thread's id (not 0), -1, or less for a cgroup; the CPU or -1 */
	bool inherit;		/* the event is inherited; never for an event of a CPU */
	int leader;		/* index of the leader, or NO_EVENT */
	bool takes_turns;	/* the event takes turns on the counters */
	bool enabled;
	bool can_disable_itself;	/* REFRESH was called */
	size_t ring_pages;	/* pages of the ring that the event writes to; 0: none */
	int ring_owner;		/* index of the event that owns this ring */
	bool tasks_exited;	/* all tasks that it counts have exited */
};

struct event_model {
	struct model_event event[MODEL_EVENTS];
	int cpus;		/* one more than the highest CPU number */
	__u64 max_rate;		/* perf_event_max_sample_rate; 0: no limit */
	int precise;		/* the format of precise samples; 0: the CPU has none */
};

/* The branches of precise samples, which all processors with format 4 and later formats record. */
#define RECORDED_BRANCHES	(PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER)

/* The arguments of an open. */
struct model_open {
	union model_attr attr;
	bool unreadable;	/* the pointer to attr is bad */
	int pid;		/* a thread's id (not 0) or -1 */
	bool thread_exited;	/* the thread has exited */
	int cgroup;		/* the number, from 1 on, of a cgroup in place of the thread; or 0 */
	int cpu;
	int group;		/* an open event, or NO_EVENT */
	bool bad_group;		/* the group's descriptor is not one of an event */
	__u32 flags;
	__u32 reserved;
};

/* Returns whether the event exists: it is open or mapped. */
static inline bool model_event_exists(const struct model_event *e)
{
	return e->open || e->mappings;
}

/* Returns the number of the event's cgroup, from 1 on; or 0. */
static inline int model_cgroup(const struct model_event *e)
{
	return e->pid < -1 ? -1 - e->pid : 0;
}

/* Returns the errors of an open that follow from the size and the members of @attr alone, or 0. */
int model_attr(const struct event_model *m, const union model_attr *attr);

/* Returns whether @answer is another correct result for an @attr that has several errors. */
bool model_attr_may_be(const struct event_model *m, const union model_attr *attr, int answer);

/*
 * Opens event @i, which does not exist yet. Never returns EBUSY for lack of a free counter:
 * model_may_be_busy() returns whether that error is possible.
 */
int model_open(struct event_model *m, int i, const struct model_open *o);

/* Returns whether a valid open may fail with EBUSY while @open_events events exist. */
bool model_may_be_busy(const struct model_open *o, unsigned int open_events,
		       unsigned int exclusive);

/* Notes that thread @pid and all tasks that inherit its events have exited. */
void model_task_ends(struct event_model *m, int pid);

/* Closes the last descriptor of the event. */
void model_close(struct event_model *m, int i);

/* Maps @pages pages from page @first on. */
int model_map(struct event_model *m, int i, size_t pages, size_t first, bool shared);

/* Notes that a mapping was split in two. */
void model_split(struct event_model *m, int i);

/* Notes the end of a mapping. */
void model_unmap(struct event_model *m, int i);

/* Calls PERF_EVENT_IOC_SET_OUTPUT with event @other, or with -1 for NO_EVENT. */
int model_set_output(struct event_model *m, int i, int other);

int model_pause(const struct event_model *m, int i);
int model_period(struct event_model *m, int i, __u64 period);
void model_enable(struct event_model *m, int i, bool group, bool enabled);
int model_refresh(struct event_model *m, int i);

/* Returns the size of a result of read(2) in bytes. */
size_t model_read_size(const struct event_model *m, int i);

/*
 * model_count_is_known() returns whether the model knows if the event counts. If so, model_counts()
 * returns whether the event counts while its task runs.
 */
bool model_count_is_known(const struct event_model *m, int i);
bool model_counts(const struct event_model *m, int i);

#endif
