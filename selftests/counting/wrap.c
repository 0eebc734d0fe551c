// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts that are wider than the hardware's counters: they are exact after many wraps, and never
 * decrease or jump for a reader.
 *
 * The tests need counters that wrap many times in seconds. Narrow counters do so. With the module's
 * parameter `period_bits`, wide counters overflow as often.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "module.h"

#define WRAPS		12
#define MAX_WIDTH	28	/* more would take minutes */

/* Wide counters overflow every 2^16 events, and 64 overflows take the place of a wrap. */
#define PERIOD		"period_bits=16"
/* The width of a counter that wraps after 64 overflows of 2^16 events. */
#define SIMULATED_WIDTH	22

/*
 * A number of instructions that is more than all CPUs together retire in one cycle of the
 * time-stamp counter, and a tolerance. Both are small compared with half the range of a counter. A
 * mistake would change a value by so much.
 */
#define MAX_RATE	16
#define SLACK		10000

/* The largest number of rounds until the reader has read while the loop ran. */
#define MOST_ROUNDS	100

/* Memory that the reading process and the counted process share. */
struct shared_results {
	int stop;
	int failed;	/* a PMIOREAD failed */
	int decreased;	/* reads with a smaller value than before */
	int jumped;	/* reads with too large a value */
	long reads;
};

FIXTURE(wrap)
{
	int fd;
	unsigned long n;	/* iterations for WRAPS wraps */
	bool reloaded;		/* the module was reloaded with PERIOD */
	long interrupts;	/* NMIs before the test */
	struct shared_results *shared;
};

FIXTURE_VARIANT(wrap)
{
	int num;
};

/* fixed_wrap.c includes this file with another counter. */
#ifdef COUNTER
FIXTURE_VARIANT_ADD(wrap, fixed) { .num = COUNTER };
#else
FIXTURE_VARIANT_ADD(wrap, general) { .num = 0 };
FIXTURE_VARIANT_ADD(wrap, last_general) { .num = -1 };
#endif

FIXTURE_SETUP(wrap)
{
	struct perfmon_properties p;
	int width;

	SKIP_WITHOUT_PMU();
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &p));
	width = variant->num >= PMC_FIXED(0) ?
		p.max_fixed_counter_width : p.max_programmable_counter_width;
	if (width > MAX_WIDTH) {
		close(self->fd);
		ASSERT_EQ(0, module_reload(PERIOD));
		self->reloaded = true;
		self->fd = open_device(_metadata, O_RDWR);
		width = SIMULATED_WIDTH;
	}
	self->n = (WRAPS << width) / LOOP_INSNS;
	self->shared = map_shared(_metadata, sizeof(*self->shared));
	ASSERT_EQ(0, wait_until_idle());
	self->interrupts = cpu_interrupts_of("NMI", -1);
	ASSERT_LE(0, self->interrupts);
}

FIXTURE_TEARDOWN(wrap)
{
	/* Checks that the test had overflows. */
	EXPECT_LE(WRAPS, cpu_interrupts_of("NMI", -1) - self->interrupts);
	close(self->fd);
	if (self->reloaded)
		EXPECT_EQ(0, module_reload(""));
}

static int counter_number(int fd, int num)
{
	struct perfmon_properties p;

	if (num >= 0)
		return num;
	if (device_properties(fd, &p))
		return -1;
	return p.max_num_programmable_events - 1;
}

/*
 * Reads counter @num until asked to stop, or @max times. Each round executes the same number of
 * instructions.
 */
static void read_until_stopped(int fd, int num, struct shared_results *s, long max)
{
	__u64 last_time = __rdtsc();
	__s64 last = 0;

	/* The first read may have any value. */
	s->failed |= pmc_read(fd, num, &last);
	do {
		__u64 before = __rdtsc();
		__s64 value = 0;

		s->failed |= pmc_read(fd, num, &value);
		s->decreased |= value < last;
		s->jumped |= value - last > SLACK +
			(__s64)(MAX_RATE * (__rdtsc() - last_time));
		last = value;
		last_time = before;
		s->reads++;
	} while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED) &&
		 s->reads < max);
}

/* Returns the instructions of a round of read_until_stopped(), which must be constant. */
static __s64 instructions_per_read(int fd, int num, struct shared_results *s)
{
	__s64 value[3];
	int i, err;

	for (i = 0; i < 3; i++) {
		*s = (struct shared_results) { .stop = 0 };
		err = pmc_reset(fd, num);
		if (!err)
			err = pmc_start(fd, num);
		if (err)
			return err;
		read_until_stopped(fd, num, s, 100 * (i + 1));
		err = pmc_stop(fd, num);
		if (err)
			return err;
		value[i] = pmc_value(fd, num);
	}
	if (value[2] - value[1] != value[1] - value[0] ||
	    (value[1] - value[0]) % 100)
		return -ERANGE;
	return (value[1] - value[0]) / 100;
}

/* Counts loop(@n) while another process reads. Returns the count, or a negative errno. */
static __s64 count_while_read(int fd, int num, struct shared_results *s,
			      unsigned long n)
{
	int start_pipe, err, status;
	pid_t pid;

	*s = (struct shared_results) { .stop = 0 };
	pid = fork_waiting(&start_pipe);
	if (pid < 0)
		return pid;
	if (!pid) {
		read_until_stopped(fd, num, s, -1UL >> 1);
		_exit(0);
	}

	/* The child waits for a byte before it begins, so that its start is not counted. */
	err = wait_until_idle();
	if (!err)
		err = pmc_reset(fd, num);
	if (!err)
		err = pmc_start(fd, num);
	if (write(start_pipe, "", 1) != 1)
		err = -EIO;
	loop(n);
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
	if (waitpid(pid, &status, 0) != pid || status)
		err = -ECHILD;
	if (!err)
		err = pmc_stop(fd, num);
	close(start_pipe);
	return err ? err : pmc_value(fd, num);
}

TEST_F(wrap, value_is_exact_and_rises_past_wraps)
{
	int num = counter_number(self->fd, variant->num);
	__s64 per_read, overhead, value;
	bool was_read = false;
	int i;

	ASSERT_EQ(0, pmc_setup_instructions(self->fd, num, PMCF_USR));
	per_read = instructions_per_read(self->fd, num, self->shared);
	ASSERT_LT(0, per_read);

	/* First measures the constant part of a count, with a loop that does not wrap. */
	value = count_while_read(self->fd, num, self->shared, 1000);
	overhead = value - LOOP_INSNS * 1000 - self->shared->reads * per_read;

	/* On a busy host the reader may get no CPU during the loop. */
	for (i = 1; i <= 3 || (!was_read && i <= MOST_ROUNDS); i++) {
		value = count_while_read(self->fd, num, self->shared,
					 self->n + i);
		EXPECT_EQ((__s64)(LOOP_INSNS * (self->n + i)) +
			  self->shared->reads * per_read + overhead, value);
		was_read |= self->shared->reads > 2;
		EXPECT_EQ(0, self->shared->failed);
		EXPECT_EQ(0, self->shared->decreased);
		EXPECT_EQ(0, self->shared->jumped);
	}
	EXPECT_TRUE(was_read);
}

TEST_F(wrap, value_is_exact_without_readers)
{
	int num = counter_number(self->fd, variant->num);
	__s64 overhead;
	int i;

	ASSERT_EQ(0, pmc_setup_instructions(self->fd, num, PMCF_USR));
	overhead = pmc_loop_count(self->fd, num, 1000) -
		   LOOP_INSNS * 1000;
	EXPECT_EQ((__s64)(LOOP_INSNS * self->n) + overhead,
		  pmc_loop_count(self->fd, num, self->n));

	/* Counts in several parts, so that the counter is stopped at many different values. */
	ASSERT_EQ(0, pmc_reset(self->fd, num));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, pmc_count_loop(self->fd, num, self->n / 100));
	EXPECT_EQ((__s64)(100 * (LOOP_INSNS * (self->n / 100) + overhead)),
		  pmc_value(self->fd, num));
}

TEST_F(wrap, reset_past_wraps_zeroes_a_running_counter)
{
	int num = counter_number(self->fd, variant->num);
	__s64 value;

	ASSERT_EQ(0, pmc_setup_instructions(self->fd, num, PMCF_USR));
	ASSERT_EQ(0, pmc_start(self->fd, num));
	loop(self->n / 3);
	ASSERT_EQ(0, pmc_reset(self->fd, num));
	loop(self->n);
	ASSERT_EQ(0, pmc_stop(self->fd, num));
	value = pmc_value(self->fd, num);
	EXPECT_LE((__s64)(LOOP_INSNS * self->n), value);
	EXPECT_GE((__s64)(LOOP_INSNS * self->n) + 2 * CALL_OVERHEAD, value);
}

TEST_F(wrap, value_is_exact_on_a_moving_thread)
{
	int num = counter_number(self->fd, variant->num);
	unsigned long n;
	__s64 value[2];
	cpu_set_t cpus;
	int cpu, i, k;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, pmc_setup_instructions(self->fd, num, PMCF_USR));
	for (k = 0; k < 2; k++) {
		n = k ? self->n / 10 : 10;
		ASSERT_EQ(0, pmc_reset(self->fd, num));
		ASSERT_EQ(0, pmc_start(self->fd, num));
		for (i = 0; i < 10; i++) {
			for_each_cpu_in(cpu, &cpus) {
				pin_to_cpu(cpu);
				loop(n);
			}
		}
		ASSERT_EQ(0, pmc_stop(self->fd, num));
		value[k] = pmc_value(self->fd, num);
	}
	EXPECT_EQ((__s64)(LOOP_INSNS * (self->n / 10 - 10)) * 10 *
		  CPU_COUNT(&cpus), value[1] - value[0]);
}

TEST_HARNESS_MAIN
