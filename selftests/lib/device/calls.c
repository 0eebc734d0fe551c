// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "calls.h"

#define FIELD(kind, type, member) \
	{ kind, offsetof(struct type, member), sizeof(((struct type *)0)->member) }
#define INT_NUMBER	{ NUMBER, 0, sizeof(int) }

/* Columns of the table */
#define READER		false
#define WRITER		true
#define NEVER_BUSY	false
#define BUSY		true

/*
 * The result of each trace command in each state of the trace. The results of other commands do not
 * depend on the state.
 */
#define BAD_STATE	(-EBADFD)
#define ANY_STATE	{ IDLE, ALLOCATED, STAGED, RUNNING }

const struct command commands[COMMANDS] = {
	{ "PMIOSETUP", PMIOSETUP, WRITER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc, pmc_num),
		FIELD(SELECT, pmc, pmc_val),
	} },
	{ "PMIOSTART", PMIOSTART, WRITER, BUSY, ANY_STATE, { INT_NUMBER } },
	{ "PMIOSTOP", PMIOSTOP, WRITER, BUSY, ANY_STATE, { INT_NUMBER } },
	{ "PMIOREAD", PMIOREAD, READER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc_data, pmcd_num),
	} },
	{ "PMIORESET", PMIORESET, WRITER, BUSY, ANY_STATE, { INT_NUMBER } },
	{ "PMIOTSTAMP", PMIOTSTAMP, READER, NEVER_BUSY, ANY_STATE, { } },
	{ "PMIOGET", PMIOGET, READER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc, pmc_num),
	} },
	{ "PMIOREADCPU", PMIOREADCPU, READER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc_cpu_data, pmcc_num),
		FIELD(CPU, pmc_cpu_data, pmcc_first_cpu),
		FIELD(CPU_COUNT, pmc_cpu_data, pmcc_count),
		FIELD(ZERO, pmc_cpu_data, reserved),
	} },
	{ "PMIOSETUP2", PMIOSETUP2, WRITER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc2, pmc2_num),
		FIELD(ZERO, pmc2, pmc2_flags),
		FIELD(SELECT, pmc2, pmc2_select),
		FIELD(ZERO, pmc2, pmc2_extra),
		FIELD(CORE_TYPE, pmc2, pmc2_type),
		FIELD(ZERO, pmc2, reserved),
	} },
	{ "PMIOGET2", PMIOGET2, READER, BUSY, ANY_STATE, {
		FIELD(NUMBER, pmc2, pmc2_num),
		FIELD(ZERO, pmc2, pmc2_flags),
		FIELD(ZERO, pmc2, pmc2_extra),
		FIELD(ZERO, pmc2, reserved),
	} },
	{ "GET_PROPERTIES", IOCTL_PERFMON_GET_PROPERTIES, READER, NEVER_BUSY,
	  ANY_STATE, { } },
	{ "GET_INFO", PERFMON_GET_INFO, READER, NEVER_BUSY, ANY_STATE, { } },

	/* The state before:   Idle, Allocated, Staged, Running */
	{ "DEFINE_EVENT", PERFMON_DEFINE_EVENT, WRITER, NEVER_BUSY,
	  { IDLE, ALLOCATED, BAD_STATE, BAD_STATE }, {
		FIELD(MODEL_ID, perfmon_event_definition, id),
		FIELD(ZERO, perfmon_event_definition, reserved),
		FIELD(CORE_TYPE, perfmon_event_definition, type),
		FIELD(DEFINITION, perfmon_event_definition, select),
		FIELD(ZERO, perfmon_event_definition, extra),
		FIELD(ZERO, perfmon_event_definition, reserved2),
	} },
	{ "ALLOC_TRACE", IOCTL_PERFMON_ALLOC_TRACE, WRITER, NEVER_BUSY,
	  { ALLOCATED, BAD_STATE, BAD_STATE, BAD_STATE }, {
		FIELD(BUFFERS, perfmon_alloc, num_buffers),
		FIELD(PAGES_EACH, perfmon_alloc, buffer_size_in_pages),
	} },
	{ "FREE_TRACE", IOCTL_PERFMON_FREE_TRACE, WRITER, NEVER_BUSY,
	  { BAD_STATE, IDLE, IDLE, BAD_STATE }, { } },
	{ "GET_ALLOC", IOCTL_PERFMON_GET_ALLOC, WRITER, NEVER_BUSY,
	  { BAD_STATE, ALLOCATED, STAGED, RUNNING }, { } },
	{ "STAGE_CONFIG", IOCTL_PERFMON_STAGE_CONFIG, WRITER, NEVER_BUSY,
	  { BAD_STATE, STAGED, STAGED, BAD_STATE }, {
		{ CONFIG, 0, sizeof(struct perfmon_config) },
	} },
	{ "GET_CONFIG", IOCTL_PERFMON_GET_CONFIG, WRITER, NEVER_BUSY,
	  { BAD_STATE, BAD_STATE, STAGED, BAD_STATE }, { } },
	{ "GET_BUFFER_HANDLE", IOCTL_PERFMON_GET_BUFFER_HANDLE, WRITER, NEVER_BUSY,
	  { BAD_STATE, ALLOCATED, STAGED, BAD_STATE }, {
		FIELD(CPU, perfmon_buffer_handle_req, descriptor),
	} },
	{ "START", IOCTL_PERFMON_START, WRITER, BUSY,
	  { BAD_STATE, BAD_STATE, RUNNING, BAD_STATE }, { } },
	{ "STOP", IOCTL_PERFMON_STOP, WRITER, NEVER_BUSY,
	  { BAD_STATE, ALLOCATED, STAGED, STAGED }, { } },
};

const struct command *command_find(unsigned int cmd)
{
	const struct command *c;

	for_each_command(c) {
		if (c->cmd == cmd)
			return c;
	}
	return NULL;
}

bool command_is_of_trace(const struct command *c)
{
	return _IOC_TYPE(c->cmd) == _IOC_TYPE(IOCTL_PERFMON_START);
}

bool command_may_fail(const struct command *c, int err)
{
	int state;

	switch (err) {
	case 0:
		return true;
	case EPERM:
		return c->needs_writer;
	case EBUSY:
		return c->may_be_busy;
	}
	for (state = IDLE; state < TRACE_STATES; state++) {
		if (c->next[state] == -err)
			return true;
	}
	return false;
}

/* --- Arguments ----------------------------------------------------------- */

void field_put(const struct command_field *f, union argument *arg, __u64 value)
{
	/* Little-endian: if the field is longer than @value, its upper bytes stay 0. */
	memcpy(arg->bytes + f->offset, &value,
	       f->size < sizeof(value) ? f->size : sizeof(value));
}

static __u64 value_of(const struct field_values *v, enum field_kind kind)
{
	switch (kind) {
	case NUMBER:
		return v->num;
	case SELECT:
		return v->select;
	case DEFINITION:
		return v->definition;
	case CPU:
		return v->cpu;
	case CPU_COUNT:
		return v->cpu_count;
	case BUFFERS:
		return v->buffers;
	case PAGES_EACH:
		return v->pages;
	case MODEL_ID:
		return v->model_id;
	case ZERO:
	case CORE_TYPE:
	case CONFIG:
		break;
	}
	return 0;
}

union argument command_argument(const struct command *c, const struct field_values *v)
{
	const struct command_field *f;
	union argument arg;

	memset(&arg, 0, sizeof(arg));
	for (f = c->fields; f < c->fields + COMMAND_FIELDS && f->kind; f++) {
		if (f->kind == CONFIG)
			arg.config = *v->config;
		else
			field_put(f, &arg, value_of(v, f->kind));
	}
	return arg;
}

/* --- Calls --------------------------------------------------------------- */

int call_ioctl(int fd, unsigned int cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

int call_and_close(int fd, unsigned int cmd, void *arg)
{
	int ret = call_ioctl(fd, cmd, arg);

	if (ret >= 0 && cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE)
		close(ret);
	return ret < 0 ? ret : 0;
}

int trace_enter(int fd, enum trace_state from, enum trace_state to,
		const struct field_values *v)
{
	/* The command that leads to each state. */
	static const unsigned int path[] = {
		[ALLOCATED] = IOCTL_PERFMON_ALLOC_TRACE,
		[STAGED] = IOCTL_PERFMON_STAGE_CONFIG,
		[RUNNING] = IOCTL_PERFMON_START,
	};
	union argument arg;
	int err = 0;
	unsigned int s;

	for (s = from + 1; s <= to && !err; s++) {
		arg = command_argument(command_find(path[s]), v);
		err = call_and_close(fd, path[s], &arg);
	}
	return err;
}
