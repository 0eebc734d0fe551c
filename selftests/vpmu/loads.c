// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts of loads and stores in the virtual PMU: an instruction that reads memory is one load, and
 * one that writes memory is one store. The event of slow loads (Intel's load latency) counts all
 * loads if its register has a threshold and the counter has PEBS. Counters have no interrupt
 * enabled, since a PMI would be an unknown NMI.
 *
 * The module must not be loaded, since it would use the counters.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "cpu.h"
#include "harness.h"
#include "idle.h"
#include "pmu.h"

#define N		10000UL
#define USR		(1ULL << 16)
#define OS		(1ULL << 17)
#define INV		(1ULL << 23)
#define CMASK(n)	((__u64)(n) << 24)
#define PAGE		4096UL

/* Bits of PEBS_ENABLE: counter 0 has PEBS, and with formats before 4 it also has latencies. */
#define PEBS_0		(1ULL << 0)
#define PEBS_LATENCY_0	(1ULL << 32)
/* The bits of counter 1 */
#define PEBS_1		(PEBS_0 << 1)
#define PEBS_LATENCY_1	(PEBS_LATENCY_0 << 1)

/* A threshold of latency, in cycles */
#define THRESHOLD	3

/* The offset of an area that FXSAVE can use, and of an access that reaches into the next page */
#define FXSAVE_AREA	"1024"
#define PAGE_END	"4092"

/* Two pages that the instructions access, their address in RBX. */
static char area[2 * PAGE] __attribute__((aligned(PAGE)));

/*
 * Defines a function of @n rounds of @insns. @insns may change RAX, RCX, RDX, RSI and RDI; RSI and
 * RDI are addresses in the area. The stack below RSP is not changed, because the compiler may use
 * it.
 */
#define DEFINE_ROUNDS(name, insns)						\
static void __attribute__((noinline)) name(unsigned long n)			\
{										\
	__asm__ volatile("	lea	-256(%%rsp), %%rsp\n"			\
			 "1:	lea	64(%%rbx), %%rsi\n"			\
			 "	lea	128(%%rbx), %%rdi\n"			\
			 insns "\n"						\
			 "	dec	%[n]\n"					\
			 "	jnz	1b\n"					\
			 "	lea	256(%%rsp), %%rsp\n"			\
			 : [n] "+r" (n) : "b" (area)				\
			 : "rax", "rcx", "rdx", "rsi", "rdi", "xmm0", "st", "cc", "memory");	\
}

DEFINE_ROUNDS(nothing, "nop")
DEFINE_ROUNDS(load, "mov (%%rbx), %%rax")
DEFINE_ROUNDS(store, "mov %%rax, (%%rbx)")
DEFINE_ROUNDS(store_number, "movq $1, (%%rbx)")
DEFINE_ROUNDS(four_loads, "mov (%%rbx), %%rax\n mov 8(%%rbx), %%ecx\n"
			  "movzwl 16(%%rbx), %%edx\n movsbq (%%rbx), %%rax")
DEFINE_ROUNDS(load_of_two_pages, "mov " PAGE_END "(%%rbx), %%rax")
DEFINE_ROUNDS(update, "incq (%%rbx)")
DEFINE_ROUNDS(compare, "cmp %%rax, (%%rbx)\n testb $1, (%%rbx)\n btq $3, (%%rbx)")
DEFINE_ROUNDS(locked, "lock incq (%%rbx)\n lock xadd %%rax, (%%rbx)\n lock btsq $3, (%%rbx)\n lock negq (%%rbx)")
DEFINE_ROUNDS(exchange, "xchg %%rax, (%%rbx)")
DEFINE_ROUNDS(compare_and_exchange, "lock cmpxchg %%rdx, (%%rbx)\n cmpxchg %%rdx, (%%rbx)")
DEFINE_ROUNDS(exchange_8_bytes, "lock cmpxchg8b (%%rbx)\n cmpxchg8b (%%rbx)")
DEFINE_ROUNDS(conditional_load, "cmovc (%%rbx), %%rax\n cmovnc (%%rbx), %%rax")
DEFINE_ROUNDS(push_and_pop, "push %%rax\n pop %%rax\n pushf\n popf")
DEFINE_ROUNDS(push_and_pop_of_memory, "pushq (%%rbx)\n popq 8(%%rbx)")
DEFINE_ROUNDS(call_and_return, "call 2f\n jmp 3f\n2: ret\n3:")
DEFINE_ROUNDS(jump_by_memory, "lea 2f(%%rip), %%rax\n mov %%rax, 8(%%rbx)\n jmp *8(%%rbx)\n2:")
DEFINE_ROUNDS(call_by_memory, "lea 2f(%%rip), %%rax\n mov %%rax, 8(%%rbx)\n call *8(%%rbx)\n2: pop %%rax")
DEFINE_ROUNDS(frame, "enter $16, $0\n leave")
DEFINE_ROUNDS(string, "movsb\n lodsq\n stosq\n cmpsb\n scasb")
DEFINE_ROUNDS(copy, "mov $37, %%ecx\n rep movsb")
DEFINE_ROUNDS(copy_of_nothing, "xor %%ecx, %%ecx\n rep movsb\n rep stosb\n repe cmpsb")
DEFINE_ROUNDS(fill, "mov $37, %%ecx\n rep stosb")
DEFINE_ROUNDS(search, "mov $37, %%ecx\n repe cmpsb\n mov $37, %%ecx\n repne scasb")
DEFINE_ROUNDS(vector, "movups (%%rbx), %%xmm0\n movups %%xmm0, 16(%%rbx)\n paddd 32(%%rbx), %%xmm0\n"
		      "movq %%xmm0, (%%rbx)\n movss (%%rbx), %%xmm0\n movsd %%xmm0, 8(%%rbx)")
DEFINE_ROUNDS(floating_point, "fildl 4(%%rbx)\n fistpl 4(%%rbx)\n flds 4(%%rbx)\n fstps 4(%%rbx)\n fldt 32(%%rbx)\n"
			      "fstpt 32(%%rbx)\n fnstcw (%%rbx)\n fldcw (%%rbx)")
DEFINE_ROUNDS(save, "fxsave " FXSAVE_AREA "(%%rbx)\n fxrstor " FXSAVE_AREA "(%%rbx)")
DEFINE_ROUNDS(no_access, "lea (%%rbx), %%rax\n nopl (%%rbx)\n prefetcht0 (%%rbx)\n clflush (%%rbx)")

static const struct {
	const char *name;
	void (*rounds)(unsigned long n);
	unsigned int loads, stores;	/* number in each round */
} cases[] = {
#define CASE(name, loads, stores) { #name, name, loads, stores }
	CASE(nothing, 0, 0),
	CASE(load, 1, 0),
	CASE(store, 0, 1),
	CASE(store_number, 0, 1),
	CASE(four_loads, 4, 0),
	CASE(load_of_two_pages, 1, 0),
	CASE(update, 1, 1),
	CASE(compare, 3, 0),
	CASE(locked, 4, 4),
	CASE(exchange, 1, 1),
	CASE(compare_and_exchange, 2, 2),
	CASE(exchange_8_bytes, 2, 2),
	CASE(conditional_load, 2, 0),
	CASE(push_and_pop, 2, 2),
	CASE(push_and_pop_of_memory, 2, 2),
	CASE(call_and_return, 1, 1),
	CASE(jump_by_memory, 1, 1),
	CASE(call_by_memory, 2, 2),
	CASE(frame, 1, 1),
	CASE(string, 4, 2),
	CASE(copy, 1, 1),
	CASE(copy_of_nothing, 0, 0),
	CASE(fill, 0, 1),
	CASE(search, 2, 0),
	CASE(vector, 3, 3),
	CASE(floating_point, 4, 4),
	CASE(save, 1, 1),
	CASE(no_access, 0, 0),
};

FIXTURE(loads)
{
	struct pmu p;
	__u32 control, value;	/* the registers of general counter 0 */
	__u32 global_ctrl, global_status, status_reset;	/* 0: the PMU has none */
	__u64 loads, stores, cycles;	/* event selects */
	__u64 slow_loads;		/* the same; 0: the model has no event of load latency */
	__u64 enable;			/* what PEBS_ENABLE needs for slow loads in counter 0; 0: no PEBS */
};

/* Returns what PEBS_ENABLE needs for load latency in general counter 0, or 0 without PEBS. */
static __u64 latency_enable(const struct pmu *p)
{
	unsigned int a, b, c, d;
	__u64 capabilities;

	if (!p->capabilities || !__get_cpuid(1, &a, &b, &c, &d) || !(d & CPUID_1_EDX_DS) ||
	    msr_read(0, MSR_IA32_PERF_CAPABILITIES, &capabilities))
		return 0;
	return PERF_CAPABILITIES_PEBS(capabilities) < 4 ? PEBS_0 | PEBS_LATENCY_0 : PEBS_0;
}

FIXTURE_SETUP(loads)
{
	const struct pmu_registers *r = pmu_registers();

	ASSERT_TRUE(pmu_describe(&self->p));
	self->control = r->select0;
	self->value = r->counter0;
	self->global_ctrl = r->global_ctrl;
	self->global_status = r->global_status;
	self->status_reset = self->p.is_intel ? MSR_IA32_PERF_GLOBAL_STATUS_RESET : MSR_AMD_PERF_GLOBAL_STATUS_CLR;
	/* MEM_INST_RETIRED.ALL_LOADS and ALL_STORES, LsDispatch.LdDispatch and StoreDispatch */
	self->loads = self->p.is_intel ? 0x81d0 : 0x0129;
	self->stores = self->p.is_intel ? 0x82d0 : 0x0229;
	self->cycles = self->p.is_intel ? 0x3c : 0x76;
	self->slow_loads = self->p.load_latency_event;
	self->enable = latency_enable(&self->p);
	ASSERT_EQ(0, msr_write(0, self->control, 0));
	if (self->global_ctrl)
		ASSERT_EQ(0, msr_write(0, self->global_ctrl, 1));
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(loads)
{
	msr_write(0, self->control, 0);
	msr_write(0, self->value, 0);
	if (self->enable)
		msr_write(0, MSR_PEBS_ENABLE, 0);
	if (self->slow_loads)
		msr_write(0, MSR_PEBS_LD_LAT, 0);
	if (self->global_ctrl)
		msr_write(0, self->global_ctrl, 0);
}

/*
 * Returns the counter after @n rounds of a case, from @start on; or ~0 on failure. Not inlined, so that each call
 * executes the same instructions around the rounds.
 */
static __u64 __attribute__((noinline)) count_from(const FIXTURE_DATA(loads) *self, __u64 start, __u64 select,
						  void (*rounds)(unsigned long n), unsigned long n)
{
	__u64 value;

	if (msr_write(0, self->value, start) || msr_write(0, self->control, select | PERFEVTSEL_EN))
		return ~0ULL;
	rounds(n);
	if (msr_write(0, self->control, 0) || msr_read(0, self->value, &value))
		return ~0ULL;
	return value;
}

/* Returns the count of N rounds. */
static __u64 count(const FIXTURE_DATA(loads) *self, __u64 select, void (*rounds)(unsigned long n))
{
	return count_from(self, 0, select, rounds, 2 * N) - count_from(self, 0, select, rounds, N);
}

TEST_F(loads, instructions_that_access_memory_are_counted_once)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].loads * N, count(self, self->loads | USR, cases[i].rounds)) {
			TH_LOG("%s", cases[i].name);
		}
		EXPECT_EQ(cases[i].stores * N, count(self, self->stores | USR, cases[i].rounds)) {
			TH_LOG("%s", cases[i].name);
		}
	}
}

/* Since a cycle has one load at most, inverted counter masks count the cycles without a load. */
TEST_F(loads, counter_mask_and_invert_count_the_other_cycles)
{
	const __u64 cycles = count(self, self->cycles | USR, four_loads);
	__u64 without;

	EXPECT_EQ(4 * N, count(self, self->loads | CMASK(1) | USR, four_loads));
	EXPECT_EQ(0ULL, count(self, self->loads | CMASK(2) | USR, four_loads));
	without = count(self, self->loads | CMASK(1) | INV | USR, four_loads);
	/* Each count of cycles is rounded down. */
	EXPECT_LE(cycles - 4 * N - 1, without);
	EXPECT_GE(cycles - 4 * N + 1, without);
}

TEST_F(loads, modes_are_counted_apart)
{
	/*
	 * A number that is far larger than the loads and stores of interrupts and other threads on
	 * the CPU meanwhile
	 */
	const unsigned long n = 1000 * N;
	const __u64 events[] = { self->loads, self->stores };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		const __u64 kernel = count_from(self, 0, events[i] | OS, update, n);

		/* The count is not 0, because the kernel's WRMSR starts and stops the counter. */
		EXPECT_LT(0ULL, kernel);
		EXPECT_GT(n, kernel);
		EXPECT_LT(n, count_from(self, 0, events[i] | OS | USR, update, n));
	}
}

/*
 * The test writes to each page for the first time, so each store faults once and is then executed
 * again.
 */
TEST_F(loads, instruction_that_faults_is_counted_when_it_retires)
{
	const unsigned long pages = 500;
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u64 least, value;
	unsigned long n;

	ASSERT_NE(MAP_FAILED, memory);
	least = count_from(self, 0, self->stores | USR, nothing, 1);
	ASSERT_EQ(0, msr_write(0, self->value, 0));
	ASSERT_EQ(0, msr_write(0, self->control, self->stores | USR | PERFEVTSEL_EN));
	for (n = 0; n < pages; n++)
		__asm__ volatile("movb $1, (%0)" : : "r" (memory + n * PAGE) : "memory");
	ASSERT_EQ(0, msr_write(0, self->control, 0));
	ASSERT_EQ(0, msr_read(0, self->value, &value));
	EXPECT_LE(pages, value);
	EXPECT_GE(pages + least + 10, value);
	munmap(memory, pages * PAGE);
}

/* Returns 0, or an error. */
static int set_latency(const FIXTURE_DATA(loads) *self, __u64 enable, __u64 threshold)
{
	int err = self->enable ? msr_write(0, MSR_PEBS_ENABLE, enable) : 0;

	return err ?: msr_write(0, MSR_PEBS_LD_LAT, threshold);
}

/* The counts are so small that no counter overflows, and PEBS needs no DS area. */
TEST_F(loads, slow_loads_are_all_loads_with_pebs_and_a_threshold)
{
	unsigned int i;

	if (!self->slow_loads || !self->enable)
		return;
	ASSERT_EQ(0, set_latency(self, self->enable, THRESHOLD));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].loads * N, count(self, self->slow_loads | USR, cases[i].rounds)) {
			TH_LOG("%s", cases[i].name);
		}
	}
	ASSERT_EQ(0, set_latency(self, self->enable, 0xffff));
	EXPECT_EQ(4 * N, count(self, self->slow_loads | USR, four_loads));
}

/*
 * If only another counter's bits are set, or only one of the two bits, the counter has no PEBS for
 * latencies.
 */
TEST_F(loads, slow_loads_are_not_counted_without_pebs_or_threshold)
{
	const struct {
		__u64 enable, threshold;
		bool before_4;	/* for formats of PEBS before 4 */
	} values[] = {
		{ 0, 0, false },
		{ 0, THRESHOLD, false },
		{ self->enable, 0, false },
		{ PEBS_1, THRESHOLD, false },
		{ PEBS_0, THRESHOLD, true },
		{ PEBS_LATENCY_0, THRESHOLD, true },
		{ PEBS_0 | PEBS_LATENCY_1, THRESHOLD, true },
		{ PEBS_1 | PEBS_LATENCY_0, THRESHOLD, true },
		{ PEBS_1 | PEBS_LATENCY_1, THRESHOLD, true },
	};
	unsigned int i;

	if (!self->slow_loads)
		return;
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		if (values[i].before_4 && !(self->enable & PEBS_LATENCY_0))
			continue;
		ASSERT_EQ(0, set_latency(self, values[i].enable, values[i].threshold));
		EXPECT_EQ(0ULL, count_from(self, 0, self->slow_loads | OS | USR, four_loads, N)) {
			TH_LOG("PEBS_ENABLE %#llx, threshold %llu", values[i].enable, values[i].threshold);
		}
	}
}

/*
 * Executes @rounds with N rounds three times, and sets the registers so that slow loads are counted
 * only in the second time. Returns the count, or ~0 on failure. The count includes some
 * instructions around the rounds. Not inlined: see count_from().
 */
static __u64 __attribute__((noinline)) count_second(const FIXTURE_DATA(loads) *self, __u32 msr, __u64 value,
						    void (*rounds)(unsigned long n))
{
	int err = msr_write(0, msr, 0) || msr_write(0, self->value, 0) ||
		  msr_write(0, self->control, self->slow_loads | USR | PERFEVTSEL_EN);
	__u64 counted;

	rounds(N);
	err = err || msr_write(0, msr, value);
	rounds(N);
	err = err || msr_write(0, msr, 0);
	rounds(N);
	err = err || msr_write(0, self->control, 0) || msr_read(0, self->value, &counted);
	return err ? ~0ULL : counted;
}

TEST_F(loads, slow_loads_start_and_stop_by_either_register)
{
	const struct {
		__u32 msr;
		__u64 value;
	} either[] = {
		{ MSR_PEBS_ENABLE, self->enable }, { MSR_PEBS_LD_LAT, THRESHOLD },
	};
	unsigned int i;

	if (!self->slow_loads || !self->enable)
		return;
	for (i = 0; i < ARRAY_SIZE(either); i++) {
		ASSERT_EQ(0, set_latency(self, self->enable, THRESHOLD));
		EXPECT_EQ(4 * N, count_second(self, either[i].msr, either[i].value, four_loads) -
				 count_second(self, either[i].msr, either[i].value, nothing)) {
			TH_LOG("MSR %#x", either[i].msr);
		}
	}
}

static unsigned int insn_length;

/* Continues after the instruction that has faulted. */
static void skip_insn(int, siginfo_t *, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += insn_length;
}

DEFINE_ROUNDS(undefined, "ud2")
DEFINE_ROUNDS(load_at_zero, "xor %%eax, %%eax\n mov (%%rax), %%rax")
DEFINE_ROUNDS(store_at_zero, "xor %%eax, %%eax\n mov %%rax, (%%rax)")
DEFINE_ROUNDS(update_at_zero, "xor %%eax, %%eax\n incq (%%rax)")
DEFINE_ROUNDS(copy_to_zero, "mov $37, %%ecx\n xor %%edi, %%edi\n rep movsb\n")

/* The two instructions fault with the same signal. The handler also accesses memory. */
TEST_F(loads, instruction_that_never_retires_is_not_counted)
{
	const struct {
		void (*rounds)(unsigned long n);
		unsigned int length;
	} faults[] = {
		{ undefined, 2 }, { load_at_zero, 3 }, { store_at_zero, 3 }, { update_at_zero, 3 },
		{ copy_to_zero, 2 },
	};
	const struct sigaction action = { .sa_sigaction = skip_insn, .sa_flags = SA_SIGINFO };
	const __u64 events[] = { self->loads, self->stores };
	__u64 counts[ARRAY_SIZE(faults)];
	unsigned int i, j;

	ASSERT_EQ(0, sigaction(SIGILL, &action, NULL));
	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		for (j = 0; j < ARRAY_SIZE(faults); j++) {
			insn_length = faults[j].length;
			counts[j] = count_from(self, 0, events[i] | USR, faults[j].rounds, 600) -
				    count_from(self, 0, events[i] | USR, faults[j].rounds, 100);
			EXPECT_LT(0ULL, counts[j]);
			EXPECT_EQ(counts[0], counts[j]) {
				TH_LOG("event %u, fault %u", i, j);
			}
		}
	}
	signal(SIGILL, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
}

/*
 * Overflows come at different instructions of a translated block. The counter keeps the count of
 * the accesses after an overflow.
 */
TEST_F(loads, overflow_at_each_access_wraps_and_sets_status)
{
	static void (* const rounds[])(unsigned long n) = {
		nothing, four_loads, call_and_return, string, copy, vector, locked,
	};
	const __u64 end = 1ULL << self->p.width;
	const __u64 events[] = { self->loads, self->stores };
	unsigned int i, j;
	__u64 from_zero, status, k;

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		for (j = 0; j < ARRAY_SIZE(rounds); j++) {
			from_zero = count_from(self, 0, events[i] | USR, rounds[j], 40);
			for (k = 1; k <= from_zero + 1 && k < 150; k++) {
				/* A narrow write sign-extends this value, which has the same effect. */
				EXPECT_EQ((from_zero - k) & (end - 1),
					  count_from(self, end - k, events[i] | USR, rounds[j], 40));
				if (!self->global_ctrl)
					continue;
				ASSERT_EQ(0, msr_read(0, self->global_status, &status));
				EXPECT_EQ((__u64)(k <= from_zero), status) {
					TH_LOG("event %u, case %u, %llu of %llu", i, j, k, from_zero);
				}
				ASSERT_EQ(0, msr_write(0, self->status_reset, status));
			}
		}
	}
}

DEFINE_ROUNDS(copy_often, "mov $100, %%ecx\n rep movsb")

/*
 * Returns the least number of ticks of the clock in 1000 rounds, since other tasks may run in
 * between.
 */
static __u64 least_ticks(void)
{
	__u64 least = ~0ULL, ticks;
	int i;

	for (i = 0; i < 20; i++) {
		ticks = __rdtsc();
		copy_often(1000);
		ticks = __rdtsc() - ticks;
		if (ticks < least)
			least = ticks;
	}
	return least;
}

/*
 * If the clock counts instructions (run --icount; the plan then sets $ICOUNT), counters do not
 * change the time.
 */
TEST_F(loads, counter_does_not_change_the_clock)
{
	const __u64 events[] = { self->loads, self->stores };
	__u64 without;
	unsigned int i;

	if (!getenv("ICOUNT"))
		return;
	without = least_ticks();
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		ASSERT_EQ(0, msr_write(0, self->value, 0));
		ASSERT_EQ(0, msr_write(0, self->control, events[i] | USR | PERFEVTSEL_EN));
		EXPECT_EQ(without, least_ticks());
		EXPECT_EQ(0, msr_write(0, self->control, 0));
	}
}

TEST_HARNESS_MAIN
