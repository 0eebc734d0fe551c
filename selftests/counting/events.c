// SPDX-License-Identifier: GPL-2.0-only
/*
 * Architectural events that CPUID reports as missing are refused, and the log names such a CPU.
 * The virtual Intel PMU lacks some.
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "kmsg.h"
#include "module.h"

/* Architectural events, indexed by their bit in CPUID.0AH:EBX (Intel SDM, volume 3B, table 21-1) */
static const struct {
	__u8 event;
	__u8 mask;
} architectural[] = {
	{ 0x3c, 0x00 },	/* core cycles */
	{ 0xc0, 0x00 },	/* instructions */
	{ 0x3c, 0x01 },	/* reference cycles */
	{ 0x2e, 0x4f },	/* LLC references */
	{ 0x2e, 0x41 },	/* LLC misses */
	{ 0xc4, 0x00 },	/* branches */
	{ 0xc5, 0x00 },	/* branches mispredicted */
	{ 0xa4, 0x01 },	/* top-down slots */
};

#define NR_EVENTS	((int)ARRAY_SIZE(architectural))

FIXTURE(events)
{
	int fd;
	int kmsg;
	/* Bit map of the events that some CPU lacks, and one of these CPUs */
	unsigned int missing;
	int cpu;
};

/* Returns the events that are missing on the current CPU. */
static unsigned int missing_on_this_cpu(void)
{
	unsigned int eax, ebx, ecx, edx, known;

	/*
	 * Only Intel has this leaf. The module refuses no event of other vendors for this reason.
	 */
	if (!__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) || !(eax & 0xff))
		return 0;
	known = eax >> 24;
	return (ebx | (known < 32 ? ~0U << known : 0)) & ((1U << NR_EVENTS) - 1);
}

FIXTURE_SETUP(events)
{
	unsigned int missing;
	cpu_set_t cpus;
	int i;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, cpus_online(&cpus));
	for_each_cpu_in(i, &cpus) {
		ASSERT_EQ(0, pin_to_cpu(i));
		missing = missing_on_this_cpu();
		if (missing && !self->missing)
			self->cpu = i;
		self->missing |= missing;
	}
	self->kmsg = load_fresh_module(_metadata);
	self->fd = open_device(_metadata, O_RDWR);
}

FIXTURE_TEARDOWN(events)
{
	close(self->fd);
	close(self->kmsg);
}

/* Returns an event select of architectural event @i with @flags. */
static __u64 event_select(int i, __u64 flags)
{
	return flags << 16 | architectural[i].mask << 8 | architectural[i].event;
}

TEST_F(events, missing_events_are_refused)
{
	struct pmc pmc = { .pmc_num = 0 };
	int i, err;

	for (i = 0; i < NR_EVENTS; i++) {
		err = self->missing & (1U << i) ? -EINVAL : 0;
		pmc.pmc_val = event_select(i, PMCF_USR);
		EXPECT_EQ(err, device_ioctl(self->fd, PMIOSETUP, &pmc)) {
			TH_LOG("architectural event %d", i);
		}
		EXPECT_EQ(err, pmc_setup2(self->fd, 0, pmc.pmc_val));
		/*
		 * An event select with edge detection or a counter mask still means the same event.
		 */
		EXPECT_EQ(err, pmc_setup2(self->fd, 0, event_select(i, PMCF_USR | PMCF_E)));
		EXPECT_EQ(err, pmc_setup2(self->fd, 0, pmc.pmc_val | 3 << 24));
	}
}

/* The same event number with another unit mask means another event. */
TEST_F(events, other_unit_masks_are_accepted)
{
	EXPECT_EQ(0, pmc_setup2(self->fd, 0, 0x00014e2e));
	EXPECT_EQ(0, pmc_setup2(self->fd, 0, 0x000101c0));
}

TEST_F(events, log_names_one_cpu_once)
{
	struct kmsg_lines lines;
	char cpu[16];
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		pmc_setup2(self->fd, 0, event_select(i, PMCF_USR));
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	ASSERT_EQ(self->missing ? 1 : 0, lines.count);
	if (!self->missing)
		return;
	snprintf(cpu, sizeof(cpu), "CPU %d ", self->cpu);
	EXPECT_NE(NULL, strstr(lines.line[0], cpu)) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

/* A refused call does not change the counter's state. */
TEST_F(events, refused_calls_change_nothing)
{
	struct pmc pmc;
	int i;

	ASSERT_EQ(0, pmc_setup(self->fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->fd, 0, 1000));
	for (i = 0; i < NR_EVENTS; i++) {
		if (!(self->missing & (1U << i)))
			continue;
		EXPECT_EQ(-EINVAL, pmc_setup2(self->fd, 0, event_select(i, PMCF_OS)));
		EXPECT_EQ(-EINVAL, pmc_setup2(self->fd, 1, event_select(i, PMCF_OS)));
	}
	EXPECT_EQ(0, pmc_get(self->fd, 0, &pmc));
	EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	EXPECT_LT(0, pmc_value(self->fd, 0));
	EXPECT_EQ(-EBUSY, pmc_get(self->fd, 1, &pmc));
}

TEST_HARNESS_MAIN
