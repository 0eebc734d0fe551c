// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact counts of the virtual PMU, which the test sets up by its registers. Counters have no
 * interrupt enabled, since a PMI would be an unknown NMI.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "cpu.h"
#include "harness.h"
#include "loop.h"
#include "pmu.h"
#include "idle.h"

#define N		100000UL
#define USR		(1ULL << 16)
#define OS		(1ULL << 17)
#define INV		(1ULL << 23)
#define CMASK(n)	((__u64)(n) << 24)
#define MAX_COUNTERS	(16 + 7)

/* The maximum number of instructions in user mode of the msr_write() calls around a loop */
#define OVERHEAD	2000

/* The registers and the rate of a counter */
struct pmu_counter {
	__u32 control;
	__u32 value;
	__u64 usr;		/* written to control: counts in user mode */
	unsigned int rate;	/* eighths of an event for each instruction */
	int status;		/* its bit in GLOBAL_CTRL and GLOBAL_STATUS */
};

FIXTURE(counters)
{
	struct pmu p;
	__u32 global_ctrl;	/* 0: the PMU has none */
	__u32 global_status;
	__u32 status_reset;
	__u64 instructions;	/* event selects */
	__u64 branches;
	__u64 cycles;
	__u64 other_cycles;	/* Intel: bus cycles; AMD: reference cycles */
	unsigned int rate;	/* eighths of a cycle for each instruction */
	unsigned int other_rate;
	struct pmu_counter counters[MAX_COUNTERS];
	int n;
};

FIXTURE_SETUP(counters)
{
	/* With CPI=off in the environment, QEMU has pmu-cpi=off: an instruction takes one cycle. */
	const char *cpi = getenv("CPI");
	const bool off = cpi && !strcmp(cpi, "off");
	/*
	 * Instructions, cycles, reference cycles, slots; slots of wrong paths, of the front end, of what
	 * retired
	 */
	const unsigned int fixed_rates[] = {
		8, off ? 8 : 10, off ? 8 : 9, off ? 32 : 40, 4, 12, 16,
	};
	const struct pmu_registers *r = pmu_registers();
	unsigned int i;

	ASSERT_TRUE(pmu_describe(&self->p));
	self->global_ctrl = r->global_ctrl;
	self->global_status = r->global_status;
	self->status_reset = self->p.is_intel ? MSR_IA32_PERF_GLOBAL_STATUS_RESET :
					     MSR_AMD_PERF_GLOBAL_STATUS_CLR;
	self->instructions = 0xc0;
	self->branches = self->p.is_intel ? 0xc4 : 0xc2;
	self->cycles = self->p.is_intel ? 0x3c : 0x76;
	self->other_cycles = self->p.is_intel ? 0x13c : 0x100000120ULL;
	self->rate = off ? 8 : 10;
	self->other_rate = off ? 8 : self->p.is_intel ? 1 : 9;
	for (i = 0; i < self->p.counters; i++) {
		self->counters[self->n++] = (struct pmu_counter){
			.control = r->select0 + i * r->step,
			.value = r->counter0 + i * r->step,
			.usr = self->instructions | USR | PERFEVTSEL_EN,
			.rate = 8,
			.status = i,
		};
	}
	for (i = 0; i < ARRAY_SIZE(fixed_rates); i++) {
		if (!(self->p.fixed & (1U << i)))
			continue;
		self->counters[self->n++] = (struct pmu_counter){
			.control = MSR_IA32_FIXED_CTR_CTRL,
			.value = MSR_IA32_FIXED_CTR(i),
			.usr = 2ULL << (4 * i),
			.rate = fixed_rates[i],
			.status = 32 + i,
		};
	}
	for (i = 0; i < (unsigned int)self->n; i++)
		ASSERT_EQ(0, msr_write(0, self->counters[i].control, 0));
	if (self->global_ctrl) {
		__u64 enabled = 0;

		for (i = 0; i < (unsigned int)self->n; i++)
			enabled |= 1ULL << self->counters[i].status;
		ASSERT_EQ(0, msr_write(0, self->global_ctrl, enabled));
	}
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(counters)
{
	int i;

	for (i = 0; i < self->n; i++) {
		msr_write(0, self->counters[i].control, 0);
		msr_write(0, self->counters[i].value, 0);
	}
	if (self->global_ctrl)
		msr_write(0, self->global_ctrl, 0);
}

/* Returns counter @c after loop(@n) with @control, starting from @start; or ~0 on failure. */
static __u64 count_loop(const struct pmu_counter *c, __u64 control, __u64 start,
			unsigned long n)
{
	__u64 value;

	if (msr_write(0, c->value, start) ||
	    msr_write(0, c->control, control))
		return ~0ULL;
	loop(n);
	if (msr_write(0, c->control, 0) || msr_read(0, c->value, &value))
		return ~0ULL;
	return value;
}

/*
 * Calls count_loop() through a pointer that the compiler does not know, so that count_loop() is not
 * inlined, and the instructions around the loop are always the same.
 */
static __u64 count(const struct pmu_counter *c, __u64 control, __u64 start,
		   unsigned long n)
{
	__u64 (*hidden)(const struct pmu_counter *c, __u64 control, __u64 start,
			unsigned long n) = count_loop;

	__asm__("" : "+r" (hidden));
	return hidden(c, control, start, n);
}

TEST_F(counters, counters_are_exact)
{
	int i;

	for (i = 0; i < self->n; i++) {
		const struct pmu_counter *c = &self->counters[i];
		__u64 once = count(c, c->usr, 0, N);
		__u64 thrice = count(c, c->usr, 0, 3 * N);

		EXPECT_LE(LOOP_INSNS * N * c->rate / 8, once);
		EXPECT_GE((LOOP_INSNS * N + OVERHEAD) * c->rate / 8, once);
		EXPECT_EQ(LOOP_INSNS * 2 * N * c->rate / 8, thrice - once) {
			TH_LOG("counter %d", c->status);
		}
	}
}

/* Returns the count of N iterations of the loop. */
static __u64 count_in_loop(const struct pmu_counter *c, __u64 select)
{
	__u64 control = select | USR | PERFEVTSEL_EN;
	__u64 once = count(c, control, 0, N);

	return count(c, control, 0, 2 * N) - once;
}

/* Each event, with each mask, has its expected count: the rates of the clocks differ. */
TEST_F(counters, each_event_and_mask_has_its_own_count)
{
	const struct pmu_counter *c = &self->counters[0];
	const struct {
		__u64 select;
		unsigned long eighths;	/* counts in eight iterations */
	} events[] = {
		{ self->instructions, LOOP_INSNS * 8 },
		{ self->branches, 8 },
		{ self->cycles, LOOP_INSNS * self->rate },
		{ self->other_cycles, LOOP_INSNS * self->other_rate },
		{ self->branches | CMASK(1), 8 },
		{ self->branches | CMASK(1) | INV, LOOP_INSNS * self->rate - 8 },
		{ self->branches | CMASK(2), 0 },
		{ self->instructions | CMASK(1), LOOP_INSNS * 8 },
		{ self->instructions | CMASK(1) | INV, LOOP_INSNS * (self->rate - 8) },
		{ self->instructions | CMASK(16), 0 },
		{ self->instructions | CMASK(16) | INV, LOOP_INSNS * self->rate },
		{ self->cycles | CMASK(1), LOOP_INSNS * self->rate },
		{ self->cycles | CMASK(1) | INV, 0 },
		{ 0, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		EXPECT_EQ(events[i].eighths * N / 8, count_in_loop(c, events[i].select)) {
			TH_LOG("event select %#llx", events[i].select);
		}
	}
}

/* The test relies on a property of the virtual PMU: an event happens at most once in a cycle. */
TEST_F(counters, version_6_has_a_second_unit_mask_and_compares_for_equality)
{
	const struct pmu_counter *c = &self->counters[0];
	__u64 equal = self->branches | SELECT_EQ;

	if (!self->p.is_intel || self->p.version < 6)
		return;
	EXPECT_EQ(0ULL, count_in_loop(c, self->instructions | SELECT_UMASK2));
	EXPECT_EQ(N, count_in_loop(c, equal | CMASK(1)));
	EXPECT_EQ((LOOP_INSNS * self->rate - 8) * N / 8,
		  count_in_loop(c, equal | CMASK(1) | INV));
	EXPECT_EQ(0ULL, count_in_loop(c, equal | CMASK(2)));
}

/* Intel SDM, volume 3B, "Auto Counter Reload" */
TEST_F(counters, overflow_reloads_another_counter)
{
	const int cause = 0, other = 2;
	const __u64 select = self->instructions | USR | PERFEVTSEL_EN;
	const __u64 mask = (1ULL << self->p.width) - 1;
	__u64 enabled, value, reloaded, status;

	if (!(self->p.reload & 1 << other))
		return;
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(other), 1 << cause));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(other), 0x87654321));
	ASSERT_EQ(0, msr_read(0, self->global_ctrl, &enabled));
	ASSERT_EQ(0, msr_write(0, self->global_ctrl, 0));
	ASSERT_EQ(0, msr_write(0, self->counters[cause].value, mask - LOOP_INSNS * N));
	ASSERT_EQ(0, msr_write(0, self->counters[other].value, 0));
	ASSERT_EQ(0, msr_write(0, self->counters[cause].control, select));
	ASSERT_EQ(0, msr_write(0, self->counters[other].control, select));
	ASSERT_EQ(0, msr_write(0, self->global_ctrl, enabled));
	loop(2 * N);
	ASSERT_EQ(0, msr_write(0, self->global_ctrl, 0));
	ASSERT_EQ(0, msr_read(0, self->counters[cause].value, &value));
	EXPECT_LE(LOOP_INSNS * N - 1, value);
	EXPECT_GE(LOOP_INSNS * N + OVERHEAD, value);
	ASSERT_EQ(0, msr_read(0, self->counters[other].value, &reloaded));
	EXPECT_EQ((0xffffffff87654321ULL + value) & mask, reloaded);
	ASSERT_EQ(0, msr_read(0, self->global_status, &status));
	EXPECT_EQ(1ULL << cause, status);
	EXPECT_EQ(0, msr_write(0, self->status_reset, status));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(other), 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(other), 0));
}

/* Linux relies on the missing status bit: see intel_pmu_enable_event(). */
TEST_F(counters, counter_that_reloads_itself_sets_no_status)
{
	const int own = 2;
	const struct pmu_counter *c = &self->counters[own];
	const __u64 start = (1ULL << self->p.width) - LOOP_INSNS * N / 2;
	__u64 status;

	if (!(self->p.reload & 1 << own))
		return;
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(own), 1 << own));
	ASSERT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(own), (__u32)start));
	/* Without a reload, the counter would have a small value afterwards. */
	EXPECT_LE(start, count(c, c->usr, start, 2 * N));
	ASSERT_EQ(0, msr_read(0, self->global_status, &status));
	EXPECT_EQ(0ULL, status);
	EXPECT_EQ(0, msr_write(0, self->status_reset, status));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_B(own), 0));
	EXPECT_EQ(0, msr_write(0, MSR_IA32_PMC_GP_CFG_C(own), 0));
}

/*
 * A system call is a branch. It counts as a branch of user mode, although its target is in the
 * kernel.
 */
TEST_F(counters, system_call_is_counted_as_a_branch)
{
	const struct pmu_counter *c = &self->counters[0];
	const struct {
		__u64 event;
		unsigned long each;
	} events[] = { { self->instructions, 4 }, { self->branches, 2 } };
	unsigned int i, j;
	__u64 value[2];

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		for (j = 0; j < 2; j++) {
			unsigned long n = (j + 1) * 1000;

			ASSERT_EQ(0, msr_write(0, c->value, 0));
			ASSERT_EQ(0, msr_write(0, c->control, events[i].event |
					       USR | PERFEVTSEL_EN));
			__asm__ volatile("1:	mov	%[getppid], %%eax\n"
					 "	syscall\n"
					 "	dec	%[n]\n"
					 "	jnz	1b"
					 : [n] "+r" (n)
					 : [getppid] "i" (__NR_getppid)
					 : "rax", "rcx", "r11", "cc", "memory");
			ASSERT_EQ(0, msr_write(0, c->control, 0));
			ASSERT_EQ(0, msr_read(0, c->value, &value[j]));
		}
		EXPECT_EQ(events[i].each * 1000, value[1] - value[0]);
	}
}

static unsigned int insn_length;

/* Continues after the instruction that has faulted. */
static void skip_insn(int, siginfo_t *, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += insn_length;
}

/* Returns the count of 1000 times @insn, which makes the kernel send a signal. */
#define COUNT_FAULTS(insn, length, signal) ({				\
	const struct sigaction action = {				\
		.sa_sigaction = skip_insn, .sa_flags = SA_SIGINFO,	\
	};								\
	__u64 value_[2];						\
	int i_;								\
									\
	insn_length = length;						\
	ASSERT_EQ(0, sigaction(signal, &action, NULL));			\
	for (i_ = 0; i_ < 2; i_++) {					\
		unsigned long n_ = (i_ + 1) * 1000;			\
									\
		ASSERT_EQ(0, msr_write(0, c->value, 0));		\
		ASSERT_EQ(0, msr_write(0, c->control, control));	\
		__asm__ volatile("1:	" insn "\n"			\
				 "	dec	%0\n"			\
				 "	jnz	1b"			\
				 : "+r" (n_) : : "cc", "memory");	\
		ASSERT_EQ(0, msr_write(0, c->control, 0));		\
		ASSERT_EQ(0, msr_read(0, c->value, &value_[i_]));	\
	}								\
	value_[1] - value_[0];						\
})

/*
 * INT retires only if the interrupt is delivered. User mode may not use the gates of hardware
 * interrupts, so INT 0x50 faults there like an undefined instruction.
 */
TEST_F(counters, faulting_int_is_not_counted)
{
	const struct pmu_counter *c = &self->counters[0];
	const __u64 events[] = { self->instructions, self->branches };
	__u64 control, undefined;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		control = events[i] | USR | PERFEVTSEL_EN;
		undefined = COUNT_FAULTS("ud2", 2, SIGILL);
		ASSERT_LT(1000ULL, undefined);
		EXPECT_EQ(undefined, COUNT_FAULTS("int $0x50", 2, SIGSEGV));
		/*
		 * INT3 is delivered, so it retires, and the kernel returns to the next instruction.
		 */
		EXPECT_EQ(undefined + 1000, COUNT_FAULTS("int3", 0, SIGTRAP));
	}
}

/* The selector of the code segment for 32-bit programs */
#define CODE_32		0x23
#define MOST_NOPS	64

static sigjmp_buf interrupted;

static void jump_out(int)
{
	siglongjmp(interrupted, 1);
}

/*
 * Executes INTO in 32-bit code after an INC that overflows, so that INTO interrupts, followed by
 * @nops instructions that do not run. Returns the count, or ~0 on failure.
 */
static __u64 __attribute__((noinline)) count_into(const struct pmu_counter *c, __u64 control, unsigned char *code,
						  unsigned int nops)
{
	static const unsigned char into[] = { 0xb8, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xc0, 0xce };
	__u64 value;

	memcpy(code, into, sizeof(into));
	memset(code + sizeof(into), 0x90, nops);
	/* UD2, which is not reached */
	memcpy(code + sizeof(into) + nops, "\x0f\x0b", 2);
	if (msr_write(0, c->value, 0) || msr_write(0, c->control, control))
		return ~0ULL;
	if (!sigsetjmp(interrupted, 1))
		__asm__ volatile("	push	%0\n"
				 "	push	%1\n"
				 "	lretq"
				 : : "r" ((__u64)CODE_32), "r" (code) : "rax", "cc", "memory");
	if (msr_write(0, c->control, 0) || msr_read(0, c->value, &value))
		return ~0ULL;
	return value;
}

/* The instructions that follow INTO in the same translated block of code are not counted. */
TEST_F(counters, instructions_after_into_are_not_counted)
{
	static char stack[1 << 16];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	const struct sigaction action = { .sa_handler = jump_out, .sa_flags = SA_ONSTACK };
	const struct pmu_counter *c = &self->counters[0];
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	__u64 alone;

	ASSERT_NE(MAP_FAILED, (void *)code);
	ASSERT_EQ(0, sigaltstack(&alternate, NULL));
	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	ASSERT_NE(~0ULL, count_into(c, c->usr, code, 0));
	alone = count_into(c, c->usr, code, 0);
	ASSERT_NE(~0ULL, alone);
	EXPECT_EQ(alone, count_into(c, c->usr, code, MOST_NOPS));
	munmap(code, 4096);
}

/* There is no INTO in 64-bit code: the instruction is undefined. */
TEST_F(counters, into_is_undefined_in_64_bit_code)
{
	const struct pmu_counter *c = &self->counters[0];
	__u64 control = c->usr;

	EXPECT_EQ(COUNT_FAULTS("ud2", 2, SIGILL), COUNT_FAULTS(".byte 0xce", 1, SIGILL));
}

TEST_F(counters, counter_without_a_mode_counts_nothing)
{
	const struct pmu_counter *c = &self->counters[0];

	EXPECT_EQ(0ULL, count(c, c->usr & ~USR, 0, N));
	EXPECT_EQ(0ULL, count(c, c->usr & ~PERFEVTSEL_EN, 0, N));
	EXPECT_LE(LOOP_INSNS * N, count(c, c->usr | OS, 0, N));
}

TEST_F(counters, global_control_stops_the_counters)
{
	__u64 value;
	int i;

	if (!self->global_ctrl) {
		EXPECT_EQ(-EIO, msr_read(0, self->p.is_intel ?
					 MSR_IA32_PERF_GLOBAL_CTRL :
					 MSR_AMD_PERF_GLOBAL_CTL, &value));
		return;
	}
	for (i = 0; i < self->n; i++) {
		const struct pmu_counter *c = &self->counters[i];

		ASSERT_EQ(0, msr_write(0, self->global_ctrl, 0));
		EXPECT_EQ(0ULL, count(c, c->usr, 0, N));
		ASSERT_EQ(0, msr_write(0, self->global_ctrl,
				       1ULL << c->status));
		EXPECT_LE(LOOP_INSNS * N * c->rate / 8, count(c, c->usr, 0, N)) {
			TH_LOG("counter %d", c->status);
		}
	}
}

/* A counter that starts just below its maximum wraps to zero and sets its status bit. */
TEST_F(counters, overflow_wraps_and_sets_status)
{
	__u64 end = 1ULL << self->p.width, status;
	int i;

	for (i = 0; i < self->n; i++) {
		const struct pmu_counter *c = &self->counters[i];
		__u64 from_zero = count(c, c->usr, 0, N);

		/* A narrow write sign-extends this value, which has the same effect. */
		EXPECT_EQ(from_zero - N, count(c, c->usr, end - N, N)) {
			TH_LOG("counter %d", c->status);
		}
		if (!self->global_ctrl)
			continue;
		ASSERT_EQ(0, msr_read(0, self->global_status, &status));
		EXPECT_EQ(1ULL << c->status, status);
		ASSERT_EQ(0, msr_write(0, self->status_reset, status));
		ASSERT_EQ(0, msr_read(0, self->global_status, &status));
		EXPECT_EQ(0ULL, status);
	}
}

/* A count that wraps several times in a counter of 24 bits */
TEST_F(counters, narrow_counter_keeps_its_lower_bits)
{
	const struct pmu_counter *c = &self->counters[0];
	__u64 mask = (1ULL << self->p.width) - 1, overhead;
	unsigned long n = 30000000;

	overhead = count(c, c->usr, 0, N) - LOOP_INSNS * N;
	EXPECT_EQ((LOOP_INSNS * n + overhead) & mask,
		  count(c, c->usr, 0, n));
	if (self->global_ctrl)
		EXPECT_EQ(0, msr_write(0, self->status_reset, 1));
}

TEST_HARNESS_MAIN
