// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples in the first instructions of a system call, before the kernel has saved the program's
 * registers. The samples must not show the registers of the previous call.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "kallsyms.h"
#include "samples.h"

#define REGISTER_IP	(1ULL << 8)
#define REGISTER_R12	(1ULL << 20)

FIXTURE(event)
{
	struct sampler sampler;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, pin_to_first_cpu());
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Labels in the loop of system_calls(). */
extern const char calls_begin[], behind_first[], behind_second[], next_turn[];

#define LOOP_INSTRUCTIONS	89

/*
 * Executes 2 * @delay instructions, and then @n rounds of two system calls, with R12 counting
 * from @n down to 1.
 */
static __attribute__((noinline, noclone)) void system_calls(unsigned long delay, unsigned long n)
{
	register unsigned long left __asm__("r12") = n;

	__asm__ volatile(".globl calls_begin, behind_first, behind_second, next_turn\n"
			 "1:	dec	%0\n"
			 "	jns	1b\n"
			 "calls_begin:\n"
			 "	mov	%2, %%eax\n"
			 "	syscall\n"
			 "behind_first:\n"
			 "	.fill	40, 1, 0x90\n"
			 "	mov	%2, %%eax\n"
			 "	syscall\n"
			 "behind_second:\n"
			 "	.fill	43, 1, 0x90\n"
			 "	dec	%1\n"
			 "next_turn:\n"
			 "	jnz	calls_begin\n"
			 : "+r" (delay), "+r" (left)
			 : "i" (SYS_getpid)
			 : "rax", "rcx", "r11", "cc", "memory");
}

static bool is_in_calls(__u64 address)
{
	return address >= (__u64)calls_begin && address <= (__u64)next_turn;
}

static bool is_behind_a_call(__u64 address)
{
	return address == (__u64)behind_first || address == (__u64)behind_second;
}

struct entry_findings {
	struct kernel_function entry;
	unsigned long in_entry, wrong;
};

/* In the entry code, RCX has the address after the system call instruction. */
static void check_registers(const struct sample *sample, void *data)
{
	struct entry_findings *found = data;
	__u64 rcx = sample->abi ? sample->registers[0] : 0;
	unsigned int i;

	if (!kernel_function_has(&found->entry, sample->ip) || !is_behind_a_call(rcx))
		return;
	found->in_entry++;
	if (sample->user_abi && sample->user_registers[0] != rcx)
		found->wrong++;
	for (i = 0; i < sample->chain_length; i++)
		found->wrong += is_behind_a_call(sample->chain[i]) && sample->chain[i] != rcx;
}

/*
 * A round has the same number of instructions each time: with some periods, on some kernels,
 * no sample falls into the entry.
 */
static const __u64 periods[] = { 6007, 8009, 10007, 5003, 7013, 9011, 11003, 12007, 4001, 13007 };

TEST_F(event, samples_in_the_entry_have_no_registers_of_another_call)
{
	struct perf_event_attr attr = event_every(0);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct entry_findings found = { };
	unsigned int i;

	ASSERT_EQ(0, find_kernel_function("entry_SYSCALL_64", &found.entry));
	attr.exclude_kernel = 0;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
			   PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_user = REGISTER_IP;
	attr.sample_regs_intr = REGISTER_CX;
	for (i = 0; i < ARRAY_SIZE(periods) && (i < 3 || !found.in_entry); i++) {
		attr.sample_period = periods[i];
		ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 8));
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		system_calls(0, 40000);
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		sampler_read(&self->sampler, &sums, check_registers, &found);
		sampler_close(&self->sampler);
		self->sampler.fd = -1;
		TH_LOG("%s, period %llu: so far %lu samples, %lu in the entry, %lu wrong",
		       variant->maker->name, periods[i], sums.samples, found.in_entry,
		       found.wrong);
	}
	EXPECT_LT(0UL, found.in_entry);
	/* Some samples of perf have such registers. */
	if (variant->maker == &event_maker_perfmon)
		EXPECT_EQ(0UL, found.wrong);
}

#define CALLS	200UL
#define THIRD	3U

struct sample_position {
	unsigned int samples;
	__u64 ip;
	__u64 rounds_left;	/* R12; 0: unknown */
	bool interrupted;	/* another interrupt came meanwhile */
};

static void note_third(const struct sample *sample, void *data)
{
	struct sample_position *place = data;

	if (++place->samples != THIRD)
		return;
	place->ip = sample->ip;
	place->rounds_left = sample->user_abi ? sample->user_registers[0] : 0;
}

/* Returns the place of the third sample in the calls. */
static struct sample_position place_of_third(struct __test_metadata *_metadata,
					     struct sampler *sampler,
					     const struct event_maker *maker,
					     struct perf_event_attr *attr, unsigned long delay)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sample_position place = { };
	long long before;

	ASSERT_EQ(0, sampler_open(sampler, maker, attr, 0, -1, 4));
	before = cpu_interrupts();
	ASSERT_LT(0, before);
	ASSERT_EQ(0, event_enable(sampler->fd));
	system_calls(delay, CALLS);
	ASSERT_EQ(0, event_disable(sampler->fd));
	place.interrupted = cpu_interrupts() > before;
	sampler_read(sampler, &sums, note_third, &place);
	sampler_close(sampler);
	sampler->fd = -1;
	ASSERT_LE(THIRD, place.samples);
	return place;
}

/*
 * The third sample comes after a known number of instructions. If more of these instructions are
 * before the loop (@delay), fewer are in the loop, so a longer delay must never move the sample's
 * position forward. A late PMI (SKID) is in the kernel if it is due shortly before a call, or if
 * the timer's interrupt comes within the skid. With pmu-skid=5 such an interrupt is at error_entry
 * + 1, which asm_sysvec_apic_timer_interrupt has called, before the registers are saved. IP is then
 * the instruction of the loop that the timer has interrupted, up to SKID instructions before the
 * position without an interrupt. So the position of the next sample may be farther.
 */
TEST_F(event, late_samples_are_after_their_own_call)
{
	struct perf_event_attr attr = event_every(11 * LOOP_INSTRUCTIONS);
	unsigned long delay, turn, last_turn = CALLS;
	__u64 last_ip = -1ULL;

	/* perf has no such samples. */
	if (variant->maker == &event_maker_perf)
		return;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = REGISTER_R12;
	for (delay = 0; delay < LOOP_INSTRUCTIONS; delay++) {
		struct sample_position place = place_of_third(_metadata, &self->sampler,
							      variant->maker, &attr, delay);

		if (place.rounds_left)
			turn = CALLS - place.rounds_left - (place.ip == (__u64)next_turn);
		else
			turn = place.ip <= last_ip ? last_turn : last_turn - 1;
		EXPECT_TRUE(turn < last_turn || (turn == last_turn && place.ip <= last_ip)) {
			TH_LOG("delay %lu: turn %lu, calls_begin + %lld; before: turn %lu", delay,
			       turn, place.ip - (__u64)calls_begin, last_turn);
		}
		if (!place.rounds_left && !is_behind_a_call(place.ip)) {
			TH_LOG("delay %lu: interrupted at calls_begin + %lld", delay,
			       place.ip - (__u64)calls_begin);
			EXPECT_TRUE(is_in_calls(place.ip) && place.interrupted);
			continue;
		}
		last_turn = turn;
		last_ip = place.ip;
	}
}

TEST_HARNESS_MAIN
