// SPDX-License-Identifier: GPL-2.0-only
/*
 * Precise samples with branch records that the processor writes itself (PEBS, from format 4 on). A
 * sample has the branches before it, and only branches of its own program. One interrupt serves
 * many samples.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branch_records.h"
#include "branches.h"
#include "child.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "idle.h"
#include "loop.h"
#include "msr.h"
#include "rights.h"
#include "samples.h"
#include "trace.h"

#define ROUNDS	20000UL

/* The ring has 2^10 pages, for about 4000 samples. */
#define PAGES_ORDER	10

FIXTURE(event)
{
	struct sampler samplers[2];
	int cpu;	/* the first CPU */
};

#include "event_fixture.h"
#include "sample_fixture.h"
#include "precise_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	if (!prepare_precise(_metadata, variant, self->samplers))
		return;
	self->cpu = cpu_first();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->samplers[0]);
	sampler_close(&self->samplers[1]);
	restore_maker(_metadata, variant);
}

static struct perf_event_attr with_branches(__u64 period, __u64 branch_type)
{
	struct perf_event_attr attr = precise_every(period);

	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = branch_type;
	return attr;
}

static void open_with_branches(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
			       struct sampler *s, struct perf_event_attr attr, pid_t tid)
{
	int err = sampler_open(s, variant->maker, &attr, tid, -1, PAGES_ORDER);

	ASSERT_EQ(0, err) {
		TH_LOG("%s: %s", variant->maker->name, strerror(-err));
	}
}

/*
 * The branches of run_branches(), in the order in which they precede each other: before a jump comes
 * a return, and before that a call.
 */
enum branch { JUMP, RETURN, CALL, BRANCHES };

static enum branch branch_of(const struct branch_addresses *a, const struct perf_branch_entry *b)
{
	if (b->from == a->jump && b->to == a->call)
		return JUMP;
	if (b->from == a->ret && b->to == a->next)
		return RETURN;
	return b->from == a->call && b->to == a->target ? CALL : BRANCHES;
}

/* Returns the newest branch after the instruction at @ip, which may be this branch. */
static enum branch newest_at(const struct branch_addresses *a, __u64 ip)
{
	if (ip == a->call || ip == a->target)
		return CALL;
	if (ip == a->ret || ip == a->next)
		return RETURN;
	return ip == a->jump ? JUMP : BRANCHES;
}

/*
 * The branches that samples should have, and the numbers of samples and branches that were found.
 */
struct findings {
	struct branch_addresses addresses;
	enum branch kind;	/* the only kind that is recorded; BRANCHES: all kinds are */
	unsigned long samples;
	unsigned long wrong;	/* samples with another branch than the predicted one, or too many */
	unsigned long incomplete;	/* samples with fewer branches than were recorded */
	unsigned long branches, types, flags;	/* numbers of checked branches: all, with the right type, with flags */
	__u64 all_indexes;	/* the bits that all indexes have */
};

/* Branch types of enum branch. */
static const unsigned int types[] = { PERF_BR_COND, PERF_BR_RET, PERF_BR_CALL, PERF_BR_UNKNOWN };

static void check_branches(const struct sample *s, void *data)
{
	struct findings *f = data;
	const unsigned int depth = branch_records()->depth;
	enum branch expected = newest_at(&f->addresses, s->ip);
	bool is_wrong = s->branch_count > depth;
	unsigned int i;

	if (expected == BRANCHES)
		return;
	f->samples++;
	if (f->kind != BRANCHES)
		expected = f->kind;
	for (i = 0; i < s->branch_count; i++) {
		enum branch found = branch_of(&f->addresses, &s->branches[i]);

		/* Older branches were recorded before the loop. */
		if (found == BRANCHES && i && s->branches[i].to == f->addresses.call)
			break;
		is_wrong |= found != expected;
		f->branches++;
		f->types += s->branches[i].type == types[found];
		f->flags += s->branches[i].predicted && !s->branches[i].mispred;
		if (f->kind == BRANCHES)
			expected = (expected + 1) % BRANCHES;
	}
	f->wrong += is_wrong;
	/*
	 * One branch may be missing: a return from an interrupt, which belongs to the kernel, may
	 * be among the records.
	 */
	f->incomplete += s->branch_count < depth - 1;
	f->all_indexes &= s->branch_index;
}

/* Samples @rounds of run_branches(), and checks all samples. */
static void sample_branches(struct __test_metadata *_metadata, const FIXTURE_VARIANT(event) *variant,
			    struct sampler *s, struct perf_event_attr attr, unsigned long rounds,
			    struct findings *f)
{
	const __u64 period = attr.sample_period;
	unsigned long switches = thread_switches();

	open_with_branches(_metadata, variant, s, attr, 0);
	f->all_indexes = ~0ULL;
	ASSERT_EQ(0, event_enable(s->fd));
	run_branches(&f->addresses, rounds);
	ASSERT_EQ(0, event_disable(s->fd));
	switches = thread_switches() - switches;
	expect_samples(_metadata, variant, s, period, check_branches, f);
	EXPECT_LE(ROUND_INSNS * rounds / period, f->samples + 1);
	EXPECT_EQ(0UL, f->wrong) {
		TH_LOG("%s: period %llu: %lu of %lu", variant->maker->name, period, f->wrong, f->samples);
	}
	/* perf also empties the records when it has read them. */
	if (variant->maker == &event_maker_perf)
		return;
	/* After a switch, the records are full again after this number of samples. */
	EXPECT_GE((1 + switches) * (2 + branch_records()->depth * ROUND_INSNS / period), f->incomplete) {
		TH_LOG("%s: period %llu: %lu of %lu", variant->maker->name, period, f->incomplete, f->samples);
	}
}

/* The shortest period of instructions on Golden Cove, whose branch records have types. */
#define SHORTEST_ON_GOLDEN_COVE	128

static const __u64 periods[] = { 2, 3, 7, 16, 31, 97, 101, 256, 509, PERIOD };

TEST_F(event, each_sample_has_the_branches_before_it)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		struct findings f = { .kind = BRANCHES };
		unsigned long rounds = periods[i] < 101 ? 200 * periods[i] : ROUNDS;

		if (branch_records()->types && periods[i] < SHORTEST_ON_GOLDEN_COVE)
			continue;
		/* The buffer has room for 8 records until the interrupt arrives. */
		if (env_number("SKID", 0) > 8 * periods[i])
			continue;
		sample_branches(_metadata, variant, &self->samplers[0],
				with_branches(periods[i], PERF_SAMPLE_BRANCH_ANY), rounds, &f);
		EXPECT_EQ(f.branches, f.flags);
		sampler_close(&self->samplers[0]);
	}
}

TEST_F(event, branches_are_those_of_the_requested_kind)
{
	static const struct {
		__u64 type;
		enum branch kind;
	} kinds[] = {
		{ PERF_SAMPLE_BRANCH_ANY_CALL, CALL },
		{ PERF_SAMPLE_BRANCH_ANY_RETURN | PERF_SAMPLE_BRANCH_USER, RETURN },
		{ PERF_SAMPLE_BRANCH_COND, JUMP },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct findings f = { .kind = kinds[i].kind };

		sample_branches(_metadata, variant, &self->samplers[0],
				with_branches(PERIOD, kinds[i].type), ROUNDS, &f);
		sampler_close(&self->samplers[0]);
	}
}

/*
 * Requests types, the index (which these records do not have), no flags, and parts of a sample that
 * follow the branches.
 */
TEST_F(event, parts_of_branches_are_those_that_are_requested)
{
	const bool has_types = branch_records()->types;
	struct findings bare = { .kind = BRANCHES }, typed = { .kind = BRANCHES };
	struct perf_event_attr attr = with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY |
						    PERF_SAMPLE_BRANCH_NO_FLAGS |
						    PERF_SAMPLE_BRANCH_NO_CYCLES |
						    PERF_SAMPLE_BRANCH_HW_INDEX);
	struct sampler *s = &self->samplers[0];
	struct sample sample;

	attr.sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT |
			    PERF_SAMPLE_DATA_SRC;
	sample_branches(_metadata, variant, s, attr, ROUNDS, &bare);
	EXPECT_EQ(~0ULL, bare.all_indexes);
	/* perf omits the flags only if it has to read them from a separate register. */
	if (variant->maker != &event_maker_perf)
		EXPECT_EQ(0UL, bare.flags);
	ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
	EXPECT_EQ(event_id(s->fd), sample.identifier);
	EXPECT_NE(0ULL, sample.data_src);
	sampler_close(s);
	/* Where the processor does not record types, perf decodes the instructions. */
	if (!has_types)
		return;
	attr = with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE);
	sample_branches(_metadata, variant, s, attr, ROUNDS, &typed);
	EXPECT_EQ(typed.branches, typed.types);
}

TEST_F(event, one_interrupt_serves_many_samples)
{
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct branch_addresses addresses;
	long long nmis;

	open_with_branches(_metadata, variant, s, with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY), 0);
	nmis = cpu_nmis();
	ASSERT_EQ(0, event_enable(s->fd));
	run_branches(&addresses, ROUNDS);
	run_branches(&addresses, ROUNDS);
	ASSERT_EQ(0, event_disable(s->fd));
	nmis = cpu_nmis() - nmis;
	sampler_read(s, &sums, NULL, NULL);
	EXPECT_LE(2 * ROUND_INSNS * ROUNDS / PERIOD, sums.samples);
	EXPECT_GT(sums.samples / 16, (unsigned long)nmis);
}

/* A run: the instructions from the target of a branch up to the next branch. */
#define LONGEST_RUN	0x10000

static bool leads_to(const struct perf_branch_entry *b, __u64 ip)
{
	return b->to <= ip && ip - b->to < LONGEST_RUN;
}

struct runs {
	unsigned long samples, kernel, wrong;
};

/* Checks that each branch leads to the next one, and the newest to the sample. */
static void check_runs(const struct sample *s, void *data)
{
	struct runs *r = data;
	bool is_wrong = false;
	__u64 i;

	r->samples++;
	r->kernel += is_kernel_address(s->ip);
	for (i = 0; i < s->branch_count; i++) {
		const struct perf_branch_entry *b = &s->branches[i];

		is_wrong |= i ? !leads_to(b, b[-1].from) : b->from != s->ip && !leads_to(b, s->ip);
	}
	r->wrong += is_wrong || !s->branch_count;
}

TEST_F(event, branches_of_the_kernel_lead_to_the_sample)
{
	struct perf_event_attr attr = with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY);
	struct sampler *s = &self->samplers[0];
	struct branch_addresses addresses;
	struct runs r = { .samples = 0 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	int i;

	attr.exclude_kernel = 0;
	open_with_branches(_metadata, variant, s, attr, 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 300; i++) {
		run_branches(&addresses, 100);
		getppid();
		sched_yield();
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_runs, &r);
	EXPECT_LT(100UL, r.samples);
	EXPECT_LT(50UL, r.kernel);
	EXPECT_FALSE(sums.malformed);
	/* A sample in which the records have just been emptied has no branch. */
	EXPECT_GE(2 + r.samples / 50, r.wrong) {
		TH_LOG("%s: %lu of %lu, %lu in the kernel", variant->maker->name, r.wrong, r.samples,
		       r.kernel);
	}
}

/* Records of events with and without branches are in one buffer of the processor. */
TEST_F(event, events_without_branches_are_exact_beside)
{
	struct sampler *other = &self->samplers[1];
	struct perf_event_attr attr = precise_every(997);
	struct findings f = { .kind = BRANCHES };

	open_sampler(_metadata, variant, other, attr, 0);
	ASSERT_EQ(0, event_enable(other->fd));
	sample_branches(_metadata, variant, &self->samplers[0],
			with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY), ROUNDS, &f);
	ASSERT_EQ(0, event_disable(other->fd));
	expect_samples(_metadata, variant, other, 997, NULL, NULL);
}

/* The other event has an interrupt for each sample, and all groups in its records. */
TEST_F(event, events_with_an_interrupt_for_each_sample_are_exact_beside)
{
	struct sampler *other = &self->samplers[1];
	struct perf_event_attr attr = with_branches(2003, PERF_SAMPLE_BRANCH_ANY);
	struct findings f = { .kind = BRANCHES }, of_other = { .kind = BRANCHES };

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ADDR;
	open_with_branches(_metadata, variant, other, attr, 0);
	ASSERT_EQ(0, event_enable(other->fd));
	sample_branches(_metadata, variant, &self->samplers[0],
			with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY), ROUNDS, &f);
	ASSERT_EQ(0, event_disable(other->fd));
	of_other.addresses = f.addresses;
	expect_samples(_metadata, variant, other, 2003, check_branches, &of_other);
	EXPECT_EQ(0UL, of_other.wrong);
	EXPECT_LT(0UL, of_other.samples);
}

/* Loops of two programs, whose branches show which of them ran. */
DEFINE_LOOP(first)
DEFINE_LOOP(second)

struct branch_owner_counts {
	bool runs_second_loop;
	unsigned long samples, own, foreign, kernel;
};

static void check_owner(const struct sample *s, void *data)
{
	struct branch_owner_counts *o = data;
	__u64 i;

	o->samples++;
	for (i = 0; i < s->branch_count; i++) {
		const struct perf_branch_entry *b = &s->branches[i];
		bool in_first = is_between(b->from, first_begin, first_end);
		bool in_second = is_between(b->from, second_begin, second_end);

		o->own += o->runs_second_loop ? in_second : in_first;
		o->foreign += o->runs_second_loop ? in_first : in_second;
		o->kernel += is_kernel_address(b->from) || is_kernel_address(b->to);
	}
}

static pid_t fork_loop(bool runs_second_loop, int *start_pipe)
{
	pid_t pid = fork_waiting(start_pipe);
	int i;

	if (pid)
		return pid;
	for (i = 0; i < 300; i++) {
		if (runs_second_loop)
			second_loop(1500);
		else
			first_loop(1000);
		sched_yield();
	}
	_exit(0);
}

/*
 * Expects that the samples of two programs have only branches of their own program. If @beside is
 * set, the records of an event of the CPU without branches are in the same buffer.
 */
static void expect_own_branches(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				const FIXTURE_VARIANT(event) *variant, bool beside)
{
	struct branch_owner_counts counts[2] = {
		{ .runs_second_loop = false }, { .runs_second_loop = true }
	};
	struct sampler other = { .fd = -1 };
	pid_t pid[2];
	int start_pipe[2], i;

	if (beside) {
		struct perf_event_attr attr = precise_every(10007);

		ASSERT_EQ(0, sampler_open(&other, variant->maker, &attr, -1, self->cpu, ORDER));
		ASSERT_EQ(0, event_enable(other.fd));
	}
	for (i = 0; i < 2; i++) {
		pid[i] = fork_loop(i, &start_pipe[i]);
		ASSERT_LT(0, pid[i]);
		open_with_branches(_metadata, variant, &self->samplers[i],
				   with_branches(997 + 12 * i, PERF_SAMPLE_BRANCH_ANY), pid[i]);
		ASSERT_EQ(0, event_enable(self->samplers[i].fd));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(start_pipe[i], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], NULL, 0));
		close(start_pipe[i]);
	}
	for (i = 0; i < 2; i++) {
		expect_samples(_metadata, variant, &self->samplers[i], 997 + 12 * i, check_owner,
			       &counts[i]);
		EXPECT_EQ(0UL, counts[i].foreign);
		EXPECT_EQ(0UL, counts[i].kernel);
		EXPECT_LT(5 * counts[i].samples, counts[i].own);
	}
	sampler_close(&other);
}

TEST_F(event, programs_on_one_cpu_see_their_own_branches_alone)
{
	expect_own_branches(_metadata, self, variant, false);
}

TEST_F(event, programs_beside_an_event_of_the_cpu_see_their_own_branches_alone)
{
	/*
	 * Tests only the module: if events with and without branches alternate, perf loses samples
	 * at switches.
	 */
	if (variant->maker == &event_maker_perf)
		return;
	expect_own_branches(_metadata, self, variant, true);
}

#define USER	1000

/* Runs as a user without rights. Returns an exit code: 0, or the number of what is wrong. */
static int sample_as_user(const struct event_maker *maker)
{
	struct perf_event_attr attr = with_branches(131, PERF_SAMPLE_BRANCH_ANY);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct branch_owner_counts o = { .runs_second_loop = false };
	struct sampler s = { .fd = -1 };
	int i, fd;

	if (become_user(USER, MAY_LOCK))
		return 2;
	attr.branch_sample_type |= PERF_SAMPLE_BRANCH_KERNEL;
	fd = maker->open(&attr, 0, -1, -1, 0);
	if (fd != -EACCES)
		return 3;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	if (sampler_open(&s, maker, &attr, 0, -1, PAGES_ORDER))
		return 4;
	if (event_enable(s.fd))
		return 5;
	for (i = 0; i < 1000; i++) {
		first_loop(10);
		getppid();
	}
	if (event_disable(s.fd))
		return 6;
	sampler_read(&s, &sums, check_owner, &o);
	sampler_close(&s);
	if (o.samples < 100 || o.own < 1000 || sums.malformed)
		return 7;
	return o.kernel ? 8 : 0;
}

TEST_F(event, users_see_no_branch_of_the_kernel)
{
	int status, paranoid = paranoid_read();
	pid_t pid;

	ASSERT_EQ(0, paranoid_write(2));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(sample_as_user(variant->maker));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status) {
		TH_LOG("%s: exit code %d", variant->maker->name, WEXITSTATUS(status));
	}
	EXPECT_EQ(0, paranoid_write(paranoid));
}

#define MSR_PEBS_DATA_CFG	0x3f2
#define DATA_CFG_BRANCHES	(1ULL << 3)

/* The processor writes long records, with branches, only while an event wants them. */
TEST_F(event, records_have_branches_while_an_event_wants_them)
{
	struct sampler *s = &self->samplers[0], *other = &self->samplers[1];
	struct perf_event_attr attr = precise_every(PERIOD);
	__u64 config;

	if (variant->maker == &event_maker_perf)
		return;
	attr.disabled = 0;
	ASSERT_EQ(0, sampler_open(other, variant->maker, &attr, -1, self->cpu, ORDER));
	open_with_branches(_metadata, variant, s, with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY), 0);
	ASSERT_EQ(0, msr_read(self->cpu, MSR_PEBS_DATA_CFG, &config));
	EXPECT_EQ(0ULL, config);
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, msr_read(self->cpu, MSR_PEBS_DATA_CFG, &config));
	EXPECT_EQ(DATA_CFG_BRANCHES | (branch_records()->depth - 1) << 24, config);
	ASSERT_EQ(0, event_disable(s->fd));
	ASSERT_EQ(0, msr_read(self->cpu, MSR_PEBS_DATA_CFG, &config));
	EXPECT_EQ(0ULL, config);
}

struct stale {
	unsigned long samples, stale;
};

static void check_stale(const struct sample *s, void *data)
{
	struct stale *t = data;

	if (!is_between(s->ip, first_begin, first_end))
		return;
	t->samples++;
	/* The newest branch of a sample in a loop must be the loop's own jump. */
	t->stale += s->branch_count && !is_between(s->branches[0].from, first_begin, first_end);
}

/*
 * Other software switches the branch records off. Later samples have no branches from the time
 * before.
 */
TEST_F(event, branches_from_before_the_records_were_switched_off_are_not_shown)
{
	const struct branch_records *records = branch_records();
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct stale t = { .samples = 0 };
	__u64 value;
	int i;

	/* Tests only the module: perf shows such branches. */
	if (variant->maker == &event_maker_perf)
		return;
	open_with_branches(_metadata, variant, s, with_branches(PERIOD, PERF_SAMPLE_BRANCH_ANY), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, msr_read(self->cpu, records->enable, &value));
		ASSERT_EQ(0, msr_write(self->cpu, records->enable, value & ~records->enable_bit));
		first_loop(5000);
		EXPECT_LT(0, event_count(s->fd));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_stale, &t);
	EXPECT_LT(100UL, t.samples);
	/* A sample of a loop's first round has an earlier branch. */
	EXPECT_GE(2UL, t.stale);
}

struct empty {
	unsigned long samples, empty;
};

static void check_empty(const struct sample *s, void *data)
{
	struct empty *e = data;

	if (!is_between(s->ip, first_begin, first_end))
		return;
	e->samples++;
	e->empty += !s->branch_count;
}

/*
 * An event of the CPU that reads the branch records in interrupts is opened and closed, so
 * interrupts begin and cease to freeze the records. The module must not take the records for broken
 * if an interrupt comes in the middle of such a change.
 */
TEST_F(event, branches_are_kept_when_freezing_begins_and_ends)
{
	const int rounds = 10000;
	struct perf_event_attr freezing = event_every(1ULL << 40);
	struct perf_event_attr kernel = event_every(env_number("PERIOD", 2003));
	struct sampler *s = &self->samplers[0];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct empty e = { .samples = 0 };
	int fd[2], i;

	/*
	 * Tests only the module: perf can't have such an event of the CPU beside the event of the
	 * task.
	 */
	if (variant->maker == &event_maker_perf)
		return;
	freezing.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	freezing.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	fd[0] = variant->maker->open(&freezing, -1, self->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd[0]);
	kernel.exclude_user = 1;
	kernel.exclude_kernel = 0;
	kernel.disabled = 0;
	fd[1] = variant->maker->open(&kernel, -1, self->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd[1]);
	open_with_branches(_metadata, variant, s, with_branches(131, PERF_SAMPLE_BRANCH_ANY), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 1; i <= rounds; i++) {
		ASSERT_EQ(0, event_enable(fd[0]));
		ASSERT_EQ(0, event_disable(fd[0]));
		first_loop(200);
		if (i % 500)
			continue;
		/*
		 * The event is disabled, because otherwise reading a sample would cause further
		 * samples.
		 */
		ASSERT_EQ(0, event_disable(s->fd));
		sampler_read(s, &sums, check_empty, &e);
		ASSERT_EQ(0, event_enable(s->fd));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	sampler_read(s, &sums, check_empty, &e);
	EXPECT_LT((unsigned long)rounds, e.samples);
	EXPECT_EQ(0UL, e.empty);
	close(fd[0]);
	close(fd[1]);
}

struct foreign {
	unsigned long samples, foreign;
};

static void check_foreign(const struct sample *s, void *data)
{
	struct foreign *f = data;
	__u64 i;

	if (!is_between(s->ip, first_begin, first_end))
		return;
	f->samples++;
	for (i = 0; i < s->branch_count; i++)
		f->foreign += is_between(s->branches[i].from, second_begin, second_end);
}

/*
 * Other software switches the records off while an event of the CPU reads them in interrupts, too.
 * When this event is disabled, interrupts no longer freeze the records. The records must still stay
 * off until the module has emptied them.
 */
TEST_F(event, branches_from_before_stay_hidden_if_freezing_ends)
{
	struct perf_event_attr attr = event_every(1ULL << 40);
	const struct branch_records *records = branch_records();
	struct sampler *s = &self->samplers[0], *freezing = &self->samplers[1];
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct foreign f = { .samples = 0 };
	__u64 enabled, disabled;
	char path[32];
	int i, msr;

	/*
	 * Tests only the module: perf shows such branches. The shortest period of Golden Cove has more
	 * branches than there are records.
	 */
	if (variant->maker == &event_maker_perf || records->types)
		return;
	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", self->cpu);
	msr = open(path, O_WRONLY);
	ASSERT_LE(0, msr);
	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	ASSERT_EQ(0, sampler_open(freezing, variant->maker, &attr, -1, self->cpu, ORDER));
	/* The period is so short that it has fewer branches than there are records. */
	open_with_branches(_metadata, variant, s, with_branches(53, PERF_SAMPLE_BRANCH_ANY), 0);
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, event_enable(freezing->fd));
		ASSERT_EQ(0, msr_read(self->cpu, records->enable, &enabled));
		disabled = enabled & ~records->enable_bit;
		second_loop(5000 + i);
		/*
		 * Writes the register without msr_write(), which has more branches than there are
		 * records.
		 */
		ASSERT_EQ((ssize_t)sizeof(disabled),
			  pwrite(msr, &disabled, sizeof(disabled), records->enable));
		ASSERT_EQ(0, event_disable(freezing->fd));
		first_loop(5000);
		EXPECT_LT(0, event_count(s->fd));
	}
	ASSERT_EQ(0, event_disable(s->fd));
	close(msr);
	sampler_read(s, &sums, check_foreign, &f);
	EXPECT_LT(1000UL, f.samples);
	EXPECT_EQ(0UL, f.foreign);
}

TEST_HARNESS_MAIN
