// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device.h"
#include "machine.h"
#include "msr.h"

/*
 * Intel SDM, volume 2A, "CPUID", leaf 0AH: each set bit of EBX stands for a missing architectural
 * event, and EAX[31:24] is the number of bits. AMD has no such leaf: its core counters count
 * neither reference cycles nor slots (the processors' PPRs, "Core Performance Monitor Counters");
 * the module counts the core's own level 2 cache in place of the last-level cache.
 */
static void read_arch_events(struct machine *m)
{
	const __u32 missing_on_amd =
		1U << PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES |
		1U << PERFMON_ARCH_EVENT_TOPDOWN_SLOTS;
	unsigned int eax = 0, ebx = 0, ecx, edx;
	__u32 listed;

	if (m->is_intel) {
		__get_cpuid(0xa, &eax, &ebx, &ecx, &edx);
		listed = (1ULL << (eax >> 24)) - 1;
		m->arch_missing = listed & ebx;
		m->arch_events = listed & ~ebx;
	} else {
		m->arch_missing = 0;
		m->arch_events = 0xff & ~missing_on_amd;
	}
}

int machine_read(struct machine *m)
{
	struct pmc_tstamp t;
	int fd, err;

	fd = device_open(O_RDONLY);
	if (fd < 0)
		return fd;
	err = device_properties(fd, &m->properties);
	if (!err)
		err = device_ioctl(fd, PERFMON_GET_INFO, &m->info);
	m->is_intel = pmu_registers()->select0 == MSR_IA32_PERFEVTSEL0;
	m->select_bits = pmu_select_bits();
	m->tsc_freq_known = device_ioctl(fd, PMIOTSTAMP, &t) != -ENOTTY;
	read_arch_events(m);
	close(fd);
	return err;
}

__u64 machine_largest_rate(const struct machine *m, bool fixed)
{
	const int width = fixed ? m->properties.max_fixed_counter_width :
				  m->properties.max_programmable_counter_width;
	const __u64 range = (1ULL << width) - 1;

	if (!(m->info.features & PERFMON_FEATURE_FULL_WIDTH_WRITES) &&
	    range > 1ULL << 31)
		return 1ULL << 31;
	return range;
}
