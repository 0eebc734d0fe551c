// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of other tasks, which move between CPUs, share a CPU or are threads: there is one sample
 * for each period in the count, at the right instruction.
 */
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

FIXTURE(event)
{
	struct target target[2];
	struct sampler sampler[2];
	int cpu;	/* the first CPU */
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"
#include "sample_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	self->sampler[0].fd = -1;
	self->sampler[1].fd = -1;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(event)
{
	int i;

	for (i = 0; i < 2; i++) {
		target_kill(&self->target[i]);
		sampler_close(&self->sampler[i]);
	}
	restore_maker(_metadata, variant);
}

/* Runs the job in the first @targets targets at the same time. */
static void run_jobs(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self, int targets,
		struct job job)
{
	int i;

	for (i = 0; i < targets; i++)
		ASSERT_EQ(0, target_start_job(&self->target[i], job));
	for (i = 0; i < targets; i++)
		ASSERT_EQ(0, target_wait_job(&self->target[i]));
}

/* Returns the instructions of a piece of this job: the loop and the step. */
static __s64 count_piece(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		      const struct event_maker *maker, int targets, struct job job)
{
	int fd = open_instructions(_metadata, maker, self->target[0].tid);
	__s64 one, three;

	ASSERT_EQ(0, event_enable(fd));
	job.pieces = 1;
	run_jobs(_metadata, self, targets, job);
	one = event_count(fd);
	job.pieces = 2;
	run_jobs(_metadata, self, targets, job);
	three = event_count(fd);
	close(fd);
	return three - 2 * one;
}

/* The expected positions of a job's samples, each a period after the previous one. */
struct expected_path {
	__u32 tid;
	__s64 loop, piece, job;	/* instructions of a loop, of a piece, of the job */
	__u64 period;
	__u64 samples, inside;	/* samples in the loop */
	__u64 around;		/* samples before the first piece or after the last */
	__s64 begin;		/* instructions before the first piece */
	unsigned long wrong;	/* samples of other tasks or at wrong places */
};

/*
 * In the loop, the register shows how many instructions of the piece have been executed. So the
 * first sample in the loop shows when the first piece began. The positions of all later samples
 * must follow from that.
 */
static void check_place(const struct sample *s, void *data)
{
	const __s64 late = env_number("SKID", 1);
	struct expected_path *p = data;
	__s64 total, position, deviation;

	p->wrong += s->tid != p->tid;
	total = ++p->samples * p->period;
	if (in_labelled_loop(s->ip)) {
		/* After DEC, half of the iteration is done. */
		position = p->loop - LOOP_INSNS * s->registers[0] -
			   (s->ip != (uintptr_t)labelled_loop_begin);
		if (!p->inside++)
			p->begin = (total - position) % p->piece;
		deviation = (total - position - p->begin) % p->piece;
		deviation = deviation < 0 ? -deviation : deviation;
		p->wrong += deviation > late && p->piece - deviation > late;
	} else if (!p->inside || total >= p->begin + p->job - late) {
		p->around++;
	} else {
		position = (total - p->begin) % p->piece;
		p->wrong += position > late && position + late < p->loop;
	}
}

static void sample_job(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		       const FIXTURE_VARIANT(event) *variant, int targets, __u64 period,
		       struct job job)
{
	struct perf_event_attr attr = event_every(period);
	__s64 piece = count_piece(_metadata, self, variant->maker, targets, job);
	int i;

	attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTER_CX;
	for (i = 0; i < targets; i++) {
		open_sampler(_metadata, variant, &self->sampler[i], attr, self->target[i].tid);
		ASSERT_EQ(0, event_enable(self->sampler[i].fd));
	}
	run_jobs(_metadata, self, targets, job);
	for (i = 0; i < targets; i++) {
		struct sampler *s = &self->sampler[i];
		struct expected_path p = {
			.tid = self->target[i].tid,
			.loop = LOOP_INSNS * job.n,
			.piece = piece,
			.job = job.pieces * piece,
			.period = period,
		};

		ASSERT_EQ(0, event_disable(s->fd));
		expect_samples(_metadata, variant, s, period, check_place, &p);
		EXPECT_LT(0ULL, p.inside);
		EXPECT_GE(3ULL, p.around);
		/*
		 * Checks places only if no samples can be lost: a lost sample would shift the path.
		 */
		if (samples_are_exact(variant) && env_number("SKID", 0) < period)
			EXPECT_EQ(0UL, p.wrong) {
				TH_LOG("%s: period %llu, piece %lld, %llu samples, %llu inside",
				       variant->maker->name, period, piece, p.samples, p.inside);
			}
		sampler_close(s);
	}
}

TEST_F(event, samples_follow_a_task_that_moves)
{
	static const struct {
		__u64 period;
		struct job job;
	} cases[] = {
		{ 97, { 1000, 100, STEP_MOVE } },
		{ 1009, { 1000, 300, STEP_MOVE } },
		{ 10007, { 1000, 300, STEP_MOVE } },
		{ 100003, { 10000, 300, STEP_MOVE } },
		{ 1000003, { 20000, 250, STEP_MOVE } },
	};
	unsigned int i;

	ASSERT_EQ(0, target_start(&self->target[0], -1, false));
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		sample_job(_metadata, self, variant, 1, cases[i].period, cases[i].job);
}

TEST_F(event, tasks_that_share_a_cpu_have_their_own_samples)
{
	ASSERT_EQ(0, target_start_ring(self->target, 2, self->cpu));
	sample_job(_metadata, self, variant, 2, 1009, (struct job) { 1000, 50, STEP_PASS });
}

TEST_F(event, thread_has_samples)
{
	ASSERT_EQ(0, target_start(&self->target[0], -1, true));
	sample_job(_metadata, self, variant, 1, 10007, (struct job) { 1000000, 1, STEP_NONE });
}

TEST_HARNESS_MAIN
