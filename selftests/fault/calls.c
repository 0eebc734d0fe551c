// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes each call with a failure of its first allocation or copy, then of its second, and so on
 * until each allocation and copy has failed once. The call fails with ENOMEM or EFAULT, changes
 * nothing, and works when it is repeated.
 *
 * The test finds a leaked buffer at once; kmemleak finds other leaks at the end of the run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "cpu.h"
#include "device.h"
#include "fault.h"
#include "fixture.h"
#include "leak_check.h"
#include "loop.h"
#include "memory.h"
#include "snapshot.h"
#include "trace.h"

/* A number of allocations and copies that is larger than any call makes. */
#define MAX_FAULTS	1000

#define RATE	100000U
#define PAGES	4
#define N	1000UL

FIXTURE(fault)
{
	struct perfmon_properties p;
	cpu_set_t cpus;
	int fd;		/* descriptor for writing */
	int handle;	/* descriptor of a buffer, if there is one */
	void *map;
};

/* The arguments of a call, and the descriptor that it opens. */
struct call_under_test {
	FIXTURE_DATA(fault) *self;
	int opened;	/* a descriptor that the call has opened */
	union argument arg;
};

/* Calls other than ioctl(2). */

static int open_reader(struct call_under_test *s)
{
	s->opened = device_open(O_RDONLY);
	return s->opened;
}

static int map_buffer(struct call_under_test *s)
{
	s->self->map = mmap(NULL, PAGES * sysconf(_SC_PAGESIZE), PROT_READ,
			    MAP_SHARED, s->self->handle, 0);
	return s->self->map == MAP_FAILED ? -errno : 0;
}

/* A call in a state of the trace. Counter 0 is stopped, counter 1 runs. */
FIXTURE_VARIANT(fault)
{
	enum trace_state state;
	unsigned int cmd;
	int num;	/* number of a counter */
	int (*make)(struct call_under_test *s);	/* the call, in place of @cmd */
	bool cannot_fail;	/* the call has no allocation, and no copy that is made to fail */
};

FIXTURE_VARIANT_ADD(fault, open) { .state = IDLE, .make = open_reader };
FIXTURE_VARIANT_ADD(fault, get_properties) {
	.state = IDLE, .cmd = IOCTL_PERFMON_GET_PROPERTIES
};
FIXTURE_VARIANT_ADD(fault, get_info) { .state = IDLE, .cmd = PERFMON_GET_INFO };
FIXTURE_VARIANT_ADD(fault, pmiotstamp) {
	.state = IDLE, .cmd = PMIOTSTAMP, .cannot_fail = true
};
FIXTURE_VARIANT_ADD(fault, pmiosetup) { .state = IDLE, .cmd = PMIOSETUP };
FIXTURE_VARIANT_ADD(fault, pmiosetup2) { .state = IDLE, .cmd = PMIOSETUP2 };
FIXTURE_VARIANT_ADD(fault, pmiostart) { .state = IDLE, .cmd = PMIOSTART };
FIXTURE_VARIANT_ADD(fault, pmiostop) {
	.state = IDLE, .cmd = PMIOSTOP, .num = 1
};
FIXTURE_VARIANT_ADD(fault, pmioreset) { .state = IDLE, .cmd = PMIORESET };
FIXTURE_VARIANT_ADD(fault, pmioget) { .state = IDLE, .cmd = PMIOGET };
FIXTURE_VARIANT_ADD(fault, pmioget2) { .state = IDLE, .cmd = PMIOGET2 };
FIXTURE_VARIANT_ADD(fault, pmioread) {
	.state = IDLE, .cmd = PMIOREAD, .num = 1, .cannot_fail = true
};
FIXTURE_VARIANT_ADD(fault, pmioreadcpu) {
	.state = IDLE, .cmd = PMIOREADCPU, .num = 1
};
FIXTURE_VARIANT_ADD(fault, define_event) {
	.state = ALLOCATED, .cmd = PERFMON_DEFINE_EVENT
};
FIXTURE_VARIANT_ADD(fault, alloc_trace) {
	.state = IDLE, .cmd = IOCTL_PERFMON_ALLOC_TRACE
};
FIXTURE_VARIANT_ADD(fault, free_trace) {
	.state = STAGED, .cmd = IOCTL_PERFMON_FREE_TRACE, .cannot_fail = true
};
FIXTURE_VARIANT_ADD(fault, get_alloc) {
	.state = ALLOCATED, .cmd = IOCTL_PERFMON_GET_ALLOC
};
FIXTURE_VARIANT_ADD(fault, stage_config) {
	.state = ALLOCATED, .cmd = IOCTL_PERFMON_STAGE_CONFIG
};
FIXTURE_VARIANT_ADD(fault, stage_config_again) {
	.state = STAGED, .cmd = IOCTL_PERFMON_STAGE_CONFIG
};
FIXTURE_VARIANT_ADD(fault, get_config) {
	.state = STAGED, .cmd = IOCTL_PERFMON_GET_CONFIG
};
FIXTURE_VARIANT_ADD(fault, get_buffer_handle) {
	.state = ALLOCATED, .cmd = IOCTL_PERFMON_GET_BUFFER_HANDLE
};
FIXTURE_VARIANT_ADD(fault, mmap) { .state = ALLOCATED, .make = map_buffer };
FIXTURE_VARIANT_ADD(fault, start) {
	.state = STAGED, .cmd = IOCTL_PERFMON_START, .cannot_fail = true
};
FIXTURE_VARIANT_ADD(fault, stop) {
	.state = RUNNING, .cmd = IOCTL_PERFMON_STOP, .cannot_fail = true
};

/*
 * Makes a valid argument that differs from those of enter_state(), so that an effect is visible.
 * Called before the fault is armed, so that only the call itself can fail.
 */
static void make_argument(struct call_under_test *s, const FIXTURE_VARIANT(fault) *variant)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, 2 * RATE,
						       FLAG_USER);
	const struct field_values values = {
		.num = variant->num,
		.select = EVENT_INSTRUCTIONS | PMCF_OS << 16,
		.definition = EVENT_INSTRUCTIONS | PMCF_USR << 16,
		.cpu_count = 1,
		.buffers = cpu_ids(),
		.pages = PAGES,
		.model_id = MODEL_EVENT(1),
		.config = &config,
	};

	if (variant->cmd)
		s->arg = command_argument(command_find(variant->cmd), &values);
}

static int make_call(struct call_under_test *s, const FIXTURE_VARIANT(fault) *variant)
{
	int ret;

	if (variant->make)
		return variant->make(s);
	ret = call_ioctl(s->self->fd, variant->cmd, &s->arg);
	if (variant->cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE)
		s->opened = ret;
	return ret;
}

FIXTURE_SETUP(fault)
{
	self->fd = -1;
	ASSERT_EQ(0, fault_enable());
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, machine_properties(&self->p));
}

/* Opens the device and brings it into the state for the call. */
static int enter_state(FIXTURE_DATA(fault) *self, enum trace_state state)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);
	const struct field_values values = {
		.buffers = cpu_ids(),
		.pages = PAGES,
		.config = &config,
	};
	int fd = device_open(O_RDWR);
	int err;

	self->fd = fd;
	self->handle = -1;
	self->map = MAP_FAILED;
	if (fd < 0)
		return fd;
	err = pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR);
	if (!err)
		err = pmc_count_loop(fd, 0, N);
	if (!err)
		err = pmc_setup(fd, 1, EVENT_INSTRUCTIONS, PMCF_USR);
	if (!err)
		err = pmc_start(fd, 1);
	if (err || state == IDLE)
		return err;
	err = trace_enter(fd, IDLE, ALLOCATED, &values);
	if (err)
		return err;
	self->handle = trace_handle(fd, 0);
	if (self->handle < 0)
		return self->handle;
	return trace_enter(fd, ALLOCATED, state, &values);
}

static void close_all(FIXTURE_DATA(fault) *self)
{
	if (self->map != MAP_FAILED)
		munmap(self->map, PAGES * sysconf(_SC_PAGESIZE));
	close(self->handle);
	close(self->fd);
}

FIXTURE_TEARDOWN(fault)
{
}

/* The state that the calls of the device report, and the registers that only the module changes. */
struct state_image {
	int descriptors;
	int err[7];
	struct pmc pmc[2];
	struct pmc_data data;
	struct perfmon_alloc alloc;
	struct perfmon_config config;
	struct snapshot cpu[TRACE_MAX_CPUS];
};

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int read_state(FIXTURE_DATA(fault) *self, struct state_image *i)
{
	int fd = self->fd, cpu, n, err;

	memset(i, 0, sizeof(*i));
	i->descriptors = count_descriptors();
	i->pmc[0].pmc_num = 0;
	i->pmc[1].pmc_num = 1;
	i->data.pmcd_num = 0;
	i->err[0] = device_ioctl(fd, PMIOGET, &i->pmc[0]);
	i->err[1] = device_ioctl(fd, PMIOGET, &i->pmc[1]);
	i->err[2] = device_ioctl(fd, PMIOREAD, &i->data);
	i->err[3] = device_ioctl(fd, IOCTL_PERFMON_GET_ALLOC, &i->alloc);
	i->err[4] = device_ioctl(fd, IOCTL_PERFMON_GET_CONFIG, &i->config);
	for_each_cpu_in(cpu, &self->cpus) {
		err = snapshot_read(&self->p, cpu, &i->cpu[cpu]);
		if (err)
			return err;
		/* Leaves out the values of counters, since some counters run. */
		for (n = 0; n < SNAPSHOT_MAX_COUNTERS; n++)
			i->cpu[cpu].counter[n] = i->cpu[cpu].fixed[n] = 0;
		i->cpu[cpu].global_status = 0;
	}
	err = sched_setaffinity(0, sizeof(self->cpus), &self->cpus);
	return err ? -errno : 0;
}

TEST_F_TIMEOUT(fault, failed_call_changes_nothing_and_works_when_repeated, 300)
{
	struct state_image before, after;
	struct call_under_test s = { .self = self };
	int n, result, injected = 1, failed = 0;

	for (n = 1; injected && n < MAX_FAULTS; n++) {
		ASSERT_EQ(0, enter_state(self, variant->state));
		ASSERT_EQ(variant->state != IDLE, memory_buffers() > 0);
		ASSERT_EQ(0, read_state(self, &before));

		s.opened = -1;
		make_argument(&s, variant);
		ASSERT_EQ(0, fault_arm(n));
		result = make_call(&s, variant);
		injected = fault_disarm();
		ASSERT_LE(0, injected);
		if (!injected) {
			EXPECT_LE(0, result);
		} else if (result < 0) {
			failed++;
			EXPECT_TRUE(result == -ENOMEM || result == -EFAULT) {
				TH_LOG("fault %d: %s", n, strerror(-result));
			}
			ASSERT_EQ(0, read_state(self, &after));
			EXPECT_EQ(0, memcmp(&before, &after, sizeof(before))) {
				TH_LOG("fault %d has changed something", n);
			}
			make_argument(&s, variant);
			EXPECT_LE(0, make_call(&s, variant));
		}
		close(s.opened);
		close_all(self);
		ASSERT_EQ(0, memory_buffers()) {
			TH_LOG("fault %d leaves a buffer", n);
		}
	}
	TH_LOG("%d faults, %d failures", n - 2, failed);
	EXPECT_GT(MAX_FAULTS, n);
	EXPECT_EQ(variant->cannot_fail, failed == 0);
	/* After all faults the device still counts exactly. */
	EXPECT_STREQ("", leak_check_counts());
}

TEST_HARNESS_MAIN
