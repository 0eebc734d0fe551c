// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random commands, descriptors, pointers, numbers and flags: each wrong call
 * gets the errno that the order of checks in linux/perfmon.h gives it, changes
 * nothing, and leaves nothing in the kernel log.
 *
 * The sequence is the same in each run. FUZZ_SEED in the environment starts
 * another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kmsg.h"
#include "kselftest_harness.h"
#include "loop.h"
#include "msr.h"

#define CALLS	100000

/* General counter 0 is set up and stopped, the others are not. */
#define SET_UP	0

static const unsigned int commands[] = {
	PMIOSETUP, PMIOSTART, PMIOSTOP, PMIOREAD, PMIORESET, PMIOTSTAMP,
	PMIOGET, PMIOREADCPU, PMIOSETUP2, PMIOGET2,
	IOCTL_PERFMON_GET_PROPERTIES,
};

FIXTURE(fuzz)
{
	int writer;
	int reader;
	int kmsg;
	struct perfmon_properties p;
	bool tstamp;		/* there is PMIOTSTAMP */
	unsigned int cpu_ids;	/* CPU numbers are below it */
	bool wide;		/* event selects have bits 35:32 */
	long page_size;
	char *pages;		/* writable, read-only, not mapped */
	__u64 random;
};

FIXTURE_SETUP(fuzz)
{
	const char *seed = getenv("FUZZ_SEED");
	struct pmc_tstamp t;

	if (!pmu_expected())
		SKIP(return, "this CPU has no PMU");
	self->random = seed ? strtoull(seed, NULL, 0) : 1;
	self->random = self->random * 0x9e3779b97f4a7c15ULL | 1;
	self->writer = device_open(O_RDWR);
	ASSERT_LE(0, self->writer);
	self->reader = device_open(O_RDONLY);
	ASSERT_LE(0, self->reader);
	ASSERT_EQ(0, device_ioctl(self->reader, IOCTL_PERFMON_GET_PROPERTIES,
				  &self->p));
	/* There is no such command as long as the frequency is not known. */
	self->tstamp = device_ioctl(self->reader, PMIOTSTAMP, &t) != -ENOTTY;
	self->cpu_ids = cpu_ids();
	ASSERT_LT(0U, self->cpu_ids);
	self->wide = pmu_registers()->select0 != MSR_IA32_PERFEVTSEL0;
	self->page_size = sysconf(_SC_PAGESIZE);
	self->pages = mmap(NULL, 3 * self->page_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(self->pages != MAP_FAILED);
	ASSERT_EQ(0, mprotect(self->pages + self->page_size, self->page_size,
			      PROT_READ));
	ASSERT_EQ(0, munmap(self->pages + 2 * self->page_size,
			    self->page_size));
	self->kmsg = kmsg_open_end();
	ASSERT_LE(0, self->kmsg);
}

FIXTURE_TEARDOWN(fuzz)
{
	close(self->writer);
	close(self->reader);
	close(self->kmsg);
}

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003) */
static __u64 rnd(FIXTURE_DATA(fuzz) *self, __u64 below)
{
	self->random ^= self->random << 13;
	self->random ^= self->random >> 7;
	self->random ^= self->random << 17;
	return self->random % below;
}

static bool is_command(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (cmd == commands[i])
			return true;
	}
	return false;
}

/* One of the commands, or one that differs from it in a few bits. */
static unsigned int random_command(FIXTURE_DATA(fuzz) *self)
{
	unsigned int cmd = commands[rnd(self, ARRAY_SIZE(commands))];

	if (rnd(self, 4))
		return cmd;
	cmd ^= 1U << (16 + rnd(self, 16));
	if (rnd(self, 2))
		cmd ^= 1U << (16 + rnd(self, 16));
	return cmd;
}

static int random_number(FIXTURE_DATA(fuzz) *self)
{
	switch (rnd(self, 5)) {
	case 0:
		return rnd(self, 2 * NPMC);
	case 1:
		return (int)rnd(self, 64) - 32;
	case 2:
		return PMC_FIXED((int)rnd(self, 2 * NPMC) - NPMC);
	case 3:
		return 1U << rnd(self, 32);
	default:
		return (int)rnd(self, 1ULL << 32);
	}
}

/* The arguments of all commands begin with the counter's number. */
union argument {
	int num;
	struct pmc pmc;
	struct pmc_cpu_data cpu_data;
	struct pmc2 pmc2;
	struct pmc_data data;
};

struct call {
	unsigned int cmd;
	bool writer;
	void *p;
	bool readable;	/* as many bytes as the command's argument has */
	bool writable;
	union argument arg;
};

/* A number that is good more often than chance would have it. */
static __u64 zero_or_random(FIXTURE_DATA(fuzz) *self)
{
	return rnd(self, 8) ? 0 : 1ULL << rnd(self, 64);
}

/* Fills in everything but the counter's number. */
static void random_argument(FIXTURE_DATA(fuzz) *self, struct call *c)
{
	switch (c->cmd) {
	case PMIOREADCPU:
		c->arg.cpu_data.pmcc_first_cpu = rnd(self, 2) ? 0 :
						 rnd(self, 1ULL << 32);
		c->arg.cpu_data.pmcc_count = rnd(self, 2 * PMC_CPU_MAX);
		c->arg.cpu_data.reserved = zero_or_random(self);
		break;
	case PMIOSETUP2:
	case PMIOGET2:
		c->arg.pmc2.pmc2_flags = zero_or_random(self);
		c->arg.pmc2.pmc2_select = rnd(self, 1ULL << 32) |
					  zero_or_random(self);
		c->arg.pmc2.pmc2_extra = zero_or_random(self);
		c->arg.pmc2.reserved = zero_or_random(self);
		break;
	default:
		c->arg.pmc.pmc_val = rnd(self, 1ULL << 32);
	}
}

/* Places the argument where some, all or nothing of it can be accessed. */
static void random_pointer(FIXTURE_DATA(fuzz) *self, struct call *c)
{
	/* How large the argument of an unknown command is does not matter. */
	long size = is_command(c->cmd) ? _IOC_SIZE(c->cmd) : sizeof(struct pmc);
	long page = self->page_size;
	char *writable_end = self->pages + page;
	char *end = writable_end + page, *p;

	switch (rnd(self, 8)) {
	case 0:
		p = (char *)(unsigned long)rnd(self, page);
		break;
	case 1:
		/* The kernel's half; 32-bit programs have the last page only. */
		p = (char *)-(unsigned long)(1 + rnd(self, sizeof(p) == 8 ?
						     1ULL << 40 : 4096));
		break;
	case 2:
		p = end - rnd(self, size + 1);
		break;
	case 3:
		p = writable_end - rnd(self, size + 1);
		break;
	default:
		p = self->pages + rnd(self, page - size + 1);
	}
	c->p = p;
	c->readable = p >= self->pages && p <= end - size;
	c->writable = p >= self->pages && p <= writable_end - size;
	if (c->writable)
		memcpy(p, &c->arg, size);
	else if (c->readable)
		memcpy(&c->arg, p, size);
}

static bool number_is_good(const struct perfmon_properties *p, int num)
{
	if (num >= PMC_FIXED(0))
		return num < PMC_FIXED(p->max_num_fixed_events);
	return num >= 0 && num < p->max_num_programmable_events;
}

/* Whether a call has bits that the driver refuses before all other values. */
static bool has_reserved_bits(FIXTURE_DATA(fuzz) *self, const struct call *c)
{
	const __u64 refused = (__u64)(PMCF_ANY | PMCF_PC) << 16;
	const __u64 select_bits = self->wide ? 0xfffffffffULL : 0xffffffffULL;
	const struct pmc2 *pmc2 = &c->arg.pmc2;

	switch (c->cmd) {
	case PMIOSETUP:
		return c->arg.pmc.pmc_val & refused;
	case PMIOSETUP2:
		return pmc2->pmc2_flags || pmc2->pmc2_extra || pmc2->reserved ||
		       (pmc2->pmc2_select & (refused | ~select_bits));
	case PMIOGET2:
		return pmc2->pmc2_flags || pmc2->pmc2_extra || pmc2->reserved;
	case PMIOREADCPU:
		return c->arg.cpu_data.reserved;
	}
	return false;
}

/* Whether values are wrong that are looked at once all else is right. */
static bool has_wrong_values(FIXTURE_DATA(fuzz) *self, const struct call *c)
{
	/* A fixed counter takes the mode and what is ignored. */
	const __u64 fixed_bits = 0x53ULL << 16;
	bool fixed = c->arg.num >= PMC_FIXED(0);

	switch (c->cmd) {
	case PMIOSETUP:
		return fixed && (c->arg.pmc.pmc_val & ~fixed_bits);
	case PMIOSETUP2:
		return fixed && (c->arg.pmc2.pmc2_select & ~fixed_bits);
	case PMIOREADCPU:
		return c->arg.cpu_data.pmcc_first_cpu >= self->cpu_ids ||
		       !c->arg.cpu_data.pmcc_count ||
		       c->arg.cpu_data.pmcc_count > PMC_CPU_MAX;
	}
	return false;
}

/* The negative errno of a call that is wrong, or 0 for one that is not. */
static int expected_errno(FIXTURE_DATA(fuzz) *self, const struct call *c)
{
	unsigned int direction = _IOC_DIR(c->cmd);
	bool sets_up = c->cmd == PMIOSETUP || c->cmd == PMIOSETUP2;

	if (!is_command(c->cmd) || (c->cmd == PMIOTSTAMP && !self->tstamp))
		return -ENOTTY;
	if (direction == _IOC_WRITE && !c->writer)
		return -EPERM;
	if ((direction & _IOC_WRITE) && !c->readable)
		return -EFAULT;
	if (has_reserved_bits(self, c))
		return -EINVAL;
	if ((direction & _IOC_WRITE) && !number_is_good(&self->p, c->arg.num))
		return -EINVAL;
	if ((direction & _IOC_WRITE) && !sets_up && c->arg.num != SET_UP)
		return -EBUSY;
	if (has_wrong_values(self, c))
		return -EINVAL;
	if ((direction & _IOC_READ) && !c->writable)
		return -EFAULT;
	return 0;
}

TEST_F_TIMEOUT(fuzz, wrong_calls, 120)
{
	struct kmsg_lines lines;
	int i, err, want, wrong = 0;
	struct pmc pmc;
	__s64 value;

	ASSERT_EQ(0, pmc_setup(self->writer, SET_UP, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->writer, SET_UP, 1000));
	value = pmc_value(self->writer, SET_UP);
	ASSERT_LE(LOOP_INSNS * 1000, value);

	for (i = 0; i < CALLS; i++) {
		struct call c = { .cmd = random_command(self) };

		c.writer = rnd(self, 2);
		random_argument(self, &c);
		c.arg.num = random_number(self);
		if (_IOC_TYPE(c.cmd) != '5' && _IOC_TYPE(c.cmd) != '6')
			continue;
		random_pointer(self, &c);
		want = expected_errno(self, &c);
		if (!want)
			continue;
		wrong++;
		err = device_ioctl(c.writer ? self->writer : self->reader,
				   c.cmd, c.p);
		ASSERT_EQ(want, err) {
			TH_LOG("call %d: %s ioctl(0x%08x, %p), num 0x%x, then 0x%08x",
			       i, c.writer ? "writer" : "reader", c.cmd, c.p,
			       c.arg.num, c.arg.pmc.pmc_val);
		}
	}
	EXPECT_LT(CALLS / 2, wrong);

	EXPECT_EQ(0, pmc_get(self->writer, SET_UP, &pmc));
	EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	EXPECT_EQ(value, pmc_value(self->writer, SET_UP));
	for (i = 1; i < self->p.max_num_programmable_events; i++)
		EXPECT_EQ(-EBUSY, pmc_get(self->writer, i, &pmc));
	EXPECT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

/* Random bytes in random calls, right or wrong: the machine survives. */
TEST_F_TIMEOUT(fuzz, any_calls, 120)
{
	struct kmsg_lines lines;
	__s64 value;
	int i;

	for (i = 0; i < CALLS; i++) {
		struct call c = { .cmd = random_command(self) };

		random_argument(self, &c);
		c.arg.num = rnd(self, 2) ? (int)rnd(self, 8) :
					   random_number(self);
		if (_IOC_TYPE(c.cmd) != '5' && _IOC_TYPE(c.cmd) != '6')
			continue;
		random_pointer(self, &c);
		device_ioctl(rnd(self, 8) ? self->writer : self->reader, c.cmd,
			     c.p);
	}
	EXPECT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}

	/* And then it counts as ever. */
	close(self->writer);
	self->writer = device_open(O_RDWR);
	ASSERT_LE(0, self->writer);
	ASSERT_EQ(0, pmc_setup(self->writer, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	value = pmc_loop_count(self->writer, 0, 1000);
	EXPECT_LE(LOOP_INSNS * 1000, value);
	EXPECT_GE(LOOP_INSNS * 1000 + CALL_OVERHEAD, value);
}

TEST_HARNESS_MAIN
