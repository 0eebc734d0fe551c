// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that need an extra register (config1): offcore responses and events of the front end.
 * Whenever an event counts, the register has the event's value. Linux's perf must have the same
 * counts. Events that need different values of a register can count
 * - in turns;
 * - in different tasks;
 * - by the other register of offcore responses. Any other event that needs a different value is
 *   refused.
 *
 * On the virtual PMU these events count instructions if the value is odd, branches if it is even,
 * and nothing if it is 0.
 *
 * ABSENT=1 in the environment means that the registers are missing, as in virtual machines of KVM.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "loop.h"
#include "target.h"

#define LOOPS	100000UL
#define ANY_CPU	(-1)
#define ALL_TASKS	(-1)
#define MS	1000000ULL

/* Intel SDM, volume 4 */
#define MSR_OFFCORE_RSP_0	0x1a6
#define MSR_OFFCORE_RSP_1	0x1a7
#define MSR_PEBS_FRONTEND	0x3f7

#define LOAD_LATENCY	0x1cd

/*
 * Values that all three registers can hold: both registers of offcore responses, and the register
 * of the front end
 */
#define ODD		0x10011
#define OTHER_ODD	0x10013
#define EVEN		0x10012
#define FRONT_ODD	0x11
#define FRONT_EVEN	0x12

/* Events, as in an event select, and a bit that their registers lack */
struct core {
	unsigned int model;
	__u64 offcore[2], frontend;
	__u64 offcore_lacks, frontend_lacks;
};

static const struct core cores[] = {
	{ 0x5e, { 0x1b7, 0x1bb }, 0x1c6, 1ULL << 12, 1 << 3 },	/* Skylake */
	{ 0x6a, { 0x1b7, 0x1bb }, 0x1c6, 1ULL << 14, 1 << 3 },	/* Ice Lake */
	{ 0x8f, { 0x12a, 0x12b }, 0x1c6, 1ULL << 38, 1 << 5 },	/* Sapphire Rapids */
};

FIXTURE(event)
{
	const struct core *core;
	struct target target[2];
	int fd[3];
	int cpu;		/* the first CPU, where this task runs */
	cpu_set_t cpus;
	bool msrs_changed;
};

#include "event_fixture.h"

/* Returns the core of this CPU, or NULL if the test does not know its events. */
static const struct core *find_core(void)
{
	unsigned int a, b, c, d, i, model;

	if (!__get_cpuid(1, &a, &b, &c, &d) || (a >> 8 & 0xf) != 6)
		return NULL;
	model = (a >> 4 & 0xf) | (a >> 12 & 0xf0);
	for (i = 0; i < sizeof(cores) / sizeof(*cores); i++) {
		if (cores[i].model == model)
			return &cores[i];
	}
	return NULL;
}

FIXTURE_SETUP(event)
{
	unsigned int i;

	SKIP_WITHOUT_PMU();
	for (i = 0; i < sizeof(self->fd) / sizeof(*self->fd); i++)
		self->fd[i] = -1;
	self->core = find_core();
	ASSERT_NE(NULL, self->core);
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
}

static void close_all(FIXTURE_DATA(event) *self)
{
	unsigned int i;

	for (i = 0; i < sizeof(self->fd) / sizeof(*self->fd); i++) {
		if (self->fd[i] >= 0)
			close(self->fd[i]);
		self->fd[i] = -1;
	}
}

/*
 * Writes @value to each register on each CPU; if @spread, the second and third register get
 * multiples of it.
 */
static int write_registers(const cpu_set_t *cpus, __u64 value, bool spread)
{
	int cpu, err = 0;

	for_each_cpu_in(cpu, cpus) {
		err = err ?: msr_write(cpu, MSR_OFFCORE_RSP_0, value);
		err = err ?: msr_write(cpu, MSR_OFFCORE_RSP_1, spread ? value << 1 : value);
		err = err ?: msr_write(cpu, MSR_PEBS_FRONTEND, spread ? value << 2 : value);
	}
	return err;
}

FIXTURE_TEARDOWN(event)
{
	close_all(self);
	target_kill(&self->target[0]);
	target_kill(&self->target[1]);
	if (self->msrs_changed)
		EXPECT_EQ(0, write_registers(&self->cpus, 0, false));
	restore_maker(_metadata, variant);
}

/* Ends a test that needs the registers. */
#define RETURN_IF_ABSENT() do {						\
	if (env_number("ABSENT", 0))					\
		return;							\
} while (0)

/* Ends a test with perf if perf would have other results. */
#define RETURN_FOR_PERF() do {						\
	if (variant->maker == &event_maker_perf)			\
		return;							\
} while (0)

/* Returns the attributes of an event of user mode, which is disabled. */
static struct perf_event_attr attr_of(__u64 config, __u64 value)
{
	struct perf_event_attr attr = event_instructions();

	attr.type = PERF_TYPE_RAW;
	attr.config = config;
	attr.config1 = value;
	return attr;
}

/* Opens an event of this task. Returns a descriptor or a negative errno. */
static int open_own(const struct event_maker *maker, __u64 config, __u64 value, int group)
{
	struct perf_event_attr attr = attr_of(config, value);

	attr.disabled = group < 0;
	return maker->open(&attr, 0, ANY_CPU, group, PERF_FLAG_FD_CLOEXEC);
}

/* Expects that an event of this task is refused. */
static void expect_refused(struct __test_metadata *_metadata, const struct event_maker *maker,
			   int error, __u64 config, __u64 value)
{
	const int fd = open_own(maker, config, value, -1);

	EXPECT_EQ(-error, fd) {
		TH_LOG("%s: event %#llx with %#llx", maker->name, config, value);
	}
	if (fd >= 0)
		close(fd);
}

/* Returns by how much the event's count grows if the loop has LOOPS more iterations. */
static __s64 count_of(int fd)
{
	const __s64 least = event_loop_count(fd, 1);

	return event_loop_count(fd, LOOPS + 1) - least;
}

static void expect_count(struct __test_metadata *_metadata, const struct event_maker *maker,
			 __u64 config, __u64 value, unsigned long each)
{
	const int fd = open_own(maker, config, value, -1);

	ASSERT_LE(0, fd) {
		TH_LOG("%s: event %#llx with %#llx: %s", maker->name, config, value, strerror(-fd));
	}
	EXPECT_EQ((__s64)(each * LOOPS), count_of(fd)) {
		TH_LOG("%s: event %#llx with %#llx", maker->name, config, value);
	}
	close(fd);
}

TEST_F(event, register_selects_what_is_counted)
{
	const struct core *c = self->core;
	int i;

	RETURN_IF_ABSENT();
	for (i = 0; i < 2; i++) {
		expect_count(_metadata, variant->maker, c->offcore[i], ODD, LOOP_INSNS);
		expect_count(_metadata, variant->maker, c->offcore[i], EVEN, 1);
		expect_count(_metadata, variant->maker, c->offcore[i], 0, 0);
	}
	expect_count(_metadata, variant->maker, c->frontend, FRONT_ODD, LOOP_INSNS);
	expect_count(_metadata, variant->maker, c->frontend, FRONT_EVEN, 1);
	expect_count(_metadata, variant->maker, c->frontend, 0, 0);
}

TEST_F(event, missing_registers_are_refused)
{
	const bool is_perf = variant->maker == &event_maker_perf;

	if (!env_number("ABSENT", 0))
		return;
	expect_refused(_metadata, variant->maker, is_perf ? ENXIO : EOPNOTSUPP,
		       self->core->offcore[0], ODD);
	expect_refused(_metadata, variant->maker, is_perf ? ENXIO : EOPNOTSUPP,
		       self->core->frontend, FRONT_ODD);
}

TEST_F(event, values_that_registers_lack_are_refused)
{
	const struct core *c = self->core;

	RETURN_IF_ABSENT();
	expect_refused(_metadata, variant->maker, EINVAL, c->offcore[0], ODD | c->offcore_lacks);
	expect_refused(_metadata, variant->maker, EINVAL, c->offcore[1], c->offcore_lacks);
	expect_refused(_metadata, variant->maker, EINVAL, c->offcore[0], 1ULL << 63);
	expect_refused(_metadata, variant->maker, EINVAL, c->frontend,
		       FRONT_ODD | c->frontend_lacks);
	RETURN_FOR_PERF();
	/*
	 * An event that needs no extra register, and an event whose register the module does not
	 * write.
	 */
	expect_refused(_metadata, variant->maker, EINVAL, EVENT_INSTRUCTIONS, 1);
	expect_refused(_metadata, variant->maker, EOPNOTSUPP, LOAD_LATENCY, 3);
}

/* The second event gets the other register, and the event select that belongs to it. */
TEST_F(event, group_has_two_values_of_offcore_responses)
{
	const struct core *c = self->core;
	const struct event_maker *maker = variant->maker;
	__s64 second;
	int i;

	RETURN_IF_ABSENT();
	for (i = 0; i < 2; i++) {
		self->fd[0] = open_own(maker, c->offcore[i], ODD, -1);
		ASSERT_LE(0, self->fd[0]);
		self->fd[1] = open_own(maker, c->offcore[i], EVEN, self->fd[0]);
		ASSERT_LE(0, self->fd[1]);
		second = event_count(self->fd[1]);
		EXPECT_EQ((__s64)(LOOP_INSNS * LOOPS), count_of(self->fd[0]));
		second = event_count(self->fd[1]) - second;
		/* Expects the branches of both loops, and a few around them. */
		EXPECT_LE((__s64)LOOPS, second);
		EXPECT_GT((__s64)LOOPS + CALL_OVERHEAD, second);
		/* There is no third register. */
		self->fd[2] = open_own(maker, c->offcore[i], OTHER_ODD, self->fd[0]);
		EXPECT_EQ(maker == &event_maker_perf ? -EINVAL : -EBUSY, self->fd[2]);
		/* An event with the same value shares the register. */
		self->fd[2] = open_own(maker, c->offcore[!i], EVEN, self->fd[0]);
		EXPECT_LE(0, self->fd[2]);
		close_all(self);
	}
}

TEST_F(event, two_values_of_a_register_are_refused)
{
	const struct core *c = self->core;

	RETURN_IF_ABSENT();
	RETURN_FOR_PERF();
	self->fd[0] = open_own(variant->maker, c->frontend, FRONT_ODD, -1);
	ASSERT_LE(0, self->fd[0]);
	expect_refused(_metadata, variant->maker, EBUSY, c->frontend, FRONT_EVEN);
	/* Events with the same value, and events of other registers, are accepted. */
	expect_count(_metadata, variant->maker, c->frontend, FRONT_ODD, LOOP_INSNS);
	expect_count(_metadata, variant->maker, c->offcore[0], EVEN, 1);
	EXPECT_EQ((__s64)(LOOP_INSNS * LOOPS), count_of(self->fd[0]));
	close_all(self);
	expect_count(_metadata, variant->maker, c->frontend, FRONT_EVEN, 1);
}

/* An event of a CPU and an event of a task count at the same time, so they need the same value. */
TEST_F(event, event_of_a_cpu_has_the_value_of_tasks)
{
	const struct core *c = self->core;
	struct perf_event_attr attr = attr_of(c->frontend, FRONT_EVEN);

	RETURN_IF_ABSENT();
	RETURN_FOR_PERF();
	self->fd[0] = open_own(variant->maker, c->frontend, FRONT_ODD, -1);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = variant->maker->open(&attr, ALL_TASKS, self->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	EXPECT_EQ(-EBUSY, self->fd[1]);
	attr.config1 = FRONT_ODD;
	self->fd[1] = variant->maker->open(&attr, ALL_TASKS, self->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd[1]);
	EXPECT_EQ(0, event_enable(self->fd[1]));
	EXPECT_EQ((__s64)(LOOP_INSNS * LOOPS), count_of(self->fd[0]));
	EXPECT_LE((__s64)(LOOP_INSNS * LOOPS), event_count(self->fd[1]));
	/* An event of another CPU never counts at the same time. */
	close(self->fd[0]);
	self->fd[0] = -1;
	if (CPU_COUNT(&self->cpus) > 1) {
		attr.config1 = FRONT_EVEN;
		self->fd[0] = variant->maker->open(&attr, ALL_TASKS, cpu_next(&self->cpus, self->cpu),
						   -1, PERF_FLAG_FD_CLOEXEC);
		EXPECT_LE(0, self->fd[0]);
	}
}

/* Two tasks pass a byte around on one CPU. Each has an event with its own value. */
static void expect_exact_tasks(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			       const struct event_maker *maker, __u64 config,
			       const __u64 values[2])
{
	static const unsigned long rounds[2] = { 1, 1001 };
	static const unsigned long pieces = 500;
	static const unsigned long each[2] = { LOOP_INSNS, 1 };
	__s64 count[2][2];
	int i, k;

	ASSERT_EQ(0, target_start_ring(self->target, 2, self->cpu));
	for (i = 0; i < 2; i++) {
		struct perf_event_attr attr = attr_of(config, values[i]);

		attr.disabled = 0;
		self->fd[i] = maker->open(&attr, self->target[i].tid, ANY_CPU, -1,
					  PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, self->fd[i]) {
			TH_LOG("%s: event %#llx with %#llx: %s", maker->name, config, values[i],
			       strerror(-self->fd[i]));
		}
	}
	for (k = 0; k < 2; k++) {
		const struct job job = { rounds[k], pieces, STEP_PASS };

		for (i = 0; i < 2; i++)
			count[k][i] = event_count(self->fd[i]);
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, target_start_job(&self->target[i], job));
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, target_wait_job(&self->target[i]));
		for (i = 0; i < 2; i++)
			count[k][i] = event_count(self->fd[i]) - count[k][i];
	}
	for (i = 0; i < 2; i++) {
		EXPECT_EQ((__s64)(each[i] * (rounds[1] - rounds[0]) * pieces),
			  count[1][i] - count[0][i]) {
			TH_LOG("%s: event %#llx with %#llx", maker->name, config, values[i]);
		}
	}
	close_all(self);
	target_kill(&self->target[0]);
	target_kill(&self->target[1]);
}

TEST_F(event, tasks_have_different_values)
{
	static const __u64 offcore[2] = { ODD, EVEN }, frontend[2] = { FRONT_ODD, FRONT_EVEN };

	RETURN_IF_ABSENT();
	expect_exact_tasks(_metadata, self, variant->maker, self->core->frontend, frontend);
	expect_exact_tasks(_metadata, self, variant->maker, self->core->offcore[0], offcore);
}

/* Executes loop(@n) in a child. Returns the growth of the event's count. */
static __s64 count_child(struct __test_metadata *_metadata, int fd, unsigned long n)
{
	const __s64 before = event_count(fd);
	const pid_t child = fork();
	int status;

	if (!child) {
		loop(n);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	return event_count(fd) - before;
}

TEST_F(event, children_inherit_the_value)
{
	struct perf_event_attr attr = attr_of(self->core->frontend, FRONT_EVEN);
	__s64 count;

	RETURN_IF_ABSENT();
	attr.inherit = 1;
	attr.disabled = 0;
	self->fd[0] = variant->maker->open(&attr, 0, ANY_CPU, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd[0]);
	count = count_child(_metadata, self->fd[0], 1);
	count = count_child(_metadata, self->fd[0], LOOPS + 1) - count;
	/* The two counts differ by LOOPS, and by a few instructions of system calls that wait. */
	EXPECT_GT((__s64)CALL_OVERHEAD, llabs(count - (__s64)LOOPS));
}

/* Two events with different values of a register take turns: at each time one of them counts. */
TEST_F(event, different_values_take_turns)
{
	struct { __u64 count, enabled, running; } r[2];
	const __u64 values[2] = { FRONT_ODD, FRONT_EVEN };
	const __u64 limit = clock_ns() + 60 * 1000 * MS;
	__u64 branches = 0, sum, end;
	int i;

	RETURN_IF_ABSENT();
	for (i = 0; i < 2; i++) {
		struct perf_event_attr attr = attr_of(self->core->frontend, values[i]);

		attr.disabled = 0;
		attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
		self->fd[i] = variant->maker->open(&attr, 0, ANY_CPU, -1,
						   PERF_FLAG_FD_CLOEXEC | variant->maker->turns_flag);
		ASSERT_LE(0, self->fd[i]);
	}
	/*
	 * Repeats the loop until both have had turns: if the CPU stands still for most of half a
	 * second, one of them has had none.
	 */
	do {
		for (end = clock_ns() + 500 * MS; clock_ns() < end; branches += LOOPS)
			loop(LOOPS);
		for (i = 0; i < 2; i++)
			ASSERT_EQ((ssize_t)sizeof(r[i]), read(self->fd[i], &r[i], sizeof(r[i])));
	} while ((!r[0].count || !r[1].count) && clock_ns() < limit);
	for (i = 0; i < 2; i++) {
		EXPECT_LT(0ULL, r[i].count);
		EXPECT_LT(r[i].running, r[i].enabled);
	}
	sum = r[0].count / LOOP_INSNS + r[1].count;
	EXPECT_GT((long long)(branches / 20), llabs((long long)(sum - branches))) {
		TH_LOG("%llu of instructions, %llu of branches, of %llu branches", r[0].count,
		       r[1].count, branches);
	}
}

/* Expects values of all registers on each CPU. */
static void expect_registers(struct __test_metadata *_metadata, const cpu_set_t *cpus, __u64 first)
{
	static const __u32 msrs[] = { MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_PEBS_FRONTEND };
	__u64 value;
	int cpu, i;

	for_each_cpu_in(cpu, cpus) {
		for (i = 0; i < 3; i++) {
			ASSERT_EQ(0, msr_read(cpu, msrs[i], &value));
			EXPECT_EQ(first << i, value) {
				TH_LOG("MSR %#x of CPU %d", msrs[i], cpu);
			}
		}
	}
}

TEST_F(event, registers_are_restored)
{
	const struct core *c = self->core;
	__u64 value;

	RETURN_IF_ABSENT();
	RETURN_FOR_PERF();
	self->msrs_changed = true;
	ASSERT_EQ(0, write_registers(&self->cpus, 1, true));
	self->fd[0] = open_own(variant->maker, c->offcore[0], ODD, -1);
	self->fd[1] = open_own(variant->maker, c->offcore[0], EVEN, -1);
	self->fd[2] = open_own(variant->maker, c->frontend, FRONT_ODD, -1);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_LE(0, self->fd[1]);
	ASSERT_LE(0, self->fd[2]);
	/* A register is written where its event begins to count. */
	expect_registers(_metadata, &self->cpus, 1);
	EXPECT_EQ((__s64)(LOOP_INSNS * LOOPS), count_of(self->fd[0]));
	EXPECT_EQ((__s64)LOOPS, count_of(self->fd[1]));
	EXPECT_EQ((__s64)(LOOP_INSNS * LOOPS), count_of(self->fd[2]));
	ASSERT_EQ(0, msr_read(self->cpu, MSR_OFFCORE_RSP_0, &value));
	EXPECT_EQ((__u64)ODD, value);
	ASSERT_EQ(0, msr_read(self->cpu, MSR_OFFCORE_RSP_1, &value));
	EXPECT_EQ((__u64)EVEN, value);
	ASSERT_EQ(0, msr_read(self->cpu, MSR_PEBS_FRONTEND, &value));
	EXPECT_EQ((__u64)FRONT_ODD, value);
	close_all(self);
	expect_registers(_metadata, &self->cpus, 1);
}

/*
 * If another program writes to the register, the count is broken, and the module restores the
 * register.
 */
TEST_F(event, changed_register_is_found)
{
	const __u64 end = clock_ns() + 60 * 1000 * MS;
	__u64 value;
	__s64 count;

	RETURN_IF_ABSENT();
	RETURN_FOR_PERF();
	self->msrs_changed = true;
	self->fd[0] = open_own(variant->maker, self->core->frontend, FRONT_ODD, -1);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_EQ(0, event_enable(self->fd[0]));
	ASSERT_EQ(0, msr_write(self->cpu, MSR_PEBS_FRONTEND, FRONT_EVEN));
	do {
		loop(LOOPS);
		count = event_count(self->fd[0]);
	} while (count >= 0 && clock_ns() < end);
	EXPECT_EQ(-EIO, count);
	ASSERT_EQ(0, msr_read(self->cpu, MSR_PEBS_FRONTEND, &value));
	EXPECT_EQ((__u64)FRONT_ODD, value);
	close_all(self);
	expect_count(_metadata, variant->maker, self->core->frontend, FRONT_EVEN, 1);
}

TEST_HARNESS_MAIN
