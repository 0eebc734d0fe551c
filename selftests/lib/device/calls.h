/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls of /dev/perfmon in one table: argument, write access, states in which a call is
 * allowed, and the state after the call.
 */
#ifndef SELFTESTS_CALLS_H
#define SELFTESTS_CALLS_H

#include <stdbool.h>

#include <linux/perfmon.h>

enum trace_state { IDLE, ALLOCATED, STAGED, RUNNING, TRACE_STATES };

union argument {
	int num;	/* the first member of each counting argument */
	struct pmc pmc;
	struct pmc2 pmc2;
	struct pmc_data data;
	struct pmc_cpu_data cpu_data;
	struct pmc_tstamp tstamp;
	struct perfmon_properties properties;
	struct perfmon_info info;
	struct perfmon_alloc alloc;
	struct perfmon_buffer_handle_req handle;
	struct perfmon_event_definition definition;
	struct perfmon_config config;
	unsigned char bytes[sizeof(struct pmc_cpu_data)];
};

/* The meaning of a field of an argument. */
enum field_kind {
	NUMBER = 1,	/* the number of a counter */
	SELECT,		/* an event select, as wide as the field */
	DEFINITION,	/* the event select of a model-specific event */
	ZERO,		/* must be 0 */
	CORE_TYPE,	/* the type of a kind of core; 0: all */
	CPU,
	CPU_COUNT,	/* the number of CPUs whose values are wanted */
	BUFFERS,	/* the number of buffers */
	PAGES_EACH,	/* the size of a buffer */
	MODEL_ID,
	CONFIG,		/* all of struct perfmon_config */
};

struct command_field {
	enum field_kind kind;
	__u16 offset;
	__u16 size;
};

#define COMMAND_FIELDS	6

struct command {
	const char *name;	/* without IOCTL_PERFMON_ */
	unsigned int cmd;	/* with the argument's size and direction */
	bool needs_writer;	/* EPERM on a descriptor for reading */
	bool may_be_busy;	/* EBUSY is possible: see linux/perfmon.h */
	int next[TRACE_STATES];	/* by the state before the call: the state after it, or a negative errno */
	struct command_field fields[COMMAND_FIELDS];	/* the list ends at an entry without a kind */
};

#define COMMANDS	21

extern const struct command commands[COMMANDS];

#define for_each_command(c)	\
	for ((c) = commands; (c) < commands + COMMANDS; (c)++)

/* Returns the command with this number, or NULL. */
const struct command *command_find(unsigned int cmd);

/* Returns true for a command of the trace, false for one of the counters. */
bool command_is_of_trace(const struct command *c);

/*
 * Returns true if a call with a good argument can fail with the errno @err in some state of the
 * device; if @err is 0, returns true if such a call can succeed.
 */
bool command_may_fail(const struct command *c, int err);

/* A value for each kind of field. */
struct field_values {
	int num;
	__u64 select;
	__u64 definition;
	__u32 cpu;
	__u32 cpu_count;
	__u32 buffers;
	__u32 pages;
	__u16 model_id;
	const struct perfmon_config *config;
};

/* Returns an argument of @c whose fields have the values of @v. */
union argument command_argument(const struct command *c, const struct field_values *v);

/* Puts the low bytes of @value into a field. The field must not be a CONFIG. */
void field_put(const struct command_field *f, union argument *arg, __u64 value);

/* Calls ioctl(2). Returns its result, or a negative errno. */
int call_ioctl(int fd, unsigned int cmd, void *arg);

/* Calls call_ioctl(), and closes the descriptor if the command returns one. Returns 0 or -errno. */
int call_and_close(int fd, unsigned int cmd, void *arg);

/*
 * Brings the trace from state @from to the later state @to, with buffers and a config of @v.
 * Returns 0 or a negative errno.
 */
int trace_enter(int fd, enum trace_state from, enum trace_state to,
		const struct field_values *v);

#endif
