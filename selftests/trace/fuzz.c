// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random calls of a trace, by a writer and a reader, with good and bad arguments
 * at good and bad addresses: each gets the errno that its state, in a model of
 * the trace, calls for, and the kernel's log stays empty.
 *
 * The sequence is the same in each run. FUZZ_SEED in the environment starts
 * another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kmsg.h"
#include "kselftest_harness.h"
#include "trace.h"

#define CALLS	50000

/* At most so many pages: many allocations are made. */
#define MAX_PAGES	8

enum state { IDLE, ALLOCATED, STAGED, RUNNING };

#define BAD	(-1)

/* Commands, whether they need write access, and the state after each state. */
static const struct command {
	unsigned int cmd;
	bool writer;
	int next[4];
} commands[] = {
	{ IOCTL_PERFMON_GET_PROPERTIES, false,
	  { IDLE, ALLOCATED, STAGED, RUNNING } },
	{ PERFMON_GET_INFO, false, { IDLE, ALLOCATED, STAGED, RUNNING } },
	{ PERFMON_DEFINE_EVENT, true, { IDLE, ALLOCATED, BAD, BAD } },
	{ IOCTL_PERFMON_ALLOC_TRACE, true, { ALLOCATED, BAD, BAD, BAD } },
	{ IOCTL_PERFMON_FREE_TRACE, true, { BAD, IDLE, IDLE, BAD } },
	{ IOCTL_PERFMON_GET_ALLOC, true, { BAD, ALLOCATED, STAGED, RUNNING } },
	{ IOCTL_PERFMON_STAGE_CONFIG, true, { BAD, STAGED, STAGED, BAD } },
	{ IOCTL_PERFMON_GET_CONFIG, true, { BAD, BAD, STAGED, BAD } },
	{ IOCTL_PERFMON_GET_BUFFER_HANDLE, true,
	  { BAD, ALLOCATED, STAGED, BAD } },
	{ IOCTL_PERFMON_START, true, { BAD, BAD, RUNNING, BAD } },
	{ IOCTL_PERFMON_STOP, true, { BAD, ALLOCATED, STAGED, STAGED } },
};

FIXTURE(fuzz)
{
	int writer;
	int reader;
	int kmsg;
	enum state state;
	struct perfmon_config staged;
	unsigned int cpus;
	long page_size;
	char *pages;		/* writable, read-only, not mapped */
	__u64 random;
};

FIXTURE_SETUP(fuzz)
{
	const char *seed = getenv("FUZZ_SEED");

	if (!pmu_expected())
		SKIP(return, "this CPU has no PMU");
	self->random = seed ? strtoull(seed, NULL, 0) : 1;
	self->random = self->random * 0x9e3779b97f4a7c15ULL | 1;
	self->writer = device_open(O_RDWR);
	ASSERT_LE(0, self->writer);
	self->reader = device_open(O_RDONLY);
	ASSERT_LE(0, self->reader);
	self->cpus = cpu_ids();
	self->page_size = sysconf(_SC_PAGESIZE);
	self->pages = mmap(NULL, 3 * self->page_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(self->pages != MAP_FAILED);
	ASSERT_EQ(0, mprotect(self->pages + self->page_size, self->page_size,
			      PROT_READ));
	ASSERT_EQ(0, munmap(self->pages + 2 * self->page_size,
			    self->page_size));
	self->kmsg = kmsg_open_end();
	ASSERT_LE(0, self->kmsg);
}

FIXTURE_TEARDOWN(fuzz)
{
	close(self->writer);
	close(self->reader);
	close(self->kmsg);
}

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003) */
static __u64 rnd(FIXTURE_DATA(fuzz) *self, __u64 below)
{
	self->random ^= self->random << 13;
	self->random ^= self->random >> 7;
	self->random ^= self->random << 17;
	return self->random % below;
}

union argument {
	struct perfmon_alloc alloc;
	struct perfmon_buffer_handle_req handle;
	struct perfmon_event_definition definition;
	struct perfmon_config config;
	char bytes[sizeof(struct perfmon_config)];
};

struct call {
	const struct command *command;
	size_t size;
	bool writer;
	char *p;
	bool readable;
	bool writable;
	bool good;	/* the argument is one that is accepted */
	union argument arg;
};

/*
 * A config that is accepted: instructions, rarely enough that the machine gets
 * something else done.
 */
static void good_config(FIXTURE_DATA(fuzz) *self, struct perfmon_config *c)
{
	*c = one_event(INSTRUCTIONS, rnd(self, 2) ? 0 :
				     100000 + rnd(self, 1000000),
		       rnd(self, PERFMON_CONFIG_FLAG_TIMEBASE0));
}

static void good_argument(FIXTURE_DATA(fuzz) *self, struct call *c)
{
	union argument *arg = &c->arg;

	switch (c->command->cmd) {
	case IOCTL_PERFMON_ALLOC_TRACE:
		arg->alloc.num_buffers = self->cpus;
		arg->alloc.buffer_size_in_pages = 1 + rnd(self, MAX_PAGES);
		break;
	case IOCTL_PERFMON_GET_BUFFER_HANDLE:
		arg->handle.descriptor = rnd(self, self->cpus);
		break;
	case PERFMON_DEFINE_EVENT:
		arg->definition.id = MODEL_EVENT(rnd(self, 64));
		arg->definition.select = rnd(self, 1 << 16);
		break;
	case IOCTL_PERFMON_STAGE_CONFIG:
		good_config(self, &arg->config);
		break;
	}
}

/* Makes one thing of a good argument wrong; false if there is nothing. */
static bool spoil(FIXTURE_DATA(fuzz) *self, struct call *c)
{
	union argument *arg = &c->arg;
	unsigned int i;

	switch (c->command->cmd) {
	case IOCTL_PERFMON_ALLOC_TRACE:
		if (rnd(self, 2))
			arg->alloc.num_buffers += 1 + rnd(self, 1ULL << 31);
		else
			arg->alloc.buffer_size_in_pages =
				rnd(self, 2) * (1 + PERFMON_MAX_BUFFER_PAGES +
						rnd(self, 1ULL << 31));
		return true;
	case IOCTL_PERFMON_GET_BUFFER_HANDLE:
		arg->handle.descriptor = self->cpus + rnd(self, 1ULL << 31);
		return true;
	case PERFMON_DEFINE_EVENT:
		arg->definition.id = rnd(self, 3 << 10);
		return true;
	case IOCTL_PERFMON_STAGE_CONFIG:
		/* Not the first event: that would be another good config. */
		i = 1 + rnd(self, PERFMON_MAX_EVENTS - 1);
		switch (rnd(self, 4)) {
		case 0:
			arg->config.events[0] = 1 + rnd(self, 1023);
			break;
		case 1:
			arg->config.rate[i] = 1U << rnd(self, 32);
			break;
		case 2:
			arg->config.flags[i] = 1U << rnd(self, 32);
			break;
		case 3:
			arg->config.flags[0] |= 1U << (5 + rnd(self, 27));
			break;
		}
		return true;
	}
	return false;
}

/* Places the argument where some, all or nothing of it can be accessed. */
static void random_pointer(FIXTURE_DATA(fuzz) *self, struct call *c)
{
	long page = self->page_size;
	char *writable_end = self->pages + page;
	char *end = writable_end + page;

	switch (rnd(self, 16)) {
	case 0:
		c->p = (char *)(unsigned long)rnd(self, page);
		break;
	case 1:
		c->p = (char *)-(unsigned long)(1 + rnd(self, 4096));
		break;
	case 2:
		c->p = end - rnd(self, c->size + 1);
		break;
	case 3:
		c->p = writable_end - rnd(self, c->size + 1);
		break;
	default:
		c->p = self->pages + rnd(self, page - c->size + 1);
	}
	c->readable = c->p >= self->pages && c->p <= end - c->size;
	c->writable = c->p >= self->pages && c->p <= writable_end - c->size;
	if (c->writable) {
		memcpy(c->p, &c->arg, c->size);
	} else if (c->readable && _IOC_DIR(c->command->cmd) == _IOC_WRITE) {
		mprotect(self->pages + page, page, PROT_READ | PROT_WRITE);
		memcpy(c->p, &c->arg, c->size);
		mprotect(self->pages + page, page, PROT_READ);
	}
}

static struct call random_call(FIXTURE_DATA(fuzz) *self)
{
	struct call c = {
		.command = &commands[rnd(self, ARRAY_SIZE(commands))],
		.writer = rnd(self, 8),
	};

	c.size = _IOC_SIZE(c.command->cmd);
	good_argument(self, &c);
	c.good = rnd(self, 4) || !spoil(self, &c);
	random_pointer(self, &c);
	return c;
}

/* 0 or a negative errno: the order of checks is that of linux/perfmon.h. */
static int expected(FIXTURE_DATA(fuzz) *self, const struct call *c)
{
	unsigned int cmd = c->command->cmd;
	bool bad_state = c->command->next[self->state] == BAD;
	bool early = cmd == PERFMON_DEFINE_EVENT ||
		     cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE;

	if (c->command->writer && !c->writer)
		return -EPERM;
	if (_IOC_DIR(cmd) == _IOC_WRITE && !c->readable)
		return -EFAULT;

	/* An id and a CPU are numbers, which come before the state. */
	if (!c->good && (early || !bad_state))
		return -EINVAL;
	if (bad_state)
		return -EBADFD;
	if (_IOC_DIR(cmd) == _IOC_READ && !c->writable)
		return -EFAULT;
	return 0;
}

static int make(FIXTURE_DATA(fuzz) *self, const struct call *c)
{
	int ret = ioctl(c->writer ? self->writer : self->reader,
			c->command->cmd, c->p);

	if (ret < 0)
		return -errno;
	if (c->command->cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE)
		close(ret);
	return 0;
}

TEST_F_TIMEOUT(fuzz, as_the_model_says, 240)
{
	struct kmsg_lines lines;
	struct perfmon_config now;
	struct trace_sums sums;
	struct trace trace;
	int i, cpu, good = 0;

	for (i = 0; i < CALLS; i++) {
		struct call c = random_call(self);
		int want = expected(self, &c);

		ASSERT_EQ(want, make(self, &c)) {
			TH_LOG("call %d: %s 0x%08x at %p in state %d", i,
			       c.writer ? "writer" : "reader", c.command->cmd,
			       c.p, self->state);
		}
		if (want)
			continue;
		good++;
		self->state = c.command->next[self->state];
		if (c.command->cmd == IOCTL_PERFMON_STAGE_CONFIG)
			self->staged = c.arg.config;
		if (self->state == STAGED) {
			ASSERT_EQ(0, device_ioctl(self->writer,
						  IOCTL_PERFMON_GET_CONFIG,
						  &now));
			ASSERT_EQ(0, memcmp(&now, &self->staged, sizeof(now)));
		}
	}
	EXPECT_LT(CALLS / 10, good);
	EXPECT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}

	/* And then it traces as ever. */
	close(self->writer);
	self->writer = device_open(O_RDWR);
	ASSERT_LE(0, self->writer);
	cpu = sched_getcpu();
	ASSERT_EQ(0, pin_to_cpu(cpu));
	ASSERT_EQ(0, trace_alloc(&trace, self->writer, 16));
	now = one_event(INSTRUCTIONS, 1009, FLAG_USER | FLAG_PC);
	ASSERT_EQ(0, trace_stage(&trace, &now));
	ASSERT_EQ(0, trace_loop(&trace, 1000));
	ASSERT_STREQ("", trace_sum(&trace, cpu, &sums));
	EXPECT_EQ(TRACE_LOOP_INSNS(1000), sums.event[0].total);
}

/* Arguments of random bytes: whatever comes of it, the machine survives. */
TEST_F_TIMEOUT(fuzz, random_bytes, 240)
{
	struct kmsg_lines lines;
	unsigned int byte;
	int i;

	for (i = 0; i < CALLS; i++) {
		struct call c = random_call(self);

		/* Large allocations and small rates would only take time. */
		if (c.writable && c.size &&
		    c.command->cmd != IOCTL_PERFMON_ALLOC_TRACE) {
			byte = rnd(self, c.size);
			if (byte < offsetof(struct perfmon_config, rate) ||
			    byte >= offsetof(struct perfmon_config, flags))
				c.p[byte] ^= 1U << rnd(self, 8);
		}
		make(self, &c);
	}
	EXPECT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

TEST_HARNESS_MAIN
