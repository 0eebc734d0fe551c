// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cgroup in samples, the records of new cgroups, and the records of events of cgroups.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"
#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "perfs_cgroups.h"
#include "samples.h"
#include "target.h"

#define PERIOD	10007UL
#define KERNEL_PERIOD	1009UL
#define ORDER	4
#define ROOT	"/tmp/cgroup"
#define VERSION_1	"/tmp/cgroup1"
#define A	ROOT "/a"
#define B	ROOT "/b"

/* The parts of sample_type that the trailer of each record has. */
#define TRAILER_PARTS	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | \
			 PERF_SAMPLE_IDENTIFIER)

FIXTURE(event)
{
	struct target target[2];
	struct sampler sampler;
	cpu_set_t cpus;		/* the CPUs that are online */
	int cpu;		/* the first online CPU, where this task stays */
	bool of_cpu;		/* the sampler has records of other tasks, too */
};

#include "event_fixture.h"

static const char *const made_cgroups[] = {
	A "/inner", A, B, ROOT "/1", ROOT "/seven_7", ROOT "/eight_88",
};

static void remove_cgroups(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(made_cgroups); i++)
		rmdir(made_cgroups[i]);
}

/* Gives perf's controller back to version 2. */
static void return_to_cgroup2(void)
{
	cgroup_move(VERSION_1, 0);
	rmdir(VERSION_1 "/inner");
	perfs_cgroups_end_version_1(VERSION_1);
}

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
	ASSERT_EQ(0, cgroups_mount(ROOT));
	remove_cgroups();
	ASSERT_EQ(0, perfs_cgroups_control(ROOT, ROOT, '+'));
}

FIXTURE_TEARDOWN(event)
{
	sampler_close(&self->sampler);
	target_kill(&self->target[0]);
	target_kill(&self->target[1]);
	return_to_cgroup2();
	cgroup_move(ROOT, 0);
	perfs_cgroups_control(ROOT, A, '-');
	remove_cgroups();
	perfs_cgroups_control(ROOT, ROOT, '-');
	umount(ROOT);
	restore_maker(_metadata, variant);
}

/*
 * Returns whether the maker samples cgroups. Without perf's controller, perf samples none, and the
 * module samples the cgroups of version 2.
 */
static bool knows_cgroups(const FIXTURE_VARIANT(event) *variant)
{
	return variant->maker != &event_maker_perf || perfs_cgroups_exist();
}

static __u64 cgroup_id(const char *cgroup)
{
	struct stat s;

	return stat(cgroup, &s) ? 0 : s.st_ino;
}

/* Opens an event of a cgroup on this CPU, with its ring. */
static int open_of_cgroup(FIXTURE_DATA(event) *self, const struct event_maker *maker,
			  struct perf_event_attr attr, const char *cgroup)
{
	struct sampler *s = &self->sampler;

	s->parts = (struct sample_parts) { .type = attr.sample_type };
	s->fd = event_open_of_cgroup(maker, attr, cgroup, self->cpu);
	return s->fd < 0 ? s->fd : event_ring_map(&s->ring, s->fd, ORDER, false);
}

/* The samples of a process, by cgroup. */
struct by_cgroup {
	pid_t pid;
	__u64 id[2];
	unsigned long samples[2], others;
	unsigned long switches;		/* context switches of this task while it was sampled */
};

static void note_cgroup(const struct sample *s, void *data)
{
	struct by_cgroup *by = data;

	if (s->pid != (__u32)by->pid)
		return;
	if (s->cgroup == by->id[0])
		by->samples[0]++;
	else if (s->cgroup == by->id[1])
		by->samples[1]++;
	else
		by->others++;
}

static struct perf_event_attr event_with_cgroup(void)
{
	struct perf_event_attr attr = event_every(PERIOD);

	attr.sample_type |= PERF_SAMPLE_CGROUP;
	return attr;
}

/* Runs a loop in cgroup A, and three times as long in B, while the sampler is open. */
static void loop_in_both_cgroups(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
				 struct by_cgroup *by)
{
	struct sample_sums sums = SAMPLE_SUMS_INIT;

	ASSERT_EQ(0, cgroup_move(A, 0));
	by->switches = thread_switches();
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(20 * PERIOD);
	ASSERT_EQ(0, cgroup_move(B, 0));
	labelled_loop(60 * PERIOD);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	by->switches = thread_switches() - by->switches;
	ASSERT_EQ(0, cgroup_move(ROOT, 0));
	sampler_read(&self->sampler, &sums, note_cgroup, by);
	EXPECT_FALSE(sums.malformed);
	EXPECT_EQ(0UL, sums.lost);
}

static void make_both_cgroups(struct __test_metadata *_metadata, struct by_cgroup *by)
{
	ASSERT_EQ(0, mkdir(A, 0755));
	ASSERT_EQ(0, mkdir(B, 0755));
	*by = (struct by_cgroup) { .pid = getpid(), .id = { cgroup_id(A), cgroup_id(B) } };
}

/* The loops give 40 samples in one cgroup, and 120 in the other. */
TEST_F(event, samples_of_a_task_have_its_cgroup)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct by_cgroup by;

	if (!knows_cgroups(variant))
		return;
	make_both_cgroups(_metadata, &by);
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	loop_in_both_cgroups(_metadata, self, &by);
	EXPECT_LE(39UL, by.samples[0]);
	EXPECT_GE(42UL, by.samples[0]);
	EXPECT_LE(119UL, by.samples[1]);
	EXPECT_GE(122UL, by.samples[1]);
	EXPECT_EQ(0UL, by.others);
}

/*
 * A sample of the loop may be missing, if another program ran in the middle of the loop and took
 * it.
 */
TEST_F(event, samples_of_a_cpu_have_the_cgroup_of_their_task)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct by_cgroup by;

	if (!knows_cgroups(variant))
		return;
	make_both_cgroups(_metadata, &by);
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, -1, self->cpu, ORDER));
	loop_in_both_cgroups(_metadata, self, &by);
	EXPECT_LE(39UL, by.samples[0] + by.switches);
	EXPECT_LE(119UL, by.samples[1] + by.switches);
	EXPECT_EQ(0UL, by.others);
}

/* An event of a cgroup also has samples of its descendants, each with the ID of its own cgroup. */
TEST_F(event, samples_of_a_cgroup_have_the_inner_one)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct by_cgroup by;

	if (!knows_cgroups(variant))
		return;
	make_both_cgroups(_metadata, &by);
	ASSERT_EQ(0, open_of_cgroup(self, variant->maker, attr, A));
	loop_in_both_cgroups(_metadata, self, &by);
	EXPECT_LE(39UL, by.samples[0]);
	EXPECT_GE(42UL, by.samples[0]);
	EXPECT_EQ(0UL, by.samples[1]);
	EXPECT_EQ(0UL, by.others);
}

/*
 * Opens an event of cgroup A on each CPU. Expects that all these events have the same counter, and
 * that no event of another cgroup has this counter on any CPU.
 */
static void expect_one_counter(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			       struct perf_event_attr attr)
{
	int fd[CPU_SETSIZE], cpu, other, opened = 0;
	long long counter = -1;

	for_each_cpu_in(cpu, &self->cpus) {
		fd[opened] = event_open_of_cgroup(&event_maker_perfmon, attr, A, cpu);
		ASSERT_LE(0, fd[opened]) {
			TH_LOG("CPU %d: %s", cpu, strerror(-fd[opened]));
		}
		if (!opened)
			counter = event_fdinfo_number(fd[0], "counter");
		EXPECT_EQ(counter, event_fdinfo_number(fd[opened++], "counter"));
		other = event_open_of_cgroup(&event_maker_perfmon, attr, B, cpu);
		ASSERT_LE(0, other);
		EXPECT_NE(counter, event_fdinfo_number(other, "counter"));
		close(other);
	}
	while (opened)
		close(fd[--opened]);
}

/* Sampling a cgroup takes one counter, however many CPUs there are. */
TEST_F(event, samples_of_a_cgroup_take_one_counter_for_all_cpus)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct by_cgroup by;

	if (variant->maker == &event_maker_perf)
		return;
	make_both_cgroups(_metadata, &by);
	expect_one_counter(_metadata, self, attr);
	attr.exclude_kernel = 0;
	expect_one_counter(_metadata, self, attr);
}

/*
 * In kernel mode, the events of a cgroup count from the tracepoint of the switch on, when the kernel's
 * current task may still be the previous one. The samples are those of the next task nevertheless.
 */
TEST_F(event, samples_of_a_cgroup_have_no_other_task)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct by_cgroup by;
	unsigned long least;
	int i, rounds = 0;

	if (variant->maker == &event_maker_perf)
		return;
	make_both_cgroups(_metadata, &by);
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	/* On the debug kernel, a sample takes more instructions than the period of others. */
	attr.sample_period = env_number("PERIOD", KERNEL_PERIOD);
	attr.sample_type |= PERF_SAMPLE_TID;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, target_start(&self->target[i], self->cpu, false));
		ASSERT_EQ(0, cgroup_move(i ? B : A, self->target[i].pid));
	}
	by.pid = self->target[1].pid;
	ASSERT_EQ(0, open_of_cgroup(self, variant->maker, attr, A));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	least = attr.sample_period == KERNEL_PERIOD ? 1000 : 0;
	/*
	 * Repeats the test, because the scheduler decides which yields are switches, and how many
	 * samples the ring loses.
	 */
	do {
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, target_start_job(&self->target[i],
						      (struct job) { 1, 2000, STEP_YIELD }));
		for (i = 0; i < 2; i++) {
			while (!target_is_done(&self->target[i]))
				sampler_read(&self->sampler, &sums, note_cgroup, &by);
			ASSERT_EQ(0, target_wait_job(&self->target[i]));
		}
		sampler_read(&self->sampler, &sums, note_cgroup, &by);
	} while (++rounds < 50 && sums.samples <= least);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &sums, note_cgroup, &by);
	EXPECT_LT(least, sums.samples);
	EXPECT_EQ(0UL, by.samples[0] + by.samples[1] + by.others);
}

/* The cgroup is the last part of a sample. */
TEST_F(event, cgroup_is_behind_all_other_parts)
{
	struct perf_event_attr attr = event_with_cgroup();
	struct by_cgroup by;

	if (!knows_cgroups(variant))
		return;
	make_both_cgroups(_metadata, &by);
	attr.sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
			    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_user = REGISTER_CX;
	attr.sample_regs_intr = REGISTER_CX;
	attr.sample_stack_user = 64;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	loop_in_both_cgroups(_metadata, self, &by);
	EXPECT_LE(39UL, by.samples[0]);
	EXPECT_LE(119UL, by.samples[1]);
	EXPECT_EQ(0UL, by.others);
}

/* --- Records --------------------------------------------------------------- */

/* Returns the attributes of an event that counts, and whose records end with TRAILER_PARTS. */
static struct perf_event_attr recording_attr(void)
{
	struct perf_event_attr attr = event_instructions();

	attr.sample_type = TRAILER_PARTS;
	attr.sample_id_all = 1;
	return attr;
}

struct new_cgroup {
	struct perf_event_header header;
	__u64 id;
	char path[];
};

/*
 * Reads the next record. Returns false if there is none. If the event is a CPU's, leaves out the
 * records of other tasks: at any moment the kernel may create a thread, and name it.
 */
static bool read_record(const FIXTURE_DATA(event) *self, struct sampler *s)
{
	struct sample end;

	while (event_ring_next(&s->ring, &s->record))
		if (!self->of_cpu || !sample_parse_trailer(&s->record, TRAILER_PARTS, &end) ||
		    end.pid == (__u32)getpid())
			return true;
	return false;
}

/* Reads the next record. Expects that it has this type, and that this process has caused it. */
static const void *expect_next(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self, __u32 kind)
{
	struct sampler *s = &self->sampler;
	struct sample end;

	ASSERT_TRUE(read_record(self, s)) {
		TH_LOG("there is no record %u", kind);
	}
	EXPECT_EQ(kind, s->record.header.type);
	ASSERT_TRUE(sample_parse_trailer(&s->record, TRAILER_PARTS, &end));
	EXPECT_EQ((__u32)getpid(), end.pid);
	EXPECT_EQ((__u32)getpid(), end.tid);
	EXPECT_EQ(event_id(s->fd), end.identifier);
	EXPECT_NE(0ULL, end.time);
	return &s->record;
}

static void expect_no_more(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	EXPECT_FALSE(read_record(self, &self->sampler)) {
		TH_LOG("there is a record %u", self->sampler.record.header.type);
	}
}

static void expect_new(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
		       const char *cgroup)
{
	const char *path = cgroup + strlen(ROOT);
	const struct new_cgroup *new = expect_next(_metadata, self, PERF_RECORD_CGROUP);
	const size_t room = (strlen(path) + 8) / 8 * 8;
	size_t i;

	EXPECT_EQ(0, new->header.misc);
	EXPECT_EQ(sizeof(*new) + room + __builtin_popcountll(TRAILER_PARTS) * 8, new->header.size);
	EXPECT_EQ(cgroup_id(cgroup), new->id);
	EXPECT_STREQ(path, new->path);
	for (i = strlen(path); i < room; i++)
		EXPECT_EQ(0, new->path[i]);
}

/* The paths have 2, 8 and 9 bytes, and one cgroup is inside of another. */
static void make_and_expect(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self)
{
	static const char *const paths[] = { A, ROOT "/1", ROOT "/seven_7", ROOT "/eight_88" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		ASSERT_EQ(0, mkdir(paths[i], 0755));
		expect_new(_metadata, self, paths[i]);
		expect_no_more(_metadata, self);
	}
	ASSERT_EQ(0, perfs_cgroups_control(ROOT, A, '+'));
	ASSERT_EQ(0, mkdir(A "/inner", 0755));
	expect_new(_metadata, self, A "/inner");
	/* The removal of a cgroup is not recorded. */
	ASSERT_EQ(0, rmdir(ROOT "/1"));
	expect_no_more(_metadata, self);
}

TEST_F(event, new_cgroups_are_recorded_for_the_task_that_makes_them)
{
	struct perf_event_attr attr = recording_attr();

	if (!knows_cgroups(variant))
		return;
	attr.cgroup = 1;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	make_and_expect(_metadata, self);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	ASSERT_EQ(0, mkdir(B, 0755));
	expect_no_more(_metadata, self);
}

/*
 * New cgroups are also recorded for the CPU where they are made, by a dummy, which takes no
 * counter. With perf, an event of a CPU has these records only together with other records.
 */
TEST_F(event, new_cgroups_are_recorded_for_their_cpu)
{
	struct perf_event_attr attr = recording_attr();

	if (!knows_cgroups(variant))
		return;
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.comm = 1;
	attr.cgroup = 1;
	self->of_cpu = true;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, -1, self->cpu, ORDER));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	make_and_expect(_metadata, self);
}

/* Without its controller, perf refuses events whose samples have the cgroup. */
TEST_F(event, cgroup_in_samples_needs_perfs_controller_with_perf)
{
	struct perf_event_attr attr = event_with_cgroup();
	int err = sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER);

	EXPECT_EQ(knows_cgroups(variant) ? 0 : -EINVAL, err);
}

TEST_F(event, new_cgroups_are_recorded_only_if_requested)
{
	struct perf_event_attr attr = recording_attr();

	attr.comm = 1;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	ASSERT_EQ(0, mkdir(A, 0755));
	expect_no_more(_metadata, self);
}

/*
 * If perf's controller is mounted in version 1, samples have the cgroups of version 1.
 */
TEST_F(event, cgroups_of_version_1_are_those_with_perfs_controller)
{
	static const char inner[] = VERSION_1 "/inner";
	struct perf_event_attr attr = event_with_cgroup(), of_records = recording_attr();
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct by_cgroup by = { .pid = getpid() };
	const struct new_cgroup *new;

	if (!perfs_cgroups_exist())
		return;
	mkdir(VERSION_1, 0755);
	ASSERT_EQ(0, mount("none", VERSION_1, "cgroup", 0, "perf_event"));
	of_records.cgroup = 1;
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &of_records, 0, -1, ORDER));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	EXPECT_EQ(0, mkdir(A, 0755));
	EXPECT_EQ(0, mkdir(inner, 0755));
	new = expect_next(_metadata, self, PERF_RECORD_CGROUP);
	EXPECT_EQ(cgroup_id(inner), new->id);
	EXPECT_STREQ("/inner", new->path);
	expect_no_more(_metadata, self);
	sampler_close(&self->sampler);

	by.id[0] = cgroup_id(VERSION_1);
	by.id[1] = cgroup_id(inner);
	ASSERT_EQ(0, sampler_open(&self->sampler, variant->maker, &attr, 0, -1, ORDER));
	EXPECT_EQ(0, cgroup_move(A, 0));
	ASSERT_EQ(0, event_enable(self->sampler.fd));
	labelled_loop(20 * PERIOD);
	EXPECT_EQ(0, cgroup_move(inner, 0));
	labelled_loop(60 * PERIOD);
	ASSERT_EQ(0, event_disable(self->sampler.fd));
	sampler_read(&self->sampler, &sums, note_cgroup, &by);
	EXPECT_LE(39UL, by.samples[0]);
	EXPECT_LE(119UL, by.samples[1]);
	EXPECT_EQ(0UL, by.others);
	return_to_cgroup2();
	EXPECT_EQ(0, perfs_cgroups_hierarchy());
}

/* The ring has records of tasks of the cgroup, and no records of other tasks. */
TEST_F(event, events_of_a_cgroup_record_what_its_tasks_do)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	pid_t child;
	void *map;

	if (!knows_cgroups(variant))
		return;
	attr.comm = 1;
	attr.task = 1;
	attr.mmap = 1;
	attr.mmap2 = 1;
	attr.cgroup = 1;
	ASSERT_EQ(0, mkdir(A, 0755));
	ASSERT_EQ(0, open_of_cgroup(self, variant->maker, attr, A));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "outside"));
	ASSERT_EQ(0, mkdir(B, 0755));
	expect_no_more(_metadata, self);
	ASSERT_EQ(0, cgroup_move(A, 0));
	expect_no_more(_metadata, self);
	ASSERT_EQ(0, prctl(PR_SET_NAME, "inside"));
	expect_next(_metadata, self, PERF_RECORD_COMM);
	ASSERT_EQ(0, mkdir(ROOT "/1", 0755));
	expect_new(_metadata, self, ROOT "/1");
	map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	expect_next(_metadata, self, PERF_RECORD_MMAP2);
	munmap(map, 4096);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(0);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	expect_next(_metadata, self, PERF_RECORD_FORK);
	ASSERT_TRUE(event_ring_next(&s->ring, &s->record));
	EXPECT_EQ((__u32)PERF_RECORD_EXIT, s->record.header.type);
	ASSERT_EQ(0, cgroup_move(ROOT, 0));
	ASSERT_EQ(0, prctl(PR_SET_NAME, "outside"));
	expect_no_more(_metadata, self);
}

/* Events of a cgroup record the switches of its tasks, with the other task's ID. */
TEST_F(event, events_of_a_cgroup_record_switches)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler;
	unsigned long in = 0, out = 0;

	if (!knows_cgroups(variant))
		return;
	attr.context_switch = 1;
	ASSERT_EQ(0, mkdir(A, 0755));
	ASSERT_EQ(0, open_of_cgroup(self, variant->maker, attr, A));
	ASSERT_EQ(0, event_enable(s->fd));
	switch_out();
	expect_no_more(_metadata, self);
	ASSERT_EQ(0, cgroup_move(A, 0));
	switch_out();
	ASSERT_EQ(0, cgroup_move(ROOT, 0));
	switch_out();
	while (event_ring_next(&s->ring, &s->record)) {
		ASSERT_EQ((__u32)PERF_RECORD_SWITCH_CPU_WIDE, s->record.header.type);
		if (s->record.header.misc & PERF_RECORD_MISC_SWITCH_OUT)
			out++;
		else
			in++;
	}
	EXPECT_LE(1UL, out);
	EXPECT_LE(1UL, in);
	/*
	 * The task may wait within the write(2) that moves it. Then one of its switches happens in
	 * ROOT, and is not recorded.
	 */
	EXPECT_GE(1UL, in > out ? in - out : out - in);
}

TEST_HARNESS_MAIN
