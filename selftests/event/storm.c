// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs make mappings as fast as they can, and the rings have one page. Each mapping has a
 * record or is counted as lost, the kernel's memory does not grow, and another event loses nothing.
 *
 * SECONDS in the environment sets the length.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "memory.h"
#include "options.h"
#include "samples.h"

#define MAX_CPUS	64

/* The programs for each CPU. */
#define PROGRAMS_PER_CPU	3

/* The other event. The loop ends in the middle of a period, so that no sample comes after it. */
#define PERIOD	10007UL
#define PERIODS	100UL
#define LOOPS	((2 * PERIODS + 1) * PERIOD / 2 / LOOP_INSNS)
#define ORDER	4

/* The memory that other parts of the system may take meanwhile. */
#define GROWTH_KB	2048

/* The data of a sample that show the progress of the loop, to find out when samples were lost. */
struct step {
	__u64 time, ip, rcx, period;
	__u32 cpu;
};

/* The samples of one execution of the loop. */
struct steps {
	struct step list[PERIODS];
	unsigned long count;
};

/* A program's number of mappings, in a cache line of its own. */
struct mapper {
	__u64 mappings;
	bool stop;
} __attribute__((aligned(64)));

FIXTURE(storm)
{
	struct sampler *storm;	/* samplers of the online CPUs */
	struct sampler other;
	struct mapper *mappers;	/* memory that is shared with the programs */
	cpu_set_t cpus;
	int programs;
};

FIXTURE_VARIANT(storm)
{
	bool inherited;	/* the programs inherit the events; otherwise the events are of CPUs */
};

FIXTURE_VARIANT_ADD(storm, cpus) { .inherited = false };
FIXTURE_VARIANT_ADD(storm, tasks) { .inherited = true };

FIXTURE_SETUP(storm)
{
	int i;

	SKIP_WITHOUT_PMU();
	self->other.fd = -1;
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->programs = PROGRAMS_PER_CPU * CPU_COUNT(&self->cpus);
	self->storm = calloc(MAX_CPUS, sizeof(*self->storm));
	ASSERT_NE(NULL, self->storm);
	for (i = 0; i < MAX_CPUS; i++)
		self->storm[i].fd = -1;
	self->mappers = map_shared(_metadata, self->programs * sizeof(*self->mappers));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(storm)
{
	int i;

	for (i = 0; i < MAX_CPUS; i++)
		sampler_close(&self->storm[i]);
	sampler_close(&self->other);
	free(self->storm);
}

/* Maps a page of executable memory, for which there is one record. */
static void map_once(void)
{
	void *at = mmap(NULL, getpagesize(), PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || munmap(at, getpagesize()))
		_exit(1);
}

static void open_storm(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self,
		       bool inherited)
{
	int cpu;

	for_each_cpu_in(cpu, &self->cpus) {
		struct perf_event_attr attr = event_dummy();

		ASSERT_GT(MAX_CPUS, cpu);
		attr.mmap2 = 1;
		attr.disabled = 0;
		attr.inherit = inherited;
		ASSERT_EQ(0, sampler_open(&self->storm[cpu], &event_maker_perfmon, &attr,
					  inherited ? 0 : -1, cpu, 0));
	}
}

/* Starts the programs, which map until the fixture stops them. */
static void start_programs(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	pid_t pid;
	int i;

	for (i = 0; i < self->programs; i++) {
		struct mapper *own = &self->mappers[i];

		pid = fork();
		ASSERT_LE(0, pid);
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!__atomic_load_n(&own->stop, __ATOMIC_RELAXED)) {
			map_once();
			__atomic_store_n(&own->mappings, own->mappings + 1, __ATOMIC_RELAXED);
		}
		_exit(0);
	}
	for (i = 0; i < self->programs; i++)
		while (!__atomic_load_n(&self->mappers[i].mappings, __ATOMIC_RELAXED)) {
			ASSERT_EQ(0, waitpid(-1, NULL, WNOHANG));
			usleep(1000);
		}
}

/* Stops the programs. Returns how often they have mapped. */
static unsigned long stop_programs(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	unsigned long mappings = 0;
	int i, status;

	for (i = 0; i < self->programs; i++)
		__atomic_store_n(&self->mappers[i].stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < self->programs; i++) {
		ASSERT_LT(0, wait(&status));
		EXPECT_EQ(0, status);
	}
	for (i = 0; i < self->programs; i++)
		mappings += self->mappers[i].mappings;
	return mappings;
}

/* Adds the records of the CPUs' rings. */
static void read_storm(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self,
		       unsigned long *seen, unsigned long *lost)
{
	int cpu;

	for_each_cpu_in(cpu, &self->cpus) {
		struct sampler *s = &self->storm[cpu];

		while (event_ring_next(&s->ring, &s->record)) {
			if (s->record.header.type == PERF_RECORD_LOST) {
				*lost += s->record.words[1];
				continue;
			}
			EXPECT_EQ((__u32)PERF_RECORD_MMAP2, s->record.header.type);
			EXPECT_EQ((__u64)getpagesize(), s->record.words[2]);
			++*seen;
		}
	}
}

/*
 * Waits until the kernel uses as much memory as before, except for the growth of the rest of the
 * system. Unmapped memory is freed after grace periods of RCU, which are long on a busy host.
 */
static bool memory_comes_back(long vmalloc, long slab)
{
	int i;

	for (i = 0; i < 600; i++) {
		if (memory_kb("VmallocUsed") < vmalloc + GROWTH_KB &&
		    memory_slab_kb() < slab + GROWTH_KB)
			return true;
		usleep(100000);
	}
	return false;
}

static void add_step(const struct sample *sample, void *data)
{
	struct steps *steps = data;

	if (steps->count < PERIODS)
		steps->list[steps->count++] = (struct step) {
			.time = sample->time,
			.ip = sample->ip,
			.rcx = sample->abi ? sample->registers[0] : 0,
			.period = sample->period,
			.cpu = sample->cpu,
		};
}

/*
 * Prints the samples before and after each gap of more than a period. RCX, the number of rounds
 * that are left, shows when the sample after the gap was taken: at the end of a period, or at some
 * other time.
 */
static void print_gaps(struct __test_metadata *_metadata, const struct steps *steps)
{
	unsigned long i;

	for (i = 0; i < steps->count; i++) {
		const struct step *s = &steps->list[i], *last = i ? s - 1 : s;

		if (i && (last->rcx - s->rcx) * LOOP_INSNS < 2 * PERIOD && i + 1 < steps->count)
			continue;
		TH_LOG("sample %lu: time %llu, %llu ns after the last one, CPU %u (%u), RCX %llu, %llu less, ip %#llx (loop %p), period %llu",
		       i, s->time, s->time - last->time, s->cpu, last->cpu, s->rcx,
		       last->rcx - s->rcx, s->ip, labelled_loop_begin, s->period);
	}
}

/* Samples the loop with the other event. Returns its count. */
static __s64 sample_loop(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct sampler *s = &self->other;
	struct steps steps = {};

	ASSERT_EQ(0, event_reset(s->fd));
	ASSERT_EQ(0, event_enable(s->fd));
	labelled_loop(LOOPS);
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, add_step, &steps);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(PERIODS, sums.samples) {
		print_gaps(_metadata, &steps);
	}
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_EQ(0UL, sums.throttled);
	EXPECT_EQ(0UL, sums.unthrottled);
	EXPECT_EQ(0UL, sums.others);
	return event_count(s->fd);
}

static void open_other(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTER_CX;
	ASSERT_EQ(0, sampler_open(&self->other, &event_maker_perfmon, &attr, 0, -1, ORDER));
}

TEST_F(storm, mappings_are_recorded_or_lost_and_others_are_undisturbed)
{
	unsigned long seen = 0, lost = 0, mappings;
	long vmalloc, slab;
	time_t end;
	__s64 count;
	int cpu;

	open_storm(_metadata, self, variant->inherited);
	start_programs(_metadata, self);
	vmalloc = memory_kb("VmallocUsed");
	slab = memory_slab_kb();
	open_other(_metadata, self);
	count = sample_loop(_metadata, self);
	EXPECT_LE((__s64)(LOOP_INSNS * LOOPS), count);
	end = time(NULL) + env_number("SECONDS", 3);
	do {
		/*
		 * Opens the event anew, since an event that stays open would continue its period.
		 */
		sampler_close(&self->other);
		open_other(_metadata, self);
		EXPECT_EQ(count, sample_loop(_metadata, self));
		read_storm(_metadata, self, &seen, &lost);
	} while (time(NULL) < end);
	mappings = stop_programs(_metadata, self);
	EXPECT_TRUE(memory_comes_back(vmalloc, slab)) {
		TH_LOG("before: %ld and %ld KB, now %ld and %ld", vmalloc, slab,
		       memory_kb("VmallocUsed"), memory_slab_kb());
	}
	read_storm(_metadata, self, &seen, &lost);
	/*
	 * Makes one more record on each CPU. Before it, a LOST record has the number that was lost
	 * at the end.
	 */
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		map_once();
		mappings++;
	}
	read_storm(_metadata, self, &seen, &lost);
	TH_LOG("%lu mappings: %lu recorded, %lu lost", mappings, seen, lost);
	EXPECT_EQ(mappings, seen + lost);
	EXPECT_LT(0UL, seen);
	EXPECT_LT(0UL, lost);
}

TEST_HARNESS_MAIN
