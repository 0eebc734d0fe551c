/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps with which many fixtures and tests begin. If a step fails, it makes the test fail, or skips
 * the test.
 *
 * The functions take the harness's _metadata, which ASSERT_EQ() and the like need. A step
 * that returns from the calling function is a macro.
 */
#ifndef SELFTESTS_FIXTURE_H
#define SELFTESTS_FIXTURE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "harness.h"
#include "kmsg.h"
#include "module.h"
#include "msr.h"
#include "rights.h"

/* Skips the test on a machine without a PMU. */
#define SKIP_WITHOUT_PMU() do {						\
	if (!pmu_expected())						\
		SKIP(return, "this CPU has no PMU");			\
} while (0)

/* Skips the test on a PMU without a global control register. */
#define SKIP_WITHOUT_GLOBAL_CTRL() do {					\
	if (!pmu_registers()->global_ctrl)				\
		SKIP(return, "this PMU has no global control");		\
} while (0)

/* Skips the test on a kernel that can't be locked down. */
#define SKIP_WITHOUT_LOCKDOWN() do {					\
	if (access(LOCKDOWN, F_OK))					\
		SKIP(return, "this kernel can't be locked down");	\
} while (0)

/*
 * Finds a CPU that can go offline, @self->cpu, with its file @self->online, and a CPU that
 * stays online, @self->home. Skips the test on a machine with one CPU.
 */
#define FIND_CPU_TO_SWITCH(self) do {					\
	int find_err = cpu_find_hotpluggable(&(self)->home, &(self)->cpu,	\
				      &(self)->online);			\
									\
	if (find_err == -ENODEV)						\
		SKIP(return, "there is one CPU");			\
	ASSERT_EQ(0, find_err);						\
} while (0)

/* Opens the device. Returns a descriptor. */
static inline int open_device(struct __test_metadata *_metadata, int flags)
{
	int fd = device_open(flags);

	ASSERT_LE(0, fd) {
		TH_LOG("the device can't be opened: %s", strerror(-fd));
	}
	return fd;
}

/*
 * Loads the module again, so that messages that it prints only once per load can appear again.
 * Returns a descriptor of the kernel log, which reads the lines from then on.
 */
static inline int load_fresh_module(struct __test_metadata *_metadata)
{
	int kmsg;

	ASSERT_EQ(0, module_reload(""));
	kmsg = kmsg_open_end();
	ASSERT_LE(0, kmsg);
	return kmsg;
}

/* For teardown: loads the module if a test has left it unloaded. */
static inline void ensure_module(struct __test_metadata *_metadata)
{
	if (!module_loaded() && module_load())
		TH_LOG("the module can't be loaded again");
}

/* For teardown: regains root's rights, and sets perf_event_paranoid back to @paranoid. */
static inline void restore_rights(struct __test_metadata *_metadata,
				  int paranoid)
{
	if (seteuid(0) || paranoid_write(paranoid))
		TH_LOG("can't put %s back", PARANOID);
}

/* Maps zeroed memory that is shared with children. */
static inline void *map_shared(struct __test_metadata *_metadata, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	return p;
}

#endif
