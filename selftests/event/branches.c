// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples with branch records (PERF_SAMPLE_BRANCH_STACK): the branches of a known piece of
 * code, of the requested types and privilege levels, and of the sampled task alone.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branch_records.h"
#include "branches.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "samples.h"
#include "trace_fixture.h"

#define ROUNDS	20000UL
#define PERIOD	1009UL

FIXTURE(event)
{
	struct sampler sampler, other;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	self->other.fd = -1;
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, pin_to_first_cpu());
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	sampler_close(&self->other);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr with_branches(__u64 branch_type)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = branch_type;
	return attr;
}

/* The branches of a round of run_branches(), and any other branch. */
enum round_branch { RETURN, CALL, JUMP, ELSEWHERE };

static enum round_branch branch_place(const struct branch_addresses *s,
				     const struct perf_branch_entry *b)
{
	if (b->from == s->ret && b->to == s->next)
		return RETURN;
	if (b->from == s->call && b->to == s->target)
		return CALL;
	return b->from == s->jump && b->to == s->call ? JUMP : ELSEWHERE;
}

/* Branch types of enum round_branch. */
static const unsigned int types[] = { PERF_BR_RET, PERF_BR_CALL, PERF_BR_COND, PERF_BR_UNKNOWN };

/*
 * The expected branches in samples of run_branches(), and the numbers of samples and branches that
 * were found.
 */
struct branch_findings {
	const struct branch_records *records;
	struct branch_addresses addresses;
	unsigned int expected[ELSEWHERE];	/* the expected branches, repeated, the newest first */
	unsigned int expected_count;
	/* Numbers of samples, of samples with fewer branches than records, and of errors. */
	unsigned long samples, incomplete, wrong;
	/*
	 * Numbers of branches, and of branches with flags, with speculation, and with the right
	 * type.
	 */
	unsigned long branches, flags, spec, types;
	__u64 index;			/* the bits that any index has */
};

static bool is_within(const struct branch_addresses *s, __u64 ip)
{
	return ip == s->call || ip == s->target || ip == s->ret || ip == s->next || ip == s->jump;
}

static void check_sample(const struct sample *sample, void *data)
{
	struct branch_findings *t = data;
	unsigned int i, k;

	if (!is_within(&t->addresses, sample->ip))
		return;
	t->samples++;
	/* Allows one branch fewer, because a return from an interrupt may be among the branches. */
	t->incomplete += sample->branch_count < t->records->depth - 1;
	t->wrong += sample->branch_count > t->records->depth;
	t->index |= sample->branch_index;
	t->branches += sample->branch_count;
	for (i = 0; i < sample->branch_count; i++) {
		enum round_branch place = branch_place(&t->addresses, &sample->branches[i]);

		for (k = 0; k < t->expected_count && t->expected[k] != place; k++)
			;
		t->wrong += k == t->expected_count;
		t->flags += sample->branches[i].predicted && !sample->branches[i].mispred;
		/* The virtual PMU marks conditional branches as speculative. */
		t->spec += sample->branches[i].spec != PERF_BR_SPEC_NA;
		t->wrong += sample->branches[i].spec != PERF_BR_SPEC_NA &&
			    sample->branches[i].spec != (place == JUMP ? PERF_BR_SPEC_CORRECT_PATH :
						  PERF_BR_NON_SPEC_CORRECT_PATH);
		t->types += sample->branches[i].type == types[place];
		/* The three branches alternate. */
		if (i && t->expected_count == ELSEWHERE)
			t->wrong += place != (branch_place(&t->addresses,
						       &sample->branches[i - 1]) + 1) %
					     ELSEWHERE;
	}
}

/* Samples run_branches(). Expects only branches of @check->expected in the samples. */
static void sample_branches(struct __test_metadata *_metadata, struct sampler *s,
			    struct branch_findings *check)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	unsigned long switches = thread_switches();

	check->records = branch_records();
	ASSERT_EQ(0, event_enable(s->fd));
	run_branches(&check->addresses, ROUNDS);
	ASSERT_EQ(0, event_disable(s->fd));
	switches = thread_switches() - switches;
	sampler_read(s, &sums, check_sample, check);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
	EXPECT_LE(ROUND_INSNS * ROUNDS / PERIOD - 1, check->samples);
	EXPECT_EQ(0UL, check->wrong);
	/*
	 * A sample in the first rounds, or after a switch from another task, has fewer branches.
	 * The next sample has all of them, since a period has more branches than there are records.
	 */
	EXPECT_GE(3 + switches, check->incomplete);
}

static const struct branch_kind {
	const char *name;
	__u64 type;
	unsigned int expected[ELSEWHERE], expected_count;
} kinds[] = {
	{ "any", PERF_SAMPLE_BRANCH_ANY, { RETURN, CALL, JUMP }, 3 },
	{ "any, user", PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER,
	  { RETURN, CALL, JUMP }, 3 },
	{ "calls", PERF_SAMPLE_BRANCH_ANY_CALL, { CALL }, 1 },
	{ "direct calls", PERF_SAMPLE_BRANCH_CALL, { CALL }, 1 },
	{ "returns", PERF_SAMPLE_BRANCH_ANY_RETURN, { RETURN }, 1 },
	{ "conditional", PERF_SAMPLE_BRANCH_COND, { JUMP }, 1 },
	{ "calls and returns", PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_ANY_RETURN,
	  { RETURN, CALL }, 2 },
};

/*
 * Nehalem can record calls and returns only together with jumps. perf leaves the jumps out in
 * software, and does not support direct calls.
 */
#define NOT_ON_NEHALEM	(PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_CALL | \
			 PERF_SAMPLE_BRANCH_ANY_RETURN)

TEST_F(event, samples_have_the_branches_of_their_kind)
{
	const struct branch_kind *kind;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct branch_findings check = { .expected_count = kinds[i].expected_count };
		struct perf_event_attr attr;

		kind = &kinds[i];
		TH_LOG("%s: %s", variant->maker->name, kind->name);
		memcpy(check.expected, kind->expected, sizeof(check.expected));
		attr = with_branches(kind->type);
		if (getenv("NEHALEM") && kind->type & NOT_ON_NEHALEM) {
			if (variant->maker == &event_maker_perfmon)
				EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
			continue;
		}
		ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
		sample_branches(_metadata, &self->sampler, &check);
		EXPECT_NE(0UL, check.flags);
		EXPECT_EQ(branch_records()->spec, check.spec != 0);
		sampler_close(&self->sampler);
	}
}

/* Samples without branch flags, and with the index of the newest record (HW_INDEX). */
TEST_F(event, parts_of_a_branch)
{
	struct branch_findings check = { .expected = { RETURN, CALL, JUMP }, .expected_count = ELSEWHERE };
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY |
						    PERF_SAMPLE_BRANCH_NO_FLAGS |
						    PERF_SAMPLE_BRANCH_NO_CYCLES |
						    PERF_SAMPLE_BRANCH_HW_INDEX);

	/* On AMD, perf refuses samples without branch flags. */
	if (branch_records()->spec && variant->maker == &event_maker_perf) {
		EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
		return;
	}
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	sample_branches(_metadata, &self->sampler, &check);
	/* perf omits parts of a branch only if it would have to read them separately. */
	if (variant->maker != &event_maker_perf ||
	    (branch_records()->info && !branch_records()->types))
		EXPECT_EQ(0UL, check.flags);
	EXPECT_EQ(0UL, check.spec);
	/* The records of precise samples do not tell the index. */
	if (attr.precise_ip && check.index == ~0ULL)
		return;
	/* The index is 0 where register 0 always has the newest record. */
	EXPECT_EQ(branch_records()->newest != 0, check.index != 0);
	EXPECT_GT((__u64)branch_records()->depth, check.index);
}

/* Samples have the type of each branch, if the processor records types. */
TEST_F(event, types_of_branches)
{
	const bool is_perf = variant->maker == &event_maker_perf;
	struct branch_findings check = { .expected = { RETURN, CALL, JUMP }, .expected_count = ELSEWHERE };
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY |
						    PERF_SAMPLE_BRANCH_TYPE_SAVE);

	/* Where the processor does not record types, perf decodes the instructions. */
	if (!is_perf && !branch_records()->types) {
		EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
		return;
	}
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	sample_branches(_metadata, &self->sampler, &check);
	EXPECT_NE(0UL, check.flags);
	EXPECT_EQ(check.branches, check.types);
}

/* Addresses of a comparison, of the branch after it, and of the branch's target. */
struct fused_pair {
	__u64 compare, jump, top;
	unsigned long fused, alone, others;	/* branches at `compare`, at `jump`, elsewhere */
};

static __attribute_noinline__ void compare_and_jump(struct fused_pair *p, unsigned long n)
{
	unsigned long i = 0;

	__asm__ volatile("	lea	1f(%%rip), %[top]\n"
			 "	lea	2f(%%rip), %[compare]\n"
			 "	lea	3f(%%rip), %[jump]\n"
			 "1:	inc	%[i]\n"
			 "2:	cmp	%[n], %[i]\n"
			 "3:	jne	1b"
			 : [top] "=&r" (p->top), [compare] "=&r" (p->compare),
			   [jump] "=&r" (p->jump), [i] "+r" (i)
			 : [n] "r" (n) : "cc");
}

static void check_pair(const struct sample *sample, void *data)
{
	struct fused_pair *p = data;
	unsigned int i;

	for (i = 0; i < sample->branch_count; i++) {
		const struct perf_branch_entry *b = &sample->branches[i];

		if (b->to != p->top)
			continue;
		p->fused += b->from == p->compare;
		p->alone += b->from == p->jump;
		p->others += b->from != p->compare && b->from != p->jump;
	}
}

/*
 * AMD's processors fuse comparison and branch, unless an interrupt comes between them, and
 * record the address of the comparison. perf searches for the branch from that address on.
 */
TEST_F(event, fused_branch_has_its_own_address)
{
	const bool fuses = branch_records()->spec && variant->maker == &event_maker_perfmon;
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct fused_pair pair = { .fused = 0 };

	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	compare_and_jump(&pair, ROUNDS);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &sums, check_pair, &pair);
	EXPECT_EQ(0UL, pair.others);
	EXPECT_EQ(fuses, pair.fused != 0);
	if (fuses)
		EXPECT_LT(9 * pair.alone, pair.fused);
	EXPECT_LT(100UL, pair.fused + pair.alone);
}

/* Counts kernel addresses, which samples of an event of user mode must not have. */
static void count_kernel_addresses(const struct sample *sample, void *data)
{
	unsigned long *found = data;
	unsigned int i;

	for (i = 0; i < sample->branch_count; i++)
		*found += is_kernel_address(sample->branches[i].from) ||
			  is_kernel_address(sample->branches[i].to);
}

TEST_F(event, kernel_branches_are_only_shown_if_requested)
{
	int kernel, i;

	for (kernel = 0; kernel < 2; kernel++) {
		struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY);
		const bool is_refused = kernel && !branch_records()->can_freeze;
		struct sample_sums sums = SAMPLE_SUMS_INIT;
		unsigned long found = 0;
		struct branch_addresses addresses;

		attr.sample_period = 10007;
		attr.exclude_kernel = !kernel;
		/*
		 * Without freezing, only branches of the interrupt handler would be left in the
		 * records. The module refuses such an event; perf shows these branches.
		 */
		if (is_refused && variant->maker == &event_maker_perfmon) {
			EXPECT_EQ(-EOPNOTSUPP, variant->maker->open(&attr, 0, -1, -1, 0));
			break;
		}
		ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
		ASSERT_EQ(0, event_enable(self->sampler.fd));
		for (i = 0; i < 500; i++) {
			run_branches(&addresses, 100);
			getppid();
		}
		ASSERT_EQ(0, event_disable(self->sampler.fd));
		sampler_read(&self->sampler, &sums, count_kernel_addresses, &found);
		EXPECT_LT(10UL, sums.samples);
		EXPECT_EQ(kernel, found != 0);
		sampler_close(&self->sampler);
	}
}

/* Two tasks on one CPU. The samples of a task must not have branches of the other task. */
struct task_pair {
	struct branch_addresses addresses;
	unsigned long samples, foreign;
};

static void count_foreign(const struct sample *sample, void *data)
{
	struct task_pair *p = data;
	unsigned int i;

	p->samples++;
	for (i = 0; i < sample->branch_count; i++)
		p->foreign += branch_place(&p->addresses, &sample->branches[i]) != ELSEWHERE;
}

static void expect_own_branches(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				const struct event_maker *maker)
{
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct task_pair pair = { .samples = 0 };
	int i, status;
	pid_t pid;

	/* Notes the addresses of the other task's branches. */
	run_branches(&pair.addresses, 1);
	ASSERT_EQ(0, sampler_open(&self->sampler, maker, &attr, 0, -1, 7));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct branch_addresses addresses;

		for (;;) {
			run_branches(&addresses, 1000);
			sched_yield();
		}
	}
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	for (i = 0; i < 300; i++) {
		labelled_loop(PERIOD);
		sched_yield();
	}
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	sampler_read(&self->sampler, &sums, count_foreign, &pair);
	EXPECT_LE(600UL, pair.samples);
	EXPECT_EQ(0UL, pair.foreign);
}

TEST_F(event, branches_are_those_of_the_task)
{
	expect_own_branches(_metadata, self, variant->maker);
}

/* An event of the CPU records the branches of all tasks at the same time. */
TEST_F(event, branches_are_those_of_the_task_beside_an_event_of_the_cpu)
{
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY);
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	ASSERT_EQ(0, sampler_open(&self->other, variant->maker, &attr, -1, cpu_next(&cpus, -1), 7));
	ASSERT_EQ(0, event_enable(self->other.fd));
	expect_own_branches(_metadata, self, variant->maker);
}

/* An event of the task and an event of its CPU have the same filter. */
TEST_F(event, events_share_the_branches)
{
	struct branch_findings check[2] = {
		{ .expected = { RETURN, CALL, JUMP }, .expected_count = ELSEWHERE },
		{ .expected = { RETURN, CALL, JUMP }, .expected_count = ELSEWHERE },
	};
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_ANY);
	struct perf_event_attr jumps = with_branches(PERF_SAMPLE_BRANCH_IND_JUMP);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int fd;

	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	attr.sample_period = 2003;
	ASSERT_EQ(0, sampler_open(&self->other, variant->maker, &attr, 0, -1, 6));
	ASSERT_EQ(0, event_enable(self->other.fd));
	sample_branches(_metadata, &self->sampler, &check[0]);
	check[1].addresses = check[0].addresses;
	check[1].records = check[0].records;
	sampler_read(&self->other, &sums, check_sample, &check[1]);
	EXPECT_LE(ROUND_INSNS * ROUNDS / 2003 - 1, check[1].samples);
	EXPECT_EQ(0UL, check[1].wrong);
	/* perf accepts different filters, which take turns. */
	fd = variant->maker->open(&jumps, 0, -1, -1, 0);
	EXPECT_EQ(variant->maker->takes_turns, fd >= 0);
	if (fd >= 0)
		close(fd);
	else
		EXPECT_EQ(-EBUSY, fd);
}

struct newest_branches {
	unsigned long samples, old;
};

static void check_newest_branch(const struct sample *sample, void *data)
{
	struct newest_branches *n = data;

	n->samples++;
	n->old += !sample->branch_count || sample->branches[0].to != sample->ip;
}

/*
 * An event of the kernel overflows in the handler of another interrupt, too, which freezes the
 * records once more. Recording must resume nevertheless: the newest branch is the branch that
 * caused the sample.
 */
TEST_F(event, branches_are_recorded_after_an_overflow_in_the_handler)
{
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY);
	/* On the debug kernel, a sample takes more instructions than this period. */
	struct perf_event_attr kernel_attr = event_every(env_number("PERIOD", 997));
	struct branch_addresses addresses;
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct newest_branches n = { .samples = 0 };
	cpu_set_t cpus;

	ASSERT_EQ(0, cpus_online(&cpus));
	/* perf shows old branches here. The address of a precise sample is the instruction itself. */
	if (variant->maker == &event_maker_perf || env_number("PRECISE", 0))
		return;
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	kernel_attr.exclude_user = 1;
	kernel_attr.exclude_kernel = 0;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, 6));
	ASSERT_EQ(0, sampler_open(&self->other, variant->maker, &kernel_attr, -1, cpu_next(&cpus, -1), 8));
	ASSERT_EQ(0, event_enable(self->other.fd));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	run_branches(&addresses, 10 * ROUNDS);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	ASSERT_EQ(0, event_disable(self->other.fd));
	sampler_read(&self->sampler, &sums, check_newest_branch, &n);
	EXPECT_LT(100UL, n.samples);
	EXPECT_EQ(0UL, n.old);
}

static const __u64 refused_filters[] = {
	PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_IN_TX,
	PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_NO_TX,
	PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_ABORT_TX,
	PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_PRIV_SAVE,
};

TEST(unsupported_branch_filters_are_refused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused_filters); i++) {
		struct perf_event_attr attr = with_branches(refused_filters[i]);

		EXPECT_EQ(-EOPNOTSUPP, event_maker_perfmon.open(&attr, 0, -1, -1, 0)) {
			TH_LOG("%#llx", refused_filters[i]);
		}
	}
}

TEST(call_stacks_need_processor_support)
{
	struct perf_event_attr attr = with_branches(PERF_SAMPLE_BRANCH_CALL_STACK |
						    PERF_SAMPLE_BRANCH_USER);
	int fd = event_maker_perfmon.open(&attr, 0, -1, -1, 0);

	EXPECT_EQ(branch_records()->call_stack ? 0 : -EOPNOTSUPP, fd < 0 ? fd : 0);
	if (fd >= 0)
		close(fd);
}

/* The branch stack has one filter: it belongs to a trace, or to events. */
TEST(trace_and_events_take_turns)
{
	const struct perf_event_attr with = with_branches(PERF_SAMPLE_BRANCH_ANY);
	struct perf_event_attr attr = with;
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, 100003, FLAG_USER | FLAG_LAST_BRANCH);
	struct trace trace;
	int fd, device;

	ASSERT_EQ(0, wait_until_idle());
	device = open_device(_metadata, O_RDWR);
	trace_on_first_cpu(_metadata, &trace, device, 4);
	ASSERT_EQ(0, trace_stage(&trace, &config));
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBUSY, trace_start(&trace));
	close(fd);
	ASSERT_EQ(0, trace_start(&trace));
	attr = with;
	EXPECT_EQ(-EBUSY, event_maker_perfmon.open(&attr, 0, -1, -1, 0));
	attr.sample_type &= ~PERF_SAMPLE_BRANCH_STACK;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	EXPECT_LE(0, fd);
	close(fd);
	ASSERT_EQ(0, trace_stop(&trace));
	attr = with;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, 0);
	EXPECT_LE(0, fd);
	close(fd);
	trace_free(&trace);
	close(device);
}

TEST_HARNESS_MAIN
