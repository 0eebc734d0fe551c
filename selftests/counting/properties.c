// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's description of the machine: IOCTL_PERFMON_GET_PROPERTIES
 * against CPUID, PMIOTSTAMP against RDTSC and the kernel's calibration.
 */
#include <cpuid.h>
#include <stdlib.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "module.h"
#include "tsc.h"

FIXTURE(properties)
{
	int fd;
};

FIXTURE_VARIANT(properties)
{
	int flags;
};

FIXTURE_VARIANT_ADD(properties, reader) { .flags = O_RDONLY };
FIXTURE_VARIANT_ADD(properties, writer) { .flags = O_RDWR };

FIXTURE_SETUP(properties)
{
	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, variant->flags);
}

FIXTURE_TEARDOWN(properties)
{
	close(self->fd);
}

/* Reads the properties of the current CPU. Intel SDM, volume 2A, "CPUID", leaf 0AH */
static bool expected_on_intel(struct perfmon_properties *p)
{
	unsigned int eax, ebx, ecx, edx, fixed;

	if (!__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) || !(eax & 0xff))
		return false;
	p->pm_version = eax & 0xff;
	p->max_num_programmable_events = (eax >> 8) & 0xff;
	p->max_programmable_counter_width = (eax >> 16) & 0xff;
	/*
	 * EDX has the number of fixed counters, from 0 on; from version 5 on, ECX is a bit map of
	 * more.
	 */
	fixed = (1U << (edx & 0x1f)) - 1;
	if (p->pm_version >= 5)
		fixed |= ecx;
	p->max_num_fixed_events = __builtin_popcount(fixed);
	p->max_fixed_counter_width = (edx >> 5) & 0xff;
	return true;
}

/* AMD APM, volume 2, section 13.2.1; volume 3, appendix E.4 */
static void expected_on_amd(struct perfmon_properties *p)
{
	unsigned int eax, ebx, ecx, edx;

	p->pm_version = 1;
	p->max_num_programmable_events = 4;
	p->max_programmable_counter_width = 48;
	if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) &&
	    (ecx & (1U << 23)))		/* PerfCtrExtCore */
		p->max_num_programmable_events = 6;
	if (__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) &&
	    (eax & (1U << 0))) {	/* PerfMonV2 */
		p->pm_version = 2;
		p->max_num_programmable_events = ebx & 0xf;
	}
}

static __u16 smaller(__u16 a, __u16 b)
{
	return a < b ? a : b;
}

/* Stores the properties that all CPUs have. Returns true if some CPU has more counters. */
static bool intersect_expected(struct perfmon_properties *all)
{
	struct perfmon_properties one;
	bool differs = false, is_first = true;
	cpu_set_t cpus;
	int i;

	if (cpus_online(&cpus))
		return false;
	for_each_cpu_in(i, &cpus) {
		memset(&one, 0, sizeof(one));
		if (pin_to_cpu(i))
			return false;
		if (!expected_on_intel(&one))
			expected_on_amd(&one);
		if (is_first)
			*all = one;
		differs |= memcmp(&one, all, sizeof(one)) != 0;
		all->pm_version = smaller(all->pm_version, one.pm_version);
		all->max_num_programmable_events =
			smaller(all->max_num_programmable_events,
				one.max_num_programmable_events);
		all->max_programmable_counter_width =
			smaller(all->max_programmable_counter_width,
				one.max_programmable_counter_width);
		all->max_num_fixed_events = smaller(all->max_num_fixed_events,
						    one.max_num_fixed_events);
		all->max_fixed_counter_width =
			smaller(all->max_fixed_counter_width,
				one.max_fixed_counter_width);
		is_first = false;
	}
	return differs;
}

TEST_F(properties, properties_are_the_least_of_all_cpus)
{
	struct perfmon_properties p, want = {};

	/* The plan sets HYBRID on a machine with two kinds of CPUs. */
	EXPECT_EQ(getenv("HYBRID") != NULL, intersect_expected(&want));
	want.api_version = 3;
	memset(&p, 0xff, sizeof(p));
	ASSERT_EQ(0, device_properties(self->fd, &p));

	EXPECT_EQ(want.api_version, p.api_version);
	EXPECT_EQ(want.pm_version, p.pm_version);
	/* A place-holder has the last counter, and the module uses at most the first eight. */
	EXPECT_EQ(smaller(want.max_num_programmable_events - module_has_place_holder(), 8),
		  p.max_num_programmable_events);
	EXPECT_EQ(want.max_programmable_counter_width,
		  p.max_programmable_counter_width);
	EXPECT_EQ(want.max_num_fixed_events, p.max_num_fixed_events);
	EXPECT_EQ(want.max_fixed_counter_width, p.max_fixed_counter_width);
	EXPECT_EQ(p.max_num_programmable_events + p.max_num_fixed_events +
		  p.max_num_misc_events, p.max_num_events);
	EXPECT_EQ(0, p.reserved);
	EXPECT_GE(NPMC, p.max_num_programmable_events);
	EXPECT_EQ(0U, p.flags & ~PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH);
}

/*
 * Reads the system's clock and the time-stamp counter at the same time. Of many readings, takes the
 * reading in which the fewest ticks have passed, since a CPU may stand still between the two.
 */
static __u64 read_clocks(struct timespec *time)
{
	__u64 before, took, least = ~0ULL, ticks = 0;
	struct timespec now;
	int i;

	for (i = 0; i < 100; i++) {
		before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC_RAW, &now);
		took = __rdtsc() - before;
		if (took < least) {
			least = took;
			ticks = before;
			*time = now;
		}
	}
	return ticks;
}

/* Measures the frequency of the time-stamp counter in MHz against the system's clock. */
static int measured_mhz(void)
{
	const struct timespec wait = { .tv_nsec = 100000000 };
	struct timespec from = {}, to = {};
	__u64 ticks;

	ticks = read_clocks(&from);
	nanosleep(&wait, NULL);
	ticks = read_clocks(&to) - ticks;
	return ticks * 1000 / ((to.tv_sec - from.tv_sec) * 1000000000LL +
			       to.tv_nsec - from.tv_nsec);
}

/*
 * Returns the frequency in MHz when the log and the device agree on it, or the frequency in the log
 * after a minute. They differ for a while, because the kernel measures the frequency again some
 * time after the boot, and logs the result a moment later.
 */
static int agreed_mhz(int fd)
{
	struct pmc_tstamp t;
	int mhz = tsc_mhz(), i;

	for (i = 0; i < 60 && mhz > 0 && !device_ioctl(fd, PMIOTSTAMP, &t) && t.pmct_rate != mhz; i++) {
		sleep(1);
		mhz = tsc_mhz();
	}
	return mhz;
}

TEST_F(properties, time_stamp_is_the_tsc)
{
	int mhz = agreed_mhz(self->fd), i;
	struct pmc_tstamp t;
	__u64 before, after;
	cpu_set_t cpus;

	ASSERT_LE(0, mhz);
	if (!mhz) {
		/*
		 * If the log has no frequency, PMIOTSTAMP may succeed or not: the kernel may have
		 * calibrated the TSC later, without a message.
		 */
		if (device_ioctl(self->fd, PMIOTSTAMP, &t) == -ENOTTY)
			return;
		mhz = measured_mhz();
		EXPECT_LT(mhz * 9 / 10, t.pmct_rate);
		EXPECT_GT(mhz * 11 / 10, t.pmct_rate);
		mhz = t.pmct_rate;
	}
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(i, &cpus) {
		ASSERT_EQ(0, pin_to_cpu(i));
		memset(&t, 0xff, sizeof(t));
		before = __rdtsc();
		ASSERT_EQ(0, device_ioctl(self->fd, PMIOTSTAMP, &t));
		after = __rdtsc();
		EXPECT_LE(before, (__u64)t.pmct_value);
		EXPECT_GE(after, (__u64)t.pmct_value);
		if (t.pmct_rate != mhz)
			mhz = agreed_mhz(self->fd);
		EXPECT_EQ(mhz, t.pmct_rate);
		EXPECT_EQ(0U, t.reserved);
	}
}

TEST_HARNESS_MAIN
