// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers in samples: each value is at the position of its register. Is built for 32 bits, too.
 */
#include <stdint.h>

#include "device.h"
#include "fixture.h"
#include "register_loop.h"
#include "samples.h"

#define PERIOD	10007UL
#define N	100000UL
#define CALLS	5000UL
#define ORDER	8

/* Numbers of enum perf_event_x86_regs. */
enum { CX = 2, SP = 7, IP = 8, FLAGS = 9, CS = 10, SS = 11 };

/* Carry flag, the reserved bit that is always 1, interrupt flag. */
#define FLAGS_SET	0x203

#include "sampler_fixture.h"

static __u64 segment(int number)
{
	unsigned long cs, ss;

	__asm__("mov %%cs, %0\n\tmov %%ss, %1" : "=r" (cs), "=r" (ss));
	return number == CS ? cs : ss;
}

/* Returns whether the address is in the loop. */
static bool is_in_loop(__u64 ip)
{
	return ip >= (uintptr_t)register_loop_begin && ip < (uintptr_t)register_loop_end;
}

/* Returns whether registers have the values after the instruction (PRECISE). */
static bool are_after_instruction(void)
{
	return env_number("PRECISE", 0);
}

/* Returns whether register @number can have this value at @ip. */
static bool is_right(int number, __u64 value, __u64 ip)
{
	switch (number) {
	case SP:
		return value == register_sp;
	case IP:
		return are_after_instruction() ? is_in_loop(value) && value != ip : value == ip;
	case FLAGS:
		return (value & FLAGS_SET) == FLAGS_SET;
	case CS:
	case SS:
		return value == segment(number);
	default:
		return value == (__u64)VALUE + number;
	}
}

struct register_findings {
	__u64 mask;			/* registers whose value is known */
	unsigned long samples;
	__u64 wrong;			/* registers that had a wrong value at least once */
	bool other_abi;
	__u64 rounds;			/* RCX of the last sample */
};

static void check_registers(struct register_findings *t, __u64 abi, const __u64 *values, __u64 ip)
{
	__u64 unread;

	t->other_abi |= abi != ABI;
	if (abi != ABI)
		return;
	for (unread = REGISTERS; unread; unread &= unread - 1) {
		int number = __builtin_ctzll(unread);

		if (t->mask >> number & 1 && !is_right(number, *values, ip))
			t->wrong |= 1ULL << number;
		if (number == CX)
			t->rounds = *values;
		values++;
	}
}

static void check_loop(const struct sample *s, void *data)
{
	struct register_findings *t = data;
	__u64 before = t->rounds;

	if (!is_in_loop(s->ip))
		return;
	t->samples++;
	check_registers(t, s->user_abi, s->user_registers, s->ip);
	check_registers(t, s->abi, s->registers, s->ip);
	if (t->rounds >= before)
		t->wrong |= 1ULL << CX;
}

static struct perf_event_attr with_registers(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_user = REGISTERS;
	attr.sample_regs_intr = REGISTERS;
	return attr;
}

TEST_F(event, each_register_of_a_loop_is_in_its_place)
{
	struct perf_event_attr attr = with_registers();
	struct register_findings t = { .mask = REGISTERS & ~(1ULL << CX), .rounds = N };
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	register_loop(N);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_loop, &t);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(2 * N / PERIOD - 1, t.samples);
	EXPECT_FALSE(t.other_abi);
	EXPECT_EQ(0ULL, t.wrong);
}

/* Checks the program's registers in samples of system calls. */
static void check_call(const struct sample *s, void *data)
{
	struct register_findings *t = data;
	__u64 ip;

	/*
	 * Ignores samples in the first instructions of a system call, where the kernel has not
	 * saved the registers yet.
	 */
	if (!s->user_abi)
		return;
	ip = s->user_registers[IP];
	if (ip < (uintptr_t)register_calls_begin || ip >= (uintptr_t)register_calls_end)
		return;
	t->samples++;
	check_registers(t, s->user_abi, s->user_registers, ip);
}

/* perf has some samples without these registers. */
TEST_F(event, samples_in_system_calls_have_the_programs_registers)
{
	struct perf_event_attr attr = with_registers();
	struct register_findings t = { .mask = REGISTERS_KEPT_BY_CALL & ~(1ULL << IP) };
	struct sampler *s = &self->sampler;
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	if (variant->maker == &event_maker_perf)
		return;
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	ASSERT_EQ(0, sampler_open(s, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	register_calls(CALLS);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_call, &t);
	TH_LOG("%lu samples, %lu in the calls", sums.samples, t.samples);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(20UL, t.samples);
	EXPECT_FALSE(t.other_abi);
	EXPECT_EQ(0ULL, t.wrong);
}

TEST_HARNESS_MAIN
