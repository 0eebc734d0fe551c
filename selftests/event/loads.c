// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts and samples of loads and stores of a program whose accesses are known. Samples are at the
 * predicted instructions, and precise samples of both makers have the addresses of their data.
 */
#include <cpuid.h>
#include <unistd.h>

#include "cpu.h"
#include "fixture.h"
#include "samples.h"
#include "target.h"

#define N		10000UL
#define SAMPLES		200UL

FIXTURE(event)
{
	struct sampler sampler, other;
	struct target target;
	cpu_set_t cpus;		/* CPUs before the test was pinned */
	__u64 configs[3];	/* raw events of loads, of stores and of slow loads */
};

#include "event_fixture.h"
#include "sample_fixture.h"

FIXTURE_SETUP(event)
{
	unsigned int eax, ebx, ecx, edx;

	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	self->other.fd = -1;
	prepare_maker(_metadata, variant);
	ASSERT_TRUE(__get_cpuid(0, &eax, &ebx, &ecx, &edx));
	/* LsDispatch.LdDispatch and StoreDispatch, MEM_INST_RETIRED.ALL_LOADS and ALL_STORES */
	self->configs[0] = ebx == signature_AMD_ebx ? 0x0129 : 0x81d0;
	self->configs[1] = ebx == signature_AMD_ebx ? 0x0229 : 0x82d0;
	/* MEM_TRANS_RETIRED.LOAD_LATENCY */
	self->configs[2] = 0x01cd;
	ASSERT_EQ(0, cpus_online(&self->cpus));
	ASSERT_EQ(0, pin_to_cpu(cpu_first()));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	sampler_close(&self->other);
	target_kill(&self->target);
	restore_maker(_metadata, variant);
}

extern const char access_0[], access_1[], access_2[], access_3[], access_4[], access_5[], access_6[],
		  access_7[], access_8[], access_end[];

/*
 * Executes @n rounds of the instructions from access_0 to access_end. Some of them load, and some
 * store. Each instruction has a label. The stack below RSP is not changed, because the compiler may
 * use it.
 */
__attribute__((noinline, noclone)) static void access_memory(__u64 *area, unsigned long n)
{
	__asm__ volatile("		lea	-256(%%rsp), %%rsp\n"
			 "access_0:	mov	(%[area]), %%rax\n"
			 "access_1:	mov	%%rax, 8(%[area])\n"
			 "access_2:	lea	1(%%rax), %%rcx\n"
			 "access_3:	add	16(%[area]), %%rcx\n"
			 "access_4:	lock incq 24(%[area])\n"
			 "access_5:	push	%%rcx\n"
			 "access_6:	dec	%[n]\n"
			 "access_7:	pop	%%rcx\n"
			 "access_8:	jnz	access_0\n"
			 "access_end:	lea	256(%%rsp), %%rsp\n"
			 : [n] "+r" (n) : [area] "r" (area) : "rax", "rcx", "cc", "memory");
}

static __u64 area[4];

/* An instruction that accesses memory, the instruction after it, and the word of the area; -1: the stack. */
struct access {
	const char *insn, *next;
	int word;
};

#define LOADS	4	/* in each round */
#define STORES	3

static const struct access loads[LOADS] = {
	{ access_0, access_1, 0 }, { access_3, access_4, 2 }, { access_4, access_5, 3 }, { access_7, access_8, -1 },
};

static const struct access stores[STORES] = {
	{ access_1, access_2, 1 }, { access_4, access_5, 3 }, { access_5, access_6, -1 },
};

static const struct {
	const struct access *accesses;
	unsigned int n;
} kinds[] = { { loads, LOADS }, { stores, STORES }, { loads, LOADS } };

/*
 * Kinds of accesses. In the virtual PMU all loads are slow loads. The event of slow loads counts
 * only with precise samples.
 */
enum { KIND_LOADS, KIND_STORES, KIND_SLOW_LOADS };

#define COUNTED_KINDS	KIND_SLOW_LOADS
#define THRESHOLD	3

static struct perf_event_attr event_of(const FIXTURE_DATA(event) *self, unsigned int kind, __u64 period)
{
	struct perf_event_attr attr = event_every(period);

	attr.type = PERF_TYPE_RAW;
	attr.config = self->configs[kind];
	attr.config1 = kind == KIND_SLOW_LOADS ? THRESHOLD : 0;
	return attr;
}

TEST_F(event, each_load_and_store_is_counted)
{
	__s64 least, count;
	unsigned int i;

	for (i = 0; i < COUNTED_KINDS; i++) {
		struct perf_event_attr attr = event_of(self, i, 0);
		int fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, event_enable(fd));
		access_memory(area, 1);
		ASSERT_EQ(0, event_disable(fd));
		least = event_count(fd);
		ASSERT_EQ(0, event_reset(fd));
		ASSERT_EQ(0, event_enable(fd));
		access_memory(area, N + 1);
		ASSERT_EQ(0, event_disable(fd));
		count = event_count(fd);
		EXPECT_EQ((__s64)(kinds[i].n * N), count - least);
		close(fd);
	}
}

/* The kernel's PERF_MEM_NA: nothing is known of the access. */
#define NOT_KNOWN	(PERF_MEM_S(OP, NA) | PERF_MEM_S(LVL, NA) | PERF_MEM_S(SNOOP, NA) | PERF_MEM_S(LOCK, NA) | \
			 PERF_MEM_S(TLB, NA) | PERF_MEM_S(LVLNUM, NA))

struct places {
	unsigned int kind;
	__u64 period;
	bool precise;
	int last;			/* the access of the last sample; -1: none yet */
	unsigned long inside;
	unsigned long displaced;	/* samples that are not at the access that the period predicts */
	unsigned long elsewhere;	/* samples in the loop, but not at an access */
	unsigned long wrong;		/* samples with another address of data, or another source */
};

static void check_data(const struct sample *s, const struct access *access, struct places *p)
{
	union perf_mem_data_src source = { .val = s->data_src };
	const __u64 here = (uintptr_t)__builtin_frame_address(0);

	if (access->word >= 0)
		p->wrong += s->addr != (uintptr_t)&area[access->word];
	else
		/* The stack of the loop is near the stack of this function. */
		p->wrong += s->addr + 0x10000 < here || s->addr > here + 0x10000;
	p->wrong += source.mem_op != (p->kind == KIND_STORES ? PERF_MEM_OP_STORE : PERF_MEM_OP_LOAD);
	/* Samples of all loads don't tell where the data came from. */
	if (p->kind != KIND_LOADS)
		p->wrong += source.mem_lvl != (PERF_MEM_LVL_L1 | PERF_MEM_LVL_HIT);
	if (p->kind == KIND_SLOW_LOADS)
		p->wrong += source.mem_dtlb != (PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1 | PERF_MEM_TLB_L2);
	/* The virtual PMU has no latencies. */
	p->wrong += s->weight != 0;
}

static void check_place(const struct sample *s, void *data)
{
	struct places *p = data;
	const int n = kinds[p->kind].n;
	int i;

	if (s->ip < (uintptr_t)access_0 || s->ip >= (uintptr_t)access_end)
		return;
	p->inside++;
	for (i = 0; i < n; i++) {
		const struct access *access = &kinds[p->kind].accesses[i];

		if (s->ip != (uintptr_t)(p->precise ? access->insn : access->next))
			continue;
		p->displaced += p->last >= 0 && i != (int)((p->last + p->period) % n);
		p->last = i;
		if (p->precise)
			check_data(s, access, p);
		else
			p->wrong += s->addr || s->weight || s->data_src != NOT_KNOWN;
		return;
	}
	p->elsewhere++;
}

/* Samples the loop with each period. @parts are further parts of the samples. */
static void sample_accesses(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			    const FIXTURE_VARIANT(event) *variant, unsigned int kind, bool precise, __u64 parts)
{
	__u64 period;

	for (period = 2; period <= 101; period += period < 20 ? 1 : 9) {
		struct perf_event_attr attr = event_of(self, kind, period);
		struct places p = { .kind = kind, .period = period, .precise = precise, .last = -1 };
		struct sample_sums sums = SAMPLE_SUMS_INIT;
		unsigned long switches = thread_switches();

		attr.precise_ip = precise ? 2 : 0;
		attr.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC | parts;
		open_sampler(_metadata, variant, &self->sampler, attr, 0);
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		access_memory(area, SAMPLES * period / kinds[kind].n);
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		switches = thread_switches() - switches;
		sampler_read(&self->sampler, &sums, check_place, &p);
		sampler_close(&self->sampler);
		EXPECT_LE(SAMPLES - 2, p.inside);
		/* After a switch, a sample may be one access late, and the next one in time again. */
		EXPECT_GE(4 + 2 * switches, p.displaced);
		EXPECT_EQ(0UL, p.elsewhere);
		EXPECT_EQ(0UL, p.wrong);
		EXPECT_EQ(0UL, sums.lost);
		EXPECT_FALSE(sums.malformed) {
			TH_LOG("kind %u, period %llu: %lu samples, %lu displaced, %lu elsewhere, %lu wrong", kind, period,
			       p.inside, p.displaced, p.elsewhere, p.wrong);
		}
	}
}

TEST_F(event, samples_are_at_the_predicted_instructions)
{
	unsigned int i;

	for (i = 0; i < COUNTED_KINDS; i++)
		sample_accesses(_metadata, self, variant, i, false, PERF_SAMPLE_WEIGHT);
}

/* Returns whether the processor takes precise samples. */
static bool has_precise_samples(const FIXTURE_DATA(event) *self, const FIXTURE_VARIANT(event) *variant)
{
	struct perf_event_attr attr = event_of(self, KIND_LOADS, 100);
	int fd;

	attr.precise_ip = 2;
	fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	close(fd);
	return fd >= 0;
}

TEST_F(event, precise_samples_have_the_address_of_the_data)
{
	unsigned int i;

	if (!has_precise_samples(self, variant))
		return;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sample_accesses(_metadata, self, variant, i, true, PERF_SAMPLE_WEIGHT);
}

/* In the module, each sample with a call chain has an interrupt of its own. */
TEST_F(event, precise_samples_with_callers_have_the_address_of_the_data)
{
	unsigned int i;

	if (!has_precise_samples(self, variant))
		return;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sample_accesses(_metadata, self, variant, i, true, PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_CALLCHAIN);
}

static void check_instruction(const struct sample *s, void *data)
{
	struct places *p = data;

	p->inside += s->ip >= (uintptr_t)access_0 && s->ip < (uintptr_t)access_end;
	p->elsewhere += !(s->misc & PERF_RECORD_MISC_EXACT_IP) || s->ip >> 47;
}

/*
 * Slow loads can't be counted without precise samples. The samples need not have the address, and
 * other events can count at the same time.
 */
TEST_F(event, slow_loads_need_precise_samples)
{
	struct perf_event_attr attr = event_of(self, KIND_SLOW_LOADS, 0), slow = event_of(self, KIND_SLOW_LOADS, 101);
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	if (!has_precise_samples(self, variant))
		return;
	/* perf does not refuse the event, but the event counts nothing. */
	if (variant->maker != &event_maker_perf)
		EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
	slow.precise_ip = 1;
	open_sampler(_metadata, variant, &self->sampler, slow, 0);
	open_sampler(_metadata, variant, &self->other, event_of(self, KIND_STORES, 1000003), 0);
	ASSERT_EQ(0, event_enable(self->other.fd));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	access_memory(area, N);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	ASSERT_EQ(0, event_disable(self->other.fd));
	sampler_read(&self->sampler, &sums, NULL, NULL);
	EXPECT_LE(LOADS * N / 101, sums.samples);
	EXPECT_GE(LOADS * N / 101 + 10, sums.samples);
	EXPECT_LE(STORES * N, (__u64)event_count(self->other.fd));
	EXPECT_EQ(0UL, sums.lost);
}

/*
 * The records in the processor's buffer become longer when an event needs the access to memory, and
 * shorter when that event is closed.
 */
TEST_F(event, events_without_access_stay_whole_beside_events_with_it)
{
	struct perf_event_attr attr = event_every(101), other = event_of(self, KIND_LOADS, 7);
	struct places p = { .kind = KIND_LOADS }, q = { .kind = KIND_LOADS, .period = 7, .precise = true, .last = -1 };
	struct sample_sums sums = SAMPLE_SUMS_INIT, other_sums = SAMPLE_SUMS_INIT;
	const unsigned long insns = 9, rounds = 20, n = 1009;
	unsigned int i;

	if (!has_precise_samples(self, variant))
		return;
	attr.precise_ip = 2;
	other.precise_ip = 2;
	other.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;
	open_sampler(_metadata, variant, &self->sampler, attr, 0);
	for (i = 0; i < rounds; i++) {
		q.last = -1;
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		access_memory(area, n);
		open_sampler(_metadata, variant, &self->other, other, 0);
		ASSERT_EQ(0, event_enable(self->other.fd));
		access_memory(area, n);
		ASSERT_EQ(0, event_disable(self->other.fd));
		access_memory(area, n);
		/*
		 * The event is disabled, because its samples of the reader would keep the reader
		 * busy for ever.
		 */
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		sampler_read(&self->other, &other_sums, check_place, &q);
		sampler_close(&self->other);
		sampler_read(&self->sampler, &sums, check_instruction, &p);
	}
	EXPECT_LE(rounds * (LOADS * n / 7 - 2), q.inside);
	EXPECT_EQ(0UL, q.wrong + q.elsewhere);
	EXPECT_LE(rounds * (3 * insns * n / 101 - 2), p.inside);
	EXPECT_EQ(0UL, p.elsewhere);
	EXPECT_EQ(0UL, sums.lost + other_sums.lost);
	EXPECT_FALSE(sums.malformed || other_sums.malformed) {
		TH_LOG("%lu and %lu samples", p.inside, q.inside);
	}
}

#define CHANGES	20	/* the least number of changes of the layout */

/*
 * The records of an event of a CPU are in the buffer when records become longer for an event of a
 * task.
 */
TEST_F(event, records_in_the_buffer_are_kept_when_records_become_longer)
{
	const __u64 period = 1009;
	const struct job job = { .n = 1000000, .pieces = 10 };
	struct perf_event_attr attr = event_every(period), other = event_of(self, KIND_LOADS, 1000003);
	const int cpu = cpu_first(), next = cpu_next(&self->cpus, cpu);
	struct target *t = &self->target;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 changes = 0;
	__s64 count;

	if (!has_precise_samples(self, variant))
		return;
	attr.precise_ip = 2;
	other.precise_ip = 2;
	other.sample_type |= PERF_SAMPLE_ADDR;
	ASSERT_EQ(0, target_start(t, cpu, false));
	/* Moves this task away, if there is another CPU, so that the target goes on meanwhile. */
	if (next >= 0)
		ASSERT_EQ(0, pin_to_cpu(next));
	open_sampler(_metadata, variant, &self->other, other, t->tid);
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, -1, cpu, 9));
	do {
		ASSERT_EQ(0, target_start_job(t, job));
		while (!target_is_done(t)) {
			/* The event of the CPU begins with short records, since no other event is there. */
			ASSERT_EQ(0, event_enable(self->sampler.fd));
			ASSERT_EQ(0, event_enable(self->other.fd));
			ASSERT_EQ(0, event_disable(self->other.fd));
			ASSERT_EQ(0, event_disable(self->sampler.fd));
			sampler_read(&self->sampler, &sums, NULL, NULL);
			changes++;
		}
		ASSERT_EQ(0, target_wait_job(t));
	} while (changes < CHANGES);
	count = event_count(self->sampler.fd);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_FALSE(sums.malformed);
	/* A sample is due after each period. */
	EXPECT_LE(count / (__s64)period - (__s64)sums.samples, 1);
	EXPECT_LE((__s64)sums.samples, count / (__s64)period) {
		TH_LOG("%lu samples of %lld events, %llu changes", sums.samples, count, changes);
	}
}

TEST_HARNESS_MAIN
