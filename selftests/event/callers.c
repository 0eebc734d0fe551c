// SPDX-License-Identifier: GPL-2.0-only
/*
 * Call chains of known functions, and of the kernel that they call. Compiled with frame
 * pointers, also for 32 bits.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "kallsyms.h"
#include "loop.h"
#include "options.h"
#include "samples.h"

#define PERIOD	10007UL
#define N	100000UL
#define ORDER	8

/* True for addresses that no program can have. */
#define KERNEL(address) ((address) >> 47 != 0)

#include "sampler_fixture.h"

/* Functions in a section whose begin and end the linker defines as symbols. */
#define RECURSION_FUNCTION __attribute__((section("recursion"), noinline, noclone))
extern const char __start_recursion[], __stop_recursion[];

static bool in_recursion(__u64 address)
{
	return address >= (uintptr_t)__start_recursion && address < (uintptr_t)__stop_recursion;
}

#ifdef __x86_64__
#define CALL		"syscall"
#define CLOBBERED	"rcx", "r11",
#else
#define CALL		"int	$0x80"
#define CLOBBERED
#endif

/* Executes a loop, or system calls, after @depth nested calls. */
static RECURSION_FUNCTION void recurse(int depth, unsigned long n, bool calls)
{
	long result;

	if (depth) {
		recurse(depth - 1, n, calls);
	} else if (!calls) {
		__asm__ volatile("1:	dec	%0\n"
				 "	jnz	1b\n"
				 : "+r" (n) : : "cc");
	} else {
		while (n--)
			__asm__ volatile(CALL : "=a" (result)
					 : "a" (SYS_getppid) : CLOBBERED "memory");
	}
	/* Keeps the compiler from making a tail call. */
	__asm__ volatile("");
}

static struct perf_event_attr with_chains(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	return attr;
}

static void sample_recursion(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			     const struct event_maker *maker, struct perf_event_attr attr, int depth,
			     bool calls)
{
	struct sampler *s = &self->sampler;

	ASSERT_EQ(0, sampler_open(s, maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	recurse(depth, calls ? N / 20 : N, calls);
	ASSERT_EQ(0, event_disable(s->fd));
}

/* Returns the number of consecutive addresses from @at on that are in the recursion. */
static unsigned int count_recursion(const struct sample *s, unsigned int at)
{
	unsigned int n = 0;

	while (at + n < s->chain_length && in_recursion(s->chain[at + n]))
		n++;
	return n;
}

struct chain_findings {
	unsigned int depth, longest;	/* expected, without context marks */
	unsigned long chain_count, wrong;
};

static void check_recursion(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int all = s->chain_length - 1, expected = c->depth + 1;

	/* Ignores samples before and after the recursion. */
	if (!in_recursion(s->ip) || count_recursion(s, 2) < c->depth / 2)
		return;
	if (expected > c->longest)
		expected = c->longest;
	c->chain_count++;
	c->wrong += s->chain[0] != PERF_CONTEXT_USER || s->chain[1] != s->ip ||
		    count_recursion(s, 1) != expected || all > c->longest ||
		    (all == expected && expected < c->longest);
}

static void expect_chains(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  struct chain_findings *c)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	sampler_read(&self->sampler, &sums, check_recursion, c);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(event_count(self->sampler.fd) / PERIOD, sums.samples);
	EXPECT_LE(LOOP_INSNS * N / PERIOD - 2, c->chain_count);
	EXPECT_EQ(0UL, c->wrong);
	sampler_close(&self->sampler);
}

TEST_F(event, chain_has_each_caller)
{
	static const int depths[] = { 0, 1, 2, 12, 100 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		struct chain_findings c = { .depth = depths[i], .longest = 127 };

		sample_recursion(_metadata, self, variant->maker, with_chains(), depths[i], false);
		expect_chains(_metadata, self, &c);
	}
}

/* Context marks (PERF_CONTEXT_*) do not count towards the limit. */
TEST_F(event, chain_ends_at_sample_max_stack)
{
	static const int limits[] = { 1, 2, 10, 127, 0 };
	struct perf_event_attr attr = with_chains();
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		struct chain_findings c = { .depth = 200, .longest = limits[i] ? limits[i] : 127 };
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		attr.sample_max_stack = limits[i];
		sample_recursion(_metadata, self, variant->maker, attr, 200, false);
		if (limits[i] == 0 || limits[i] > 100) {
			expect_chains(_metadata, self, &c);
			continue;
		}
		/*
		 * The test can't recognize short chains, so it checks only the size of the last
		 * chain.
		 */
		sampler_read(&self->sampler, &sums, NULL, NULL);
		EXPECT_EQ((size_t)(6 + 2 + limits[i]) * 8, self->sampler.record.header.size);
		sampler_close(&self->sampler);
	}
	attr.sample_max_stack = 128;
	fd = variant->maker->open(&attr, 0, -1, -1, 0);
	EXPECT_EQ(-EOVERFLOW, fd);
	close(fd);
}

static void add_length(const struct sample *s, void *data)
{
	*(unsigned long *)data += s->chain_length;
}

TEST_F(event, excluded_chain_of_the_program_is_empty)
{
	struct perf_event_attr attr = with_chains();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long lengths = 0;

	attr.exclude_callchain_user = 1;
	sample_recursion(_metadata, self, variant->maker, attr, 10, false);
	sampler_read(&self->sampler, &sums, add_length, &lengths);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LT(10UL, sums.samples);
	if (samples_are_exact(variant))
		EXPECT_EQ(0UL, lengths);
}

/* The kernel's entry functions for system calls: the first of 64 bits, the others of 32 bits. */
static const char *const calls[] = { "do_syscall_64", "do_int80_emulation", "do_fast_syscall_32" };
#define CALLS ARRAY_SIZE(calls)

/*
 * Thunks: code that functions jump to in place of a return instruction, on processors that predict
 * returns wrongly. A function that jumps to a thunk is not its caller. A kernel has some of these
 * thunks, or none.
 */
static const char *const return_thunks[] = {
	"its_return_thunk", "call_depth_return_thunk", "retbleed_return_thunk",
	"srso_return_thunk", "srso_alias_return_thunk", "__x86_return_thunk",
};
#define RETURN_THUNKS ARRAY_SIZE(return_thunks)

/* The functions that chains of samples in the kernel contain, and numbers of such chains. */
struct kernel_chains {
	unsigned int depth;
	struct kernel_function text, entry, module, interrupts, calls[CALLS];
	struct kernel_function return_thunks[RETURN_THUNKS];
	unsigned long chain_count, kernel_marks, user_marks, wrong;
	/*
	 * Numbers of eligible samples, and of eligible samples whose chain continues in the
	 * program. A sample is eligible if it is outside of the kernel's entry code and of
	 * `return_thunks`, and so must have callers.
	 */
	unsigned long eligible, with_program;
	unsigned long outside_functions;		/* addresses outside of functions */
	/*
	 * Numbers of eligible samples whose chain has no caller, and of eligible samples whose
	 * chain has callers, but no entry function.
	 */
	unsigned long without_callers, without_entry;
};

/* Returns whether one of these @n functions has the address. */
static bool has_address(const struct kernel_function *functions, unsigned int n, __u64 address)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (kernel_function_has(&functions[i], address))
			return true;
	return false;
}

static bool in_kernel_text(const struct kernel_chains *c, __u64 address)
{
	return kernel_function_has(&c->text, address) || kernel_function_has(&c->module, address);
}

/* Returns whether the function is an entry of the kernel: of a system call or an interrupt. */
static bool is_entry(const struct kernel_chains *c, __u64 address)
{
	return has_address(c->calls, CALLS, address) || kernel_function_has(&c->interrupts, address);
}

static void check_kernel_chain(const struct sample *s, void *data)
{
	struct kernel_chains *c = data;
	bool is_eligible, in_kernel = false, has_entry = false;
	unsigned int i, in_chain = 0;

	if (!KERNEL(s->ip))
		return;
	c->chain_count++;
	is_eligible = !kernel_function_has(&c->entry, s->ip) &&
		    !has_address(c->return_thunks, RETURN_THUNKS, s->ip);
	c->eligible += is_eligible;
	c->outside_functions += !in_kernel_text(c, s->ip);
	for (i = 0; i < s->chain_length; i++) {
		if (s->chain[i] == PERF_CONTEXT_KERNEL) {
			c->kernel_marks++;
			c->wrong += i != 0 || s->chain[1] != s->ip;
			in_kernel = true;
		} else if (s->chain[i] == PERF_CONTEXT_USER) {
			c->user_marks++;
			c->with_program += is_eligible && count_recursion(s, i + 1) == c->depth + 1;
			in_kernel = false;
		} else {
			c->wrong += KERNEL(s->chain[i]) != in_kernel;
			c->outside_functions += in_kernel && !in_kernel_text(c, s->chain[i]);
			has_entry |= in_kernel && is_entry(c, s->chain[i]);
			in_chain += in_kernel;
		}
	}
	c->without_callers += is_eligible && in_chain == 1;
	c->without_entry += is_eligible && in_chain > 1 && !has_entry;
}

static struct kernel_chains kernel_chains(struct __test_metadata *_metadata,
					  FIXTURE_DATA(event) *self,
					  const struct event_maker *maker,
					  struct perf_event_attr attr)
{
	struct kernel_chains c = { .depth = 12 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned int i;

	ASSERT_EQ(0, find_kernel_text("_stext", "_etext", &c.text));
	ASSERT_EQ(0, find_kernel_text("__entry_text_start", "__entry_text_end", &c.entry));
	ASSERT_EQ(0, find_kernel_module("perfmon", &c.module));
	ASSERT_EQ(0, find_kernel_text("__irqentry_text_start", "__irqentry_text_end", &c.interrupts));
	for (i = 0; i < CALLS; i++)
		ASSERT_EQ(0, find_kernel_function(calls[i], &c.calls[i]));
	for (i = 0; i < RETURN_THUNKS; i++)
		if (find_kernel_function(return_thunks[i], &c.return_thunks[i]))
			c.return_thunks[i] = (struct kernel_function){};
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	sample_recursion(_metadata, self, maker, attr, c.depth, true);
	sampler_read(&self->sampler, &sums, check_kernel_chain, &c);
	sampler_close(&self->sampler);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(20UL, c.eligible);
	EXPECT_EQ(0UL, c.wrong);
	EXPECT_EQ(0UL, c.outside_functions);
	TH_LOG("%s: %lu samples, %lu inside, of these %lu alone, %lu without an entry",
	       maker->name, c.chain_count, c.eligible, c.without_callers, c.without_entry);
	return c;
}

TEST_F(event, chain_of_the_kernel_is_above_that_of_the_program)
{
	struct kernel_chains c = kernel_chains(_metadata, self, variant->maker, with_chains());

	EXPECT_EQ(c.chain_count, c.kernel_marks);
	EXPECT_EQ(0UL, c.without_entry);
	/*
	 * At least 4 of 5 eligible samples must have the whole chain of the program. The other
	 * samples are in system calls before and after the recursion, or in context switches, whose
	 * chains lack the program. (The first instructions of a system call are not eligible.)
	 */
	EXPECT_LE(c.eligible * 4 / 5, c.with_program);
}

TEST_F(event, excluded_chain_of_the_kernel_is_not_there)
{
	struct perf_event_attr attr = with_chains();
	struct kernel_chains c;

	attr.exclude_callchain_kernel = 1;
	c = kernel_chains(_metadata, self, variant->maker, attr);
	EXPECT_EQ(0UL, c.kernel_marks);
	EXPECT_LE(c.eligible * 4 / 5, c.with_program);
	attr.exclude_callchain_kernel = 0;
	attr.exclude_callchain_user = 1;
	c = kernel_chains(_metadata, self, variant->maker, attr);
	EXPECT_EQ(c.chain_count, c.kernel_marks);
	EXPECT_EQ(0UL, c.without_entry);
	EXPECT_EQ(0UL, c.user_marks);
}

/* Counts samples in the kernel, where a late PMI may come: run with --cpu intel,pmu-skid=100. */
static void count_kernel_addresses(const struct sample *s, void *data)
{
	unsigned long *wrong = data;
	unsigned int i;

	*wrong += KERNEL(s->ip);
	for (i = 0; i < s->chain_length; i++)
		*wrong += KERNEL(s->chain[i]) && s->chain[i] != PERF_CONTEXT_USER;
	for (i = 0; s->abi && i < 2; i++)
		*wrong += KERNEL(s->registers[i]);
}

/* perf's samples have the address at which the PMI came, so only the module is tested. */
TEST_F(event, event_of_the_program_shows_nothing_of_the_kernel)
{
	struct perf_event_attr attr = with_chains();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long wrong = 0;

	attr.sample_period = 97;
	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = 1 << 7 | 1 << 8;	/* RSP, RIP */
	sample_recursion(_metadata, self, variant->maker, attr, 1, true);
	sampler_read(&self->sampler, &sums, count_kernel_addresses, &wrong);
	EXPECT_LT(100UL, sums.samples);
	EXPECT_FALSE(sums.malformed);
	if (variant->maker == &event_maker_perfmon)
		EXPECT_EQ(0UL, wrong);
}

TEST_HARNESS_MAIN
