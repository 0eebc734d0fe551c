// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states of a trace: every call in every state, its result, and the state after it.
 *
 * A variant is a state. The table of the calls (lib/device/calls.c) has the expected next state.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "trace.h"

#define PAGES	4

static const char *const state_names[] = {
	"Idle", "Allocated", "Staged", "Running",
};

FIXTURE(trace)
{
	int fd;
	int reader;
	long page_size;
	char *pages;	/* writable, read-only, not mapped */
};

FIXTURE_VARIANT(trace)
{
	enum trace_state state;
};

FIXTURE_VARIANT_ADD(trace, idle) { .state = IDLE };
FIXTURE_VARIANT_ADD(trace, allocated) { .state = ALLOCATED };
FIXTURE_VARIANT_ADD(trace, staged) { .state = STAGED };
FIXTURE_VARIANT_ADD(trace, running) { .state = RUNNING };

/* Returns a valid config. @mark distinguishes the config from other configs. */
static struct perfmon_config config(int mark)
{
	return (struct perfmon_config) {
		.events = { INSTRUCTIONS, MODEL_EVENT(7) },
		.rate = { 1000000 + mark },
		.flags = { FLAG_USER | FLAG_PC, FLAG_USER | FLAG_OS },
	};
}

#define FIRST_MARK	0	/* mark of the config that was staged to get into the state */
#define SECOND_MARK	1

/* Returns values for valid arguments, so that only the state can be the reason to refuse a call. */
static struct field_values values(const struct perfmon_config *config)
{
	return (struct field_values) {
		.definition = EVENT_INSTRUCTIONS,
		.buffers = cpu_ids(),
		.pages = PAGES,
		.model_id = MODEL_EVENT(7),
		.config = config,
	};
}

static union argument valid_argument(const struct command *command)
{
	const struct perfmon_config second = config(SECOND_MARK);
	const struct field_values v = values(&second);

	return command_argument(command, &v);
}

/* Brings a new descriptor into a state. Returns 0 or a negative errno. */
static int enter_state(int fd, enum trace_state state)
{
	const struct perfmon_config first = config(FIRST_MARK);
	const struct field_values v = values(&first);
	int err = trace_define(fd, 7, EVENT_INSTRUCTIONS);

	return err ? err : trace_enter(fd, IDLE, state, &v);
}

/*
 * Finds the state of the trace by calls that change nothing or are refused. Returns the state, or
 * a negative errno that is wrong in every state.
 */
static int state_of(int fd)
{
	struct perfmon_config c;
	struct perfmon_alloc a;
	int err = device_ioctl(fd, IOCTL_PERFMON_GET_ALLOC, &a);

	if (err)
		return err == -EBADFD ? IDLE : err;
	err = device_ioctl(fd, IOCTL_PERFMON_GET_CONFIG, &c);
	if (!err)
		return STAGED;
	if (err != -EBADFD)
		return err;
	err = trace_handle(fd, 0);
	if (err >= 0) {
		close(err);
		return ALLOCATED;
	}
	return err == -EBADFD ? RUNNING : err;
}

FIXTURE_SETUP(trace)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	self->reader = open_device(_metadata, O_RDONLY);
	ASSERT_EQ(0, enter_state(self->fd, variant->state));

	self->page_size = sysconf(_SC_PAGESIZE);
	self->pages = mmap(NULL, 3 * self->page_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(self->pages != MAP_FAILED);
	ASSERT_EQ(0, mprotect(self->pages + self->page_size, self->page_size,
			      PROT_READ));
	ASSERT_EQ(0, munmap(self->pages + 2 * self->page_size,
			    self->page_size));
}

FIXTURE_TEARDOWN(trace)
{
	close(self->fd);
	close(self->reader);
}

TEST_F(trace, call_leads_to_the_next_state_or_is_refused)
{
	const struct command *call;
	union argument arg;
	int want;

	for_each_command(call) {
		if (!command_is_of_trace(call))
			continue;
		/* Uses a new descriptor in the variant's state for each call. */
		close(self->fd);
		self->fd = open_device(_metadata, O_RDWR);
		ASSERT_EQ(0, enter_state(self->fd, variant->state));
		ASSERT_EQ((int)variant->state, state_of(self->fd));

		want = call->next[variant->state];
		arg = valid_argument(call);
		EXPECT_EQ(want < 0 ? want : 0, call_and_close(self->fd, call->cmd, &arg)) {
			TH_LOG("%s in state %s", call->name,
			       state_names[variant->state]);
		}
		if (want < 0)
			want = variant->state;
		EXPECT_EQ(want, state_of(self->fd)) {
			TH_LOG("%s in state %s does not lead to %s", call->name,
			       state_names[variant->state], state_names[want]);
		}
	}
}

/* Write access is checked first: the state and the argument do not matter. */
TEST_F(trace, readers_may_only_query)
{
	const struct command *call;
	union argument arg;

	for_each_command(call) {
		if (!command_is_of_trace(call))
			continue;
		arg = valid_argument(call);
		EXPECT_EQ(call->needs_writer ? -EPERM : 0,
			  call_and_close(self->reader, call->cmd, &arg)) {
			TH_LOG("%s", call->name);
		}
		EXPECT_EQ(call->needs_writer ? -EPERM : -EFAULT,
			  call_and_close(self->reader, call->cmd, NULL)) {
			TH_LOG("%s with a bad pointer", call->name);
		}
	}
	EXPECT_EQ((int)variant->state, state_of(self->fd));
}

/* Returns true if the trace has the state and config that enter_state() has set. */
static bool is_unchanged(int fd, enum trace_state state)
{
	struct perfmon_config first = config(FIRST_MARK), c;
	struct perfmon_alloc a = { .num_buffers = 0 };

	if (state_of(fd) != (int)state)
		return false;
	if (state >= ALLOCATED &&
	    (device_ioctl(fd, IOCTL_PERFMON_GET_ALLOC, &a) ||
	     a.num_buffers != (__u32)cpu_ids() ||
	     a.buffer_size_in_pages != PAGES))
		return false;

	/* GET_CONFIG is refused while a trace runs. */
	return state != STAGED ||
	       (!device_ioctl(fd, IOCTL_PERFMON_GET_CONFIG, &c) &&
		!memcmp(&c, &first, sizeof(c)));
}

/* The argument is read before the state is checked, and written last. */
TEST_F(trace, bad_pointers_have_no_effect)
{
	char *readable = self->pages + self->page_size;
	char *end = readable + self->page_size;
	const struct command *call;
	size_t size;
	int want;

	for_each_command(call) {
		if (!command_is_of_trace(call))
			continue;
		size = _IOC_SIZE(call->cmd);
		if (!size)
			continue;
		want = call->next[variant->state];
		if (_IOC_DIR(call->cmd) & _IOC_WRITE || want >= 0)
			want = -EFAULT;
		EXPECT_EQ(want, device_ioctl(self->fd, call->cmd, NULL));
		EXPECT_EQ(want, device_ioctl(self->fd, call->cmd, end));
		EXPECT_EQ(want, device_ioctl(self->fd, call->cmd,
					     end - size + 1));
		EXPECT_EQ(want, device_ioctl(self->fd, call->cmd,
					     (void *)-4096UL));
		if (_IOC_DIR(call->cmd) == _IOC_READ)
			EXPECT_EQ(want, device_ioctl(self->fd, call->cmd,
						     readable));
		EXPECT_TRUE(is_unchanged(self->fd, variant->state)) {
			TH_LOG("%s", call->name);
		}
	}
}

TEST_F(trace, stop_can_be_repeated)
{
	int want = variant->state == IDLE ? -EBADFD : 0;
	int after = variant->state == RUNNING ? STAGED : (int)variant->state;
	int i;

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(want, device_ioctl(self->fd, IOCTL_PERFMON_STOP,
					     NULL));
		EXPECT_EQ(after, state_of(self->fd));
	}
}

TEST_F(trace, unknown_commands_are_refused)
{
	static const unsigned int unknown[] = {
		_IO('6', 9), _IO('6', 0x1f), _IO('6', 0x22), _IO('6', 0xff),
		_IO('6', 0), _IO('6', 1), _IOR('6', 2, int), _IOW('6', 7, int),
		_IOR('6', 1, struct perfmon_alloc),
		_IOWR('6', 1, struct perfmon_alloc),
		_IOW('6', 1, struct perfmon_config),
		_IOW('6', 0x21, struct perfmon_info),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		EXPECT_EQ(-ENOTTY, device_ioctl(self->fd, unknown[i], NULL));
		EXPECT_EQ(-ENOTTY, device_ioctl(self->reader, unknown[i],
						NULL));
	}
	EXPECT_TRUE(is_unchanged(self->fd, variant->state));
}

TEST_F(trace, alloc_is_refused_with_wrong_numbers)
{
	static const __u32 pages[] = { 0, PERFMON_MAX_BUFFER_PAGES + 1, ~0U };
	__u32 ids = cpu_ids();
	__u32 buffers[] = { 0, ids - 1, ids + 1, ~0U };
	unsigned int i;
	int want = variant->state == IDLE ? -EINVAL : -EBADFD;
	struct perfmon_info info;

	memset(&info, 0xff, sizeof(info));
	ASSERT_EQ(0, device_ioctl(self->fd, PERFMON_GET_INFO, &info));
	EXPECT_EQ(ids, info.nr_cpu_ids);
	EXPECT_EQ(0U, info.flags);
	EXPECT_EQ(0ULL, info.features & ~(PERFMON_FEATURE_FULL_WIDTH_WRITES |
					  PERFMON_FEATURE_PLACE_HOLDER |
					  PERFMON_FEATURE_MAPPINGS));
	for (i = 0; i < ARRAY_SIZE(info.reserved); i++)
		EXPECT_EQ(0ULL, info.reserved[i]);

	for (i = 0; i < ARRAY_SIZE(pages); i++)
		EXPECT_EQ(want, trace_alloc_buffers(self->fd, ids, pages[i]));
	for (i = 0; i < ARRAY_SIZE(buffers); i++)
		EXPECT_EQ(want, trace_alloc_buffers(self->fd, buffers[i],
						    PAGES));
	EXPECT_TRUE(is_unchanged(self->fd, variant->state));
}

/* Reserved members are checked before the state. */
TEST_F(trace, definition_is_refused_with_reserved_members)
{
	const struct perfmon_event_definition good = {
		.id = MODEL_EVENT(7),
		.select = EVENT_INSTRUCTIONS,
	};
	struct perfmon_event_definition d;
	unsigned int i;

	d = good;
	d.reserved = 1;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	d = good;
	d.type = 1U << 31;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	for (i = 0; i < ARRAY_SIZE(d.reserved2); i++) {
		d = good;
		d.reserved2[i] = 1ULL << 63;
		EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT,
						&d));
	}
	d = good;
	d.extra = 1;
	EXPECT_EQ(-EINVAL, device_ioctl(self->fd, PERFMON_DEFINE_EVENT, &d));
	EXPECT_TRUE(is_unchanged(self->fd, variant->state));
}

FIXTURE(staged)
{
	int fd;
};

FIXTURE_SETUP(staged)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, enter_state(self->fd, STAGED));
}

FIXTURE_TEARDOWN(staged)
{
	close(self->fd);
}

TEST_F(staged, config_comes_back_as_it_was_staged)
{
	struct perfmon_config first = config(FIRST_MARK), second = config(SECOND_MARK);
	struct perfmon_config c;

	memset(&c, 0xff, sizeof(c));
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &c));
	EXPECT_EQ(0, memcmp(&c, &first, sizeof(c)));

	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_STAGE_CONFIG,
				  &second));
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &c));
	EXPECT_EQ(0, memcmp(&c, &second, sizeof(c)));

	/* The config is the same after a run. */
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_START, NULL));
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_STOP, NULL));
	ASSERT_EQ(0, device_ioctl(self->fd, IOCTL_PERFMON_GET_CONFIG, &c));
	EXPECT_EQ(0, memcmp(&c, &second, sizeof(c)));
}

TEST_F(staged, handle_is_refused_with_a_wrong_number)
{
	__u32 ids = cpu_ids();

	EXPECT_EQ(-EINVAL, trace_handle(self->fd, ids));
	EXPECT_EQ(-EINVAL, trace_handle(self->fd, ~0U));
	EXPECT_EQ(-EINVAL, trace_handle(self->fd, 1U << 31));
	EXPECT_TRUE(is_unchanged(self->fd, STAGED));
}

TEST_HARNESS_MAIN
