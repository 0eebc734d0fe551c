// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples with the program's registers and its stack (PERF_SAMPLE_STACK_USER), for
 * readers that unwind by DWARF.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "samples.h"

#define PERIOD		100003UL
#define PERIODS		20
#define REGISTER_SP	(1ULL << 7)

/* The longest record: shorter than 2^16 bytes. */
#define MAX_RECORD		65528

FIXTURE(event)
{
	struct sampler sampler;
	unsigned char *stack;	/* PAGES pages, followed by unmapped memory */
	size_t size, page;
};

#define PAGES		40

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
	self->page = sysconf(_SC_PAGESIZE);
	self->size = PAGES * self->page;
	self->stack = mmap(NULL, self->size + self->page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->stack);
	ASSERT_EQ(0, munmap(self->stack + self->size, self->page));
}

FIXTURE_TEARDOWN(event)
{
	munmap(self->stack, self->size);
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

/* Executes labelled_loop() with stack pointer @sp. */
static __attribute__((noinline)) void loop_at(unsigned long n, void *sp)
{
	__asm__ volatile("	mov	%%rsp, %%rbx\n"
			 "	mov	%[sp], %%rsp\n"
			 "1:	dec	%[n]\n"
			 "	jnz	1b\n"
			 "	mov	%%rbx, %%rsp"
			 : [n] "+r" (n) : [sp] "r" (sp) : "rbx", "cc", "memory");
}

/* Expected and found contents of samples with this stack pointer. */
struct stack_findings {
	const unsigned char *sp;
	size_t size, readable;	/* expected bytes of stack in the record, and how many of them are valid */
	unsigned long samples, wrong;
};

static void check_sample(const struct sample *s, void *data)
{
	struct stack_findings *t = data;

	if (s->user_abi != PERF_SAMPLE_REGS_ABI_64 ||
	    s->user_registers[0] != (uintptr_t)t->sp)
		return;
	t->samples++;
	t->wrong += s->stack_size != t->size || s->stack_read != t->readable ||
		    memcmp(s->stack, t->sp, t->readable);
}

/* Takes samples with @wanted bytes of stack. Expects the contents of @check. */
static void expect_stack(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			 const struct event_maker *maker, __u32 wanted, struct stack_findings check)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
			    PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_user = REGISTER_SP;
	attr.sample_regs_intr = REGISTER_SP | REGISTER_CX;
	attr.sample_stack_user = wanted;
	ASSERT_EQ(0, sampler_open(&self->sampler, maker, &attr, 0, -1, 9));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	loop_at(PERIODS * PERIOD / 2, (void *)check.sp);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &sums, check_sample, &check);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_LE(PERIODS - 1UL, check.samples);
	EXPECT_EQ(0UL, check.wrong) {
		TH_LOG("%u bytes wanted, %zu readable, %zu there", wanted, check.readable,
		       check.size);
	}
	sampler_close(&self->sampler);
}

TEST_F(event, samples_have_the_stack)
{
	static const __u32 sizes[] = { 8, 256, 264, 8192, 32768 };
	struct stack_findings check = { .sp = self->stack + self->page / 2 };
	unsigned int i;
	size_t n;

	for (n = 0; n < self->size; n++)
		self->stack[n] = n * 7 + n / self->page;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		check.size = check.readable = sizes[i];
		expect_stack(_metadata, self, variant->maker, sizes[i], check);
	}
}

/*
 * The stack gets all the room that is left in the record, and the other parts of the record are
 * right.
 */
TEST_F(event, longest_stack_fills_the_record)
{
	/* Header, ip, tid, time, cpu, period; two sizes; ABI and a register, twice. */
	const size_t rest = 6 * 8 + 2 * 8 + 2 * 8 + 3 * 8;
	struct stack_findings check = { .sp = self->stack, .size = MAX_RECORD - rest };

	if (variant->maker->has_wrong_stack_sizes)
		return;
	memset(self->stack, 0x5a, self->size);
	check.readable = check.size;
	expect_stack(_metadata, self, variant->maker, MAX_RECORD, check);
}

/*
 * At the end of the mapping the stack is cut, and dyn_size is the number of bytes before the cut.
 */
TEST_F(event, stack_is_cut_at_the_end_of_its_mapping)
{
	static const size_t left[] = { 8, 256, 1000, 4096, 8184 };
	struct stack_findings check = { .size = 8192 };
	unsigned int i;

	memset(self->stack, 0x5a, self->size);
	for (i = 0; i < ARRAY_SIZE(left); i++) {
		check.sp = self->stack + self->size - left[i];
		check.readable = left[i];
		expect_stack(_metadata, self, variant->maker, 8192, check);
	}
}

/* A stack pointer that is not a user address, and a pointer to unmapped memory. */
TEST_F(event, invalid_stack_is_empty)
{
	struct stack_findings check = { .sp = self->stack + self->size + 64, .size = 1024 };

	expect_stack(_metadata, self, variant->maker, 1024, check);
	if (variant->maker->has_wrong_stack_sizes)
		return;
	check.sp = (void *)0xffffffff80000000ULL;
	check.size = 0;
	expect_stack(_metadata, self, variant->maker, 1024, check);
}

/* Pages that are not resident can't be read in an NMI, and are not faulted in. */
TEST_F(event, stack_is_cut_at_a_page_that_is_not_resident)
{
	struct stack_findings check = { .sp = self->stack + 2 * self->page - 64, .size = 4096,
			     .readable = 64 };
	unsigned char resident;

	memset(self->stack, 0x5a, 2 * self->page);
	expect_stack(_metadata, self, variant->maker, 4096, check);
	ASSERT_EQ(0, mincore(self->stack + 2 * self->page, self->page, &resident));
	EXPECT_EQ(0, resident & 1);
}

TEST_HARNESS_MAIN
