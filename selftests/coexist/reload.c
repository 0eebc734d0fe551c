// SPDX-License-Identifier: GPL-2.0-only
/*
 * From version 6 of Intel's PMU on, the overflow of a counter may reload other counters. Linux perf
 * leaves these settings in the registers when its events end. Nevertheless the module's counts must
 * be right. When the module's counters are freed, the settings must be as before.
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "module.h"
#include "msr.h"

#define N	100000UL

/* The counter whose overflow reloads another counter, and the reloaded counter */
#define CAUSING_COUNTER	0
#define RELOADED_COUNTER	2

/* Intel SDM, volume 4, table 2-2 */
#define MSR_IA32_PMC_GP_CFG_B(n)	(0x1902 + 4 * (n))
#define MSR_IA32_PMC_GP_CFG_C(n)	(0x1903 + 4 * (n))

/* The reload value of counter RELOADED_COUNTER, which is far from all counts in the tests */
#define RELOAD_VALUE	0x7654321

FIXTURE(reload)
{
	int fd;
};

/* Intel SDM, volume 2A, "CPUID", leaf 23H, subleaf 2: the counters that can be reloaded */
static bool can_be_reloaded(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(0x23, 0, &eax, &ebx, &ecx, &edx) && (eax & 1 << 2) &&
	       __get_cpuid_count(0x23, 2, &eax, &ebx, &ecx, &edx) && (eax & 1 << RELOADED_COUNTER);
}

FIXTURE_SETUP(reload)
{
	SKIP_WITHOUT_PMU();
	ASSERT_TRUE(can_be_reloaded());
	/* Makes overflows come soon. */
	ASSERT_EQ(0, module_reload("period_bits=10"));
	ASSERT_LE(0, pin_to_first_cpu());
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, wait_until_idle());
}

static int write_on_each_cpu(__u64 cause, __u64 value)
{
	cpu_set_t cpus;
	int cpu, err = cpus_online(&cpus);

	for_each_cpu_in(cpu, &cpus) {
		if (!err)
			err = msr_write(cpu, MSR_IA32_PMC_GP_CFG_B(RELOADED_COUNTER), cause);
		if (!err)
			err = msr_write(cpu, MSR_IA32_PMC_GP_CFG_C(RELOADED_COUNTER), value);
	}
	return err;
}

FIXTURE_TEARDOWN(reload)
{
	close(self->fd);
	write_on_each_cpu(0, 0);
	module_reload("");
}

TEST_F(reload, reload_settings_of_perf_do_not_affect_our_counters)
{
	cpu_set_t cpus;
	__u64 value;
	__s64 once;
	int cpu;

	ASSERT_EQ(0, write_on_each_cpu(1 << CAUSING_COUNTER, RELOAD_VALUE));
	ASSERT_EQ(0, pmc_setup(self->fd, CAUSING_COUNTER, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->fd, RELOADED_COUNTER, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, CAUSING_COUNTER));
	once = pmc_loop_count(self->fd, RELOADED_COUNTER, N);
	EXPECT_LE((__s64)(LOOP_INSNS * N), once);
	EXPECT_EQ(once + (__s64)(LOOP_INSNS * N), pmc_loop_count(self->fd, RELOADED_COUNTER, 2 * N));
	close(self->fd);

	self->fd = -1;
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(cpu, &cpus) {
		ASSERT_EQ(0, msr_read(cpu, MSR_IA32_PMC_GP_CFG_B(RELOADED_COUNTER), &value));
		EXPECT_EQ(1ULL << CAUSING_COUNTER, value);
		ASSERT_EQ(0, msr_read(cpu, MSR_IA32_PMC_GP_CFG_C(RELOADED_COUNTER), &value));
		EXPECT_EQ((__u64)RELOAD_VALUE, value);
	}
}

TEST_HARNESS_MAIN
