// SPDX-License-Identifier: GPL-2.0-only
/*
 * With the default limits, programs keep three quarters of their CPU at any rate, even if
 * interrupts are as expensive as under a hypervisor.
 *
 * For a machine whose time-stamp counter advances with each instruction (vm/run --icount): the
 * share of the CPU is measured in instructions, and does not depend on the host.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cpu.h"
#include "device.h"
#include "module.h"
#include "trace.h"
#include "trace_fixture.h"

#define PAGES	16384
#define N	20000000UL

FIXTURE(share)
{
	struct trace trace;
	int fd;
	int cpu;
};

FIXTURE_VARIANT(share)
{
	const char *parameters;
	__u32 rate;
	bool throttled;
	unsigned int least_share;	/* the program's share of the CPU, in percent */
	unsigned int most_share;
	bool is_expensive;	/* each NMI takes much longer than on a processor */
};

/* Both limits apply. Samples use the whole share. */
FIXTURE_VARIANT_ADD(share, each_one) { "", 1, true, 75, 95, false };
FIXTURE_VARIANT_ADD(share, each_10) { "", 10, true, 75, 95, false };
FIXTURE_VARIANT_ADD(share, each_100) { "", 100, true, 75, 95, false };
FIXTURE_VARIANT_ADD(share, each_1000) { "", 1000, true, 75, 95, false };
FIXTURE_VARIANT_ADD(share, each_100003) { "", 100003, false, 98, 100, false };
/*
 * The module has measured the cost of an interrupt at load. The program's share is a little smaller
 * than above: the last interrupt before a suspension exceeds the budget, and the budget does not
 * include the kernel's ticks.
 */
FIXTURE_VARIANT_ADD(share, expensive_each_one) { "", 1, true, 72, 95, true };
FIXTURE_VARIANT_ADD(share, expensive_each_100) { "", 100, true, 72, 95, true };
FIXTURE_VARIANT_ADD(share, expensive_each_1000) { "", 1000, true, 72, 95, true };
FIXTURE_VARIANT_ADD(share, expensive_each_10007) { "", 10007, true, 72, 95, true };
/* Only the limit of the time applies. */
FIXTURE_VARIANT_ADD(share, each_one_by_time) { MODULE_ANY_RATE, 1, true, 75, 90, false };
FIXTURE_VARIANT_ADD(share, each_100_by_time) { MODULE_ANY_RATE, 100, true, 75, 90, false };
/* No limit applies. */
FIXTURE_VARIANT_ADD(share, lifted) {
	MODULE_ANY_RATE MODULE_ANY_TIME, 97, false, 1, 25, false,
};

FIXTURE_SETUP(share)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_loaded() ? module_unload() : 0);
	if (variant->is_expensive)
		ASSERT_EQ(0, module_load_file(SLOW_NMI_PATH, ""));
	ASSERT_EQ(0, module_load_file(MODULE_PATH, variant->parameters));
	self->fd = open_device(_metadata, O_RDWR);
	self->cpu = trace_on_first_cpu(_metadata, &self->trace, self->fd,
				       PAGES);
}

FIXTURE_TEARDOWN(share)
{
	trace_free(&self->trace);
	close(self->fd);
	if (variant->is_expensive && syscall(SYS_delete_module, "slow_nmi", 0))
		TH_LOG("slow_nmi can't be unloaded");
	if (module_reload(""))
		TH_LOG("the module can't be loaded again");
}

TEST_F(share, programs_keep_their_share_of_the_time)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS,
						       variant->rate,
						       FLAG_USER | FLAG_PC);
	/* The buffer has room for the samples of this loop. */
	const unsigned long n = variant->most_share < 50 ? N / 100 : N;
	unsigned long long begin, took, percent;
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	begin = __rdtsc();
	ASSERT_EQ(0, trace_loop(&self->trace, n));
	took = __rdtsc() - begin;
	percent = 100 * LOOP_INSNS * n / took;
	TH_LOG("%llu %% of the CPU", percent);
	ASSERT_STREQ("", trace_sum(&self->trace, self->cpu, &sums));
	EXPECT_EQ(variant->throttled ? PERFMON_BUFFER_FLAG_THROTTLED : 0,
		  self->trace.buffer[self->cpu]->flags);
	EXPECT_EQ(TRACE_LOOP_INSNS(n), sums.event[0].total);
	EXPECT_LE(variant->least_share, percent);
	EXPECT_GE(variant->most_share, percent);
	EXPECT_LT(0ULL, sums.event[0].ticks);
}

TEST_HARNESS_MAIN
