// SPDX-License-Identifier: GPL-2.0-only
/*
 * PMIO on one kind of core of a hybrid processor (PMIOSETUP2 with a type). Other kinds may lack the
 * counter, and the select means the event of this kind. Only the CPUs of this kind count, and no
 * call returns a value for other CPUs.
 *
 * On the virtual PMU event 0xd0 with unit mask 0x81 is instructions on big cores and branches on
 * small ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "core_kinds.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"

#define N		20000UL
#define PIECES		5UL	/* for each kind */

#define INSNS_OR_BRANCHES	(0x81d0ULL | (__u64)PMCF_USR << 16)
#define BRANCHES		(0xc4ULL | (__u64)PMCF_USR << 16)

/* An event select that counts nothing, since its enable bit is clear */
#define OTHER_SELECT	0x100c4ULL

enum { BIG, SMALL };

/* The count of INSNS_OR_BRANCHES in one iteration of loop(), on each kind */
static const unsigned long per_iteration[KINDS] = { LOOP_INSNS, 1 };

FIXTURE(kinds)
{
	int cpu[KINDS];
	__u32 type[KINDS];	/* perf's types of their PMUs */
	int general[KINDS];	/* numbers of general counters that sessions can have */
	int fixed[KINDS];	/* numbers of fixed counters */
	int common;		/* number of general counters that all kinds have */
	int fd;
};

static int smaller(int a, int b)
{
	return a < b ? a : b;
}

FIXTURE_SETUP(kinds)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, core_kinds_find(self->cpu, self->type));
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	ASSERT_EQ(0, core_kinds_counters(self->fd, self->cpu, self->general, self->fixed));
	self->common = smaller(self->general[BIG], self->general[SMALL]);
	ASSERT_EQ(self->common, p.max_num_programmable_events);
}

FIXTURE_TEARDOWN(kinds)
{
	close(self->fd);
}

/* Sets counter @num up on the CPUs whose kind has this type. */
static int setup_on(int fd, int num, __u64 select, __u32 type)
{
	struct pmc2 pmc = { .pmc2_num = num, .pmc2_select = select, .pmc2_type = type };

	return device_ioctl(fd, PMIOSETUP2, &pmc);
}

/* Calls PMIOREADCPU for @count CPUs from @cpu on. Returns 0 or a negative errno. */
static int read_cpus(int fd, int num, int cpu, int count, struct pmc_cpu_data *data)
{
	memset(data, 0, sizeof(*data));
	data->pmcc_num = num;
	data->pmcc_first_cpu = cpu;
	data->pmcc_count = count;
	return device_ioctl(fd, PMIOREADCPU, data);
}

/*
 * Returns the growth of a counter in loop_on_each_kind(). Not inlined, so that the instructions
 * around the loops are the same in every call.
 */
static __s64 __attribute__((noinline)) count_loops(const int *cpus, int fd, int num, unsigned long n)
{
	__s64 before = pmc_value(fd, num);

	loop_on_each_kind(cpus, PIECES, n);
	return pmc_value(fd, num) - before;
}

/*
 * Returns the difference of the growths in two calls of loop_on_each_kind(): each loop of the
 * second call has N more iterations. The counter must be running.
 */
static __s64 count_added_loops(const FIXTURE_DATA(kinds) *self, int num)
{
	__s64 least;

	/* Each call begins and ends on the last CPU. */
	pin_to_cpu(self->cpu[KINDS - 1]);
	least = count_loops(self->cpu, self->fd, num, 1);
	return count_loops(self->cpu, self->fd, num, N + 1) - least;
}

TEST_F(kinds, each_kind_counts_its_own_event)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, setup_on(self->fd, 0, INSNS_OR_BRANCHES, self->type[kind]));
		ASSERT_EQ(0, pmc_start(self->fd, 0));
		EXPECT_EQ((__s64)(N * PIECES * per_iteration[kind]), count_added_loops(self, 0)) {
			TH_LOG("kind %d", kind);
		}
	}
}

TEST_F(kinds, both_kinds_count_at_once)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, setup_on(self->fd, kind, INSNS_OR_BRANCHES, self->type[kind]));
		ASSERT_EQ(0, pmc_start(self->fd, kind));
	}
	for (kind = 0; kind < KINDS; kind++)
		EXPECT_EQ((__s64)(N * PIECES * per_iteration[kind]), count_added_loops(self, kind));
}

TEST_F(kinds, other_cpus_have_no_value)
{
	const int first = smaller(self->cpu[BIG], self->cpu[SMALL]);
	struct pmc_cpu_data data;
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		__s64 value;

		ASSERT_EQ(0, setup_on(self->fd, 0, BRANCHES, self->type[kind]));
		ASSERT_EQ(0, pmc_start(self->fd, 0));
		count_added_loops(self, 0);
		ASSERT_EQ(0, pmc_stop(self->fd, 0));
		value = pmc_value(self->fd, 0);
		EXPECT_LE((__s64)(N * PIECES), value);
		EXPECT_EQ(value, pmc_value_on(self->fd, 0, self->cpu[kind]));
		EXPECT_EQ(-EOPNOTSUPP, read_cpus(self->fd, 0, self->cpu[!kind], 1, &data));
		/* A range with a CPU that does not count */
		EXPECT_EQ(-EOPNOTSUPP, read_cpus(self->fd, 0, first, PMC_CPU_MAX, &data));
	}
	ASSERT_EQ(0, pmc_setup2(self->fd, 0, BRANCHES));
	EXPECT_EQ(0, read_cpus(self->fd, 0, first, PMC_CPU_MAX, &data));
}

/*
 * A setup of a counter on all CPUs and a setup on one kind replace each other, and their counts do
 * not mix.
 */
TEST_F(kinds, setups_on_all_cpus_and_on_one_kind_alternate)
{
	__u64 select;
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		ASSERT_EQ(0, pmc_setup2(self->fd, 0, BRANCHES));
		ASSERT_EQ(0, pmc_start(self->fd, 0));
		EXPECT_EQ((__s64)(N * PIECES * KINDS), count_added_loops(self, 0));

		/*
		 * Sets the counter up again while it runs: the CPUs of other kinds stop, and no sum
		 * contains their values.
		 */
		ASSERT_EQ(0, setup_on(self->fd, 0, BRANCHES, self->type[kind]));
		EXPECT_EQ(0, pmc_value(self->fd, 0));
		ASSERT_EQ(0, msr_read(self->cpu[!kind], MSR_IA32_PERFEVTSEL0, &select));
		EXPECT_EQ(0ULL, select & PERFEVTSEL_EN);
		ASSERT_EQ(0, pmc_start(self->fd, 0));
		EXPECT_EQ((__s64)(N * PIECES), count_added_loops(self, 0));
		ASSERT_EQ(0, pmc_reset(self->fd, 0));
		EXPECT_EQ((__s64)(N * PIECES), count_added_loops(self, 0));
		ASSERT_EQ(0, msr_read(self->cpu[!kind], MSR_IA32_PERFEVTSEL0, &select));
		EXPECT_EQ(0ULL, select & PERFEVTSEL_EN);
	}
}

TEST_F(kinds, a_kind_has_all_its_counters)
{
	int kind, num;

	for (kind = 0; kind < KINDS; kind++) {
		for (num = 0; num < self->general[kind]; num++) {
			ASSERT_EQ(0, setup_on(self->fd, num, BRANCHES, self->type[kind]));
			ASSERT_EQ(0, pmc_start(self->fd, num));
		}
		for (num = 0; num < self->general[kind]; num++)
			EXPECT_EQ((__s64)(N * PIECES), count_added_loops(self, num));
		EXPECT_EQ(-EINVAL, setup_on(self->fd, num, BRANCHES, self->type[kind]));
		close(self->fd);
		self->fd = open_device(_metadata, O_RDWR);
	}
}

/*
 * Golden Cove can count some events only on some of its counters. On another counter the count
 * would stay 0.
 */
TEST_F(kinds, counters_that_cannot_count_the_event_are_refused)
{
	const __u64 user = (__u64)PMCF_USR << 16;
	int num, kind;

	for (num = 0; num < self->general[BIG]; num++) {
		const int want = num <= 3 ? 0 : -EINVAL;

		EXPECT_EQ(want, setup_on(self->fd, num, INSNS_OR_BRANCHES, self->type[BIG]));
		/* MEM_TRANS_RETIRED.STORE_SAMPLE */
		EXPECT_EQ(num ? -EINVAL : 0, setup_on(self->fd, num, 0x02cd | user, self->type[BIG]));
	}
	for (num = 0; num < self->general[SMALL]; num++)
		EXPECT_EQ(0, setup_on(self->fd, num, INSNS_OR_BRANCHES, self->type[SMALL]));
	for (kind = 0; kind < KINDS; kind++) {
		/* Intel has no event 0: Linux uses these selects for fixed counters. */
		EXPECT_EQ(-EINVAL, setup_on(self->fd, 0, 0x0300 | user, self->type[kind]));
		EXPECT_EQ(-EINVAL, setup_on(self->fd, 0, user, self->type[kind]));
	}
	/* OCR, whose register this call does not write */
	EXPECT_EQ(-EOPNOTSUPP, setup_on(self->fd, 0, 0x012a | user, self->type[BIG]));
	EXPECT_EQ(-EOPNOTSUPP, setup_on(self->fd, 0, 0x01b7 | user, self->type[SMALL]));
}

/* A call for a counter of one kind interrupts only CPUs of this kind. */
TEST_F(kinds, other_cpus_are_not_interrupted)
{
	enum { CALLS = 1000 };
	int kind, i;

	for (kind = 0; kind < KINDS; kind++) {
		const int other = self->cpu[!kind];
		long long interrupts;

		ASSERT_EQ(0, setup_on(self->fd, 0, BRANCHES, self->type[kind]));
		ASSERT_EQ(0, pin_to_cpu(self->cpu[kind]));
		interrupts = cpu_interrupts_of("CAL", other);
		ASSERT_LE(0, interrupts);
		for (i = 0; i < CALLS; i++) {
			ASSERT_EQ(0, pmc_start(self->fd, 0));
			pmc_value(self->fd, 0);
			ASSERT_EQ(0, pmc_stop(self->fd, 0));
		}
		/* Linux itself also calls a few functions on the other CPUs. */
		EXPECT_GT(CALLS / 2, cpu_interrupts_of("CAL", other) - interrupts);
	}
}

TEST_F(kinds, a_kind_has_all_its_fixed_counters)
{
	const __u64 user = (__u64)PMCF_USR << 16;
	int kind, n;

	for (kind = 0; kind < KINDS; kind++) {
		for (n = 0; n < self->fixed[kind]; n++) {
			ASSERT_EQ(0, setup_on(self->fd, PMC_FIXED(n), user, self->type[kind]));
			ASSERT_EQ(0, pmc_start(self->fd, PMC_FIXED(n)));
		}
		/*
		 * Fixed counters 1 and 2 count cycles. The virtual PMU has at least one cycle per
		 * instruction.
		 */
		EXPECT_EQ((__s64)(N * PIECES * LOOP_INSNS), count_added_loops(self, PMC_FIXED(0)));
		for (n = 1; n < self->fixed[kind]; n++)
			EXPECT_LE((__s64)(N * PIECES * LOOP_INSNS),
				  count_added_loops(self, PMC_FIXED(n)));
		EXPECT_EQ(-EINVAL, setup_on(self->fd, PMC_FIXED(n), user, self->type[kind]));
		close(self->fd);
		self->fd = open_device(_metadata, O_RDWR);
	}
}

/* If the kinds have the same counters, there are none to test. */
TEST_F(kinds, counters_that_a_kind_lacks_are_refused_there)
{
	const int kind = self->general[BIG] > self->general[SMALL] ? BIG : SMALL;
	struct pmc pmc;
	int num;

	for (num = self->common; num < self->general[kind]; num++) {
		struct perfmon_counter_owner owner = { .num = num };
		__s64 value;

		EXPECT_EQ(-EINVAL, pmc_setup2(self->fd, num, BRANCHES));
		EXPECT_EQ(-EINVAL, setup_on(self->fd, num, BRANCHES, self->type[!kind]));
		/* The counter exists on this kind, but is not set up. */
		EXPECT_EQ(-EBUSY, pmc_start(self->fd, num));
		EXPECT_EQ(-EBUSY, pmc_read(self->fd, num, &value));
		EXPECT_EQ(-EBUSY, pmc_get(self->fd, num, &pmc));
		ASSERT_EQ(0, setup_on(self->fd, num, BRANCHES, self->type[kind]));
		EXPECT_EQ(0, pmc_read(self->fd, num, &value));
		EXPECT_EQ(0, value);
		ASSERT_EQ(0, device_ioctl(self->fd, PERFMON_GET_OWNER, &owner));
		EXPECT_EQ((__u32)PERFMON_OWNER_SESSION, owner.kind);
		EXPECT_EQ(getpid(), owner.pid);
	}
}

TEST_F(kinds, registers_are_restored)
{
	int kind, num;

	for (kind = 0; kind < KINDS; kind++) {
		__u64 value;

		for (num = 0; num < self->general[kind]; num++) {
			const __u32 msr = MSR_IA32_PERFEVTSEL0 + num;

			ASSERT_EQ(0, msr_write(self->cpu[kind], msr, OTHER_SELECT));
		}
		for (num = 0; num < self->general[kind]; num++) {
			ASSERT_EQ(0, setup_on(self->fd, num, BRANCHES, self->type[kind]));
			ASSERT_EQ(0, pmc_start(self->fd, num));
			ASSERT_EQ(0, msr_read(self->cpu[kind], MSR_IA32_PERFEVTSEL0 + num, &value));
			EXPECT_NE(0ULL, value & PERFEVTSEL_EN);
		}
		close(self->fd);
		for (num = 0; num < self->general[kind]; num++) {
			const __u32 msr = MSR_IA32_PERFEVTSEL0 + num;

			ASSERT_EQ(0, msr_read(self->cpu[kind], msr, &value));
			EXPECT_EQ(OTHER_SELECT, value);
			EXPECT_EQ(0, msr_write(self->cpu[kind], msr, 0));
		}
		self->fd = open_device(_metadata, O_RDWR);
	}
}

TEST_F(kinds, get_returns_the_type)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		struct pmc2 pmc = { .pmc2_num = 0, .pmc2_type = ~0U };

		ASSERT_EQ(0, setup_on(self->fd, 0, BRANCHES, self->type[kind]));
		ASSERT_EQ(0, device_ioctl(self->fd, PMIOGET2, &pmc));
		EXPECT_EQ(BRANCHES, pmc.pmc2_select);
		EXPECT_EQ(self->type[kind], pmc.pmc2_type);
		ASSERT_EQ(0, pmc_setup2(self->fd, 0, BRANCHES));
		ASSERT_EQ(0, device_ioctl(self->fd, PMIOGET2, &pmc));
		EXPECT_EQ(0U, pmc.pmc2_type);
	}
	/* Types that are the type of no kind of core. A refused call changes nothing. */
	EXPECT_EQ(-EINVAL, setup_on(self->fd, 0, BRANCHES, PERF_TYPE_SOFTWARE));
	EXPECT_EQ(-EINVAL, setup_on(self->fd, 0, BRANCHES, 1U << 31));
	EXPECT_EQ(0, pmc_start(self->fd, 0));
}

/* CPUs of either kind go offline and come online while counters of each kind run. */
TEST_F(kinds, cpus_go_offline_and_come_online)
{
	int kind, i;

	for (kind = 0; kind < KINDS; kind++) {
		const int num = self->general[kind] - 1;

		ASSERT_EQ(0, setup_on(self->fd, num, BRANCHES, self->type[kind]));
		ASSERT_EQ(0, pmc_start(self->fd, num));
		for (i = 0; i < KINDS; i++) {
			/* Linux can't take the first CPU offline. */
			const int online = cpu_open_online(self->cpu[i]);
			__s64 value;

			if (online < 0)
				continue;
			count_added_loops(self, num);
			ASSERT_EQ(0, pin_to_cpu(self->cpu[!i]));
			value = pmc_value(self->fd, num);
			EXPECT_EQ(0, cpu_set_online(online, "0"));
			EXPECT_LE(value, pmc_value(self->fd, num));
			EXPECT_EQ(0, cpu_set_online(online, "1"));
			close(online);
			EXPECT_EQ((__s64)(N * PIECES), count_added_loops(self, num));
		}
		close(self->fd);
		self->fd = open_device(_metadata, O_RDWR);
	}
}

TEST_HARNESS_MAIN
