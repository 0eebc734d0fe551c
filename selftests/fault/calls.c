// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each call with its first allocation or copy failing, then its second, and so
 * on until none is left to fail: the errno says so, nothing has changed, and the
 * same call works afterwards.
 *
 * A buffer that is lost is seen at once; other memory by kmemleak, at the end of
 * the run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fault.h"
#include "kselftest_harness.h"
#include "leak_check.h"
#include "loop.h"
#include "memory.h"
#include "snapshot.h"
#include "trace.h"

/* More than any call asks for. */
#define MAX_FAULTS	1000

#define RATE	100000U
#define PAGES	4
#define N	1000UL

/* How far a trace has come. */
enum life { IDLE, ALLOCATED, STAGED, RUNNING };

FIXTURE(fault)
{
	struct perfmon_properties p;
	cpu_set_t cpus;
	struct perfmon_alloc alloc;
	struct perfmon_config config;
	int fd;		/* the writer */
	int handle;	/* of a buffer, if there is one */
	void *map;
};

/* The rest of what a call takes, and what it leaves. */
struct subject {
	FIXTURE_DATA(fault) *self;
	int opened;	/* a descriptor that it has opened */
};

static int cmd(struct subject *s, unsigned int command, void *arg)
{
	return device_ioctl(s->self->fd, command, arg);
}

static int call_open(struct subject *s)
{
	s->opened = device_open(O_RDONLY);
	return s->opened;
}

static int call_properties(struct subject *s)
{
	struct perfmon_properties p;

	return cmd(s, IOCTL_PERFMON_GET_PROPERTIES, &p);
}

static int call_info(struct subject *s)
{
	struct perfmon_info info;

	return cmd(s, PERFMON_GET_INFO, &info);
}

static int call_tstamp(struct subject *s)
{
	struct pmc_tstamp t;

	return cmd(s, PMIOTSTAMP, &t);
}

/* Counter 0 is stopped, counter 1 runs, and here another is taken, or again. */
static int call_setup(struct subject *s)
{
	return pmc_setup(s->self->fd, 0, EVENT_INSTRUCTIONS, PMCF_OS);
}

static int call_setup2(struct subject *s)
{
	return pmc_setup2(s->self->fd, 0, EVENT_INSTRUCTIONS | 1 << 17);
}

static int call_start(struct subject *s)
{
	return pmc_start(s->self->fd, 0);
}

static int call_stop(struct subject *s)
{
	return pmc_stop(s->self->fd, 1);
}

static int call_reset(struct subject *s)
{
	return pmc_reset(s->self->fd, 0);
}

static int call_get(struct subject *s)
{
	struct pmc pmc = { .pmc_num = 0 };

	return cmd(s, PMIOGET, &pmc);
}

static int call_get2(struct subject *s)
{
	struct pmc2 pmc = { .pmc2_num = 0 };

	return cmd(s, PMIOGET2, &pmc);
}

static int call_read(struct subject *s)
{
	struct pmc_data data = { .pmcd_num = 1 };

	return cmd(s, PMIOREAD, &data);
}

static int call_readcpu(struct subject *s)
{
	struct pmc_cpu_data data = { .pmcc_num = 1, .pmcc_count = 1 };

	return cmd(s, PMIOREADCPU, &data);
}

static int call_define(struct subject *s)
{
	return trace_define(s->self->fd, 1, EVENT_INSTRUCTIONS | 1 << 16);
}

static int call_alloc(struct subject *s)
{
	return cmd(s, IOCTL_PERFMON_ALLOC_TRACE, &s->self->alloc);
}

static int call_free(struct subject *s)
{
	return cmd(s, IOCTL_PERFMON_FREE_TRACE, NULL);
}

static int call_get_alloc(struct subject *s)
{
	struct perfmon_alloc alloc;

	return cmd(s, IOCTL_PERFMON_GET_ALLOC, &alloc);
}

static int call_stage(struct subject *s)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 2 * RATE, FLAG_USER);

	return cmd(s, IOCTL_PERFMON_STAGE_CONFIG, &config);
}

static int call_get_config(struct subject *s)
{
	struct perfmon_config config;

	return cmd(s, IOCTL_PERFMON_GET_CONFIG, &config);
}

static int call_handle(struct subject *s)
{
	s->opened = trace_handle(s->self->fd, 0);
	return s->opened;
}

static int call_map(struct subject *s)
{
	s->self->map = mmap(NULL, PAGES * sysconf(_SC_PAGESIZE), PROT_READ,
			    MAP_SHARED, s->self->handle, 0);
	return s->self->map == MAP_FAILED ? -errno : 0;
}

static int call_begin(struct subject *s)
{
	return cmd(s, IOCTL_PERFMON_START, NULL);
}

static int call_end(struct subject *s)
{
	return cmd(s, IOCTL_PERFMON_STOP, NULL);
}

FIXTURE_VARIANT(fault)
{
	enum life life;
	int (*call)(struct subject *s);
};

FIXTURE_VARIANT_ADD(fault, open) { IDLE, call_open };
FIXTURE_VARIANT_ADD(fault, get_properties) { IDLE, call_properties };
FIXTURE_VARIANT_ADD(fault, get_info) { IDLE, call_info };
FIXTURE_VARIANT_ADD(fault, pmiotstamp) { IDLE, call_tstamp };
FIXTURE_VARIANT_ADD(fault, pmiosetup) { IDLE, call_setup };
FIXTURE_VARIANT_ADD(fault, pmiosetup2) { IDLE, call_setup2 };
FIXTURE_VARIANT_ADD(fault, pmiostart) { IDLE, call_start };
FIXTURE_VARIANT_ADD(fault, pmiostop) { IDLE, call_stop };
FIXTURE_VARIANT_ADD(fault, pmioreset) { IDLE, call_reset };
FIXTURE_VARIANT_ADD(fault, pmioget) { IDLE, call_get };
FIXTURE_VARIANT_ADD(fault, pmioget2) { IDLE, call_get2 };
FIXTURE_VARIANT_ADD(fault, pmioread) { IDLE, call_read };
FIXTURE_VARIANT_ADD(fault, pmioreadcpu) { IDLE, call_readcpu };
FIXTURE_VARIANT_ADD(fault, define_event) { ALLOCATED, call_define };
FIXTURE_VARIANT_ADD(fault, alloc_trace) { IDLE, call_alloc };
FIXTURE_VARIANT_ADD(fault, free_trace) { STAGED, call_free };
FIXTURE_VARIANT_ADD(fault, get_alloc) { ALLOCATED, call_get_alloc };
FIXTURE_VARIANT_ADD(fault, stage_config) { ALLOCATED, call_stage };
FIXTURE_VARIANT_ADD(fault, stage_config_again) { STAGED, call_stage };
FIXTURE_VARIANT_ADD(fault, get_config) { STAGED, call_get_config };
FIXTURE_VARIANT_ADD(fault, get_buffer_handle) { ALLOCATED, call_handle };
FIXTURE_VARIANT_ADD(fault, mmap) { ALLOCATED, call_map };
FIXTURE_VARIANT_ADD(fault, start) { STAGED, call_begin };
FIXTURE_VARIANT_ADD(fault, stop) { RUNNING, call_end };

FIXTURE_SETUP(fault)
{
	self->fd = -1;
	ASSERT_EQ(0, fault_enable());
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, machine_properties(&self->p));
	self->alloc.num_buffers = cpu_ids();
	self->alloc.buffer_size_in_pages = PAGES;
	self->config = one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
}

/* Opens the device and brings it to where the call is to be made. */
static int prepare(FIXTURE_DATA(fault) *self, enum life life)
{
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
	if (!err && life >= ALLOCATED)
		err = device_ioctl(fd, IOCTL_PERFMON_ALLOC_TRACE, &self->alloc);
	if (!err && life >= ALLOCATED) {
		self->handle = trace_handle(fd, 0);
		err = self->handle < 0 ? self->handle : 0;
	}
	if (!err && life >= STAGED)
		err = device_ioctl(fd, IOCTL_PERFMON_STAGE_CONFIG, &self->config);
	if (!err && life >= RUNNING)
		err = device_ioctl(fd, IOCTL_PERFMON_START, NULL);
	return err;
}

static void dispose(FIXTURE_DATA(fault) *self)
{
	if (self->map != MAP_FAILED)
		munmap(self->map, PAGES * sysconf(_SC_PAGESIZE));
	close(self->handle);
	close(self->fd);
}

FIXTURE_TEARDOWN(fault)
{
}

/* All that can be asked, and the registers that do not change by themselves. */
struct image {
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

static int look(FIXTURE_DATA(fault) *self, struct image *i)
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
		/* Some of them run. */
		for (n = 0; n < SNAPSHOT_MAX_COUNTERS; n++)
			i->cpu[cpu].counter[n] = i->cpu[cpu].fixed[n] = 0;
		i->cpu[cpu].global_status = 0;
	}
	err = sched_setaffinity(0, sizeof(self->cpus), &self->cpus);
	return err ? -errno : 0;
}

TEST_F_TIMEOUT(fault, fails_as_a_whole_and_works_afterwards, 300)
{
	struct image before, after;
	struct subject s = { .self = self };
	int n, result, injected = 1;

	for (n = 1; injected && n < MAX_FAULTS; n++) {
		ASSERT_EQ(0, prepare(self, variant->life));
		ASSERT_EQ(variant->life != IDLE, memory_buffers() > 0);
		ASSERT_EQ(0, look(self, &before));

		s.opened = -1;
		ASSERT_EQ(0, fault_arm(n));
		result = variant->call(&s);
		injected = fault_disarm();
		ASSERT_LE(0, injected);
		if (!injected) {
			EXPECT_LE(0, result);
		} else if (result < 0) {
			EXPECT_TRUE(result == -ENOMEM || result == -EFAULT) {
				TH_LOG("fault %d: %s", n, strerror(-result));
			}
			ASSERT_EQ(0, look(self, &after));
			EXPECT_EQ(0, memcmp(&before, &after, sizeof(before))) {
				TH_LOG("fault %d has changed something", n);
			}
			EXPECT_LE(0, variant->call(&s));
		}
		close(s.opened);
		dispose(self);
		ASSERT_EQ(0, memory_buffers()) {
			TH_LOG("fault %d leaves a buffer", n);
		}
	}
	TH_LOG("%d faults", n - 2);
	EXPECT_GT(MAX_FAULTS, n);
	/* What has had all these faults counts as it should. */
	EXPECT_STREQ("", leak_check_counts());
}

TEST_HARNESS_MAIN
