/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps that many fixtures and tests begin with. Each fails the test, or skips it,
 * if it can't be done.
 *
 * Functions take the harness's _metadata, as ASSERT_EQ() and the like need it.
 * Macros are those that end the function which uses them.
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
#include "kmsg.h"
#include "kselftest_harness.h"
#include "module.h"
#include "msr.h"
#include "rights.h"

/*
 * The harness gives a test 30 seconds, which are too few for some on the debug kernel
 * while the host is busy. A machine that hangs is ended by `run --timeout`.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	180

/* Skips the test on a machine without a PMU. */
#define SKIP_WITHOUT_PMU() do {						\
	if (!pmu_expected())						\
		SKIP(return, "this CPU has no PMU");			\
} while (0)

/* Skips the test on a PMU without a register that enables all counters. */
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
 * Finds a CPU that can be switched off, @self->cpu, with its switch @self->online,
 * and one that stays, @self->home. Skips the test on a machine with one CPU.
 */
#define FIND_CPU_TO_SWITCH(self) do {					\
	int missing = cpu_open_second(&(self)->home, &(self)->cpu,	\
				      &(self)->online);			\
									\
	if (missing == -ENODEV)						\
		SKIP(return, "there is one CPU");			\
	ASSERT_EQ(0, missing);						\
} while (0)

/* Opens the device: a descriptor. */
static inline int open_device(struct __test_metadata *_metadata, int flags)
{
	int fd = device_open(flags);

	ASSERT_LE(0, fd) {
		TH_LOG("the device can't be opened: %s", strerror(-fd));
	}
	return fd;
}

/*
 * Loads the module anew, so that it says again what it says once. Returns a
 * descriptor of the kernel log that reads from there on.
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

/* For teardown: root's rights and perf_event_paranoid as before. */
static inline void restore_rights(struct __test_metadata *_metadata,
				  int paranoid)
{
	if (seteuid(0) || paranoid_write(paranoid))
		TH_LOG("can't put %s back", PARANOID);
}

/* Maps memory that is shared with children: zeros. */
static inline void *map_shared(struct __test_metadata *_metadata, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	return p;
}

#endif
