// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records of mappings. A dummy event of perf and a dummy event of the module record at the same
 * time, while a program makes each kind of mapping, and executes another program. Both rings must
 * have the same records.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "mapping_probes.h"
#include "perf.h"
#include "rights.h"
#include "samples.h"

#define PROGRAM	"/usr/lib/perfmon/pmctl_loop"
#define PLACE	"/tmp/event_mmap"
#define USER	1000
#define GROUP	1001
#define ORDER	7
#define PERIOD	997UL

enum event_api { PERF, PERFMON, MAKERS };

static const struct event_maker *const makers[MAKERS] = {
	[PERF] = &event_maker_perf,
	[PERFMON] = &event_maker_perfmon,
};

FIXTURE(mmap)
{
	struct sampler sampler[MAKERS];
	int cpu;	/* the first CPU */
	__u64 opened;	/* the time in nanoseconds when the events were opened */
};

FIXTURE_SETUP(mmap)
{
	cpu_set_t cpus;
	int i;

	SKIP_WITHOUT_PMU();
	for (i = 0; i < MAKERS; i++)
		self->sampler[i].fd = -1;
	ASSERT_EQ(0, perf_lift_limits());
	ASSERT_EQ(0, wait_until_idle());
	ASSERT_EQ(0, cpus_online(&cpus));
	self->cpu = cpu_next(&cpus, -1);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	mkdir(PLACE, 0777);
}

FIXTURE_TEARDOWN(mmap)
{
	int i;

	for (i = 0; i < MAKERS; i++)
		sampler_close(&self->sampler[i]);
}

/*
 * Returns attributes of a dummy event. A dummy needs no counter, so dummies of perf and of the
 * module can be open at the same time.
 */
static struct perf_event_attr recording_attr(void)
{
	struct perf_event_attr attr = event_dummy();

	attr.sample_type = ALL_TRAILER_PARTS;
	attr.sample_id_all = 1;
	attr.comm = 1;
	attr.comm_exec = 1;
	return attr;
}

/* Opens both events, enabled, with the record bits of @wanted. */
static void open_both(struct __test_metadata *_metadata, FIXTURE_DATA(mmap) *self,
		      const struct perf_event_attr *wanted, pid_t pid, int cpu)
{
	int i, err;

	self->opened = clock_ns();
	for (i = 0; i < MAKERS; i++) {
		struct perf_event_attr attr = recording_attr();

		attr.mmap = wanted->mmap;
		attr.mmap2 = wanted->mmap2;
		attr.mmap_data = wanted->mmap_data;
		attr.inherit = wanted->inherit;
		attr.enable_on_exec = wanted->enable_on_exec;
		err = sampler_open(&self->sampler[i], makers[i], &attr, pid, cpu, ORDER);
		ASSERT_EQ(0, err) {
			TH_LOG("%s: %s", makers[i]->name, strerror(-err));
		}
		if (!attr.enable_on_exec)
			ASSERT_EQ(0, event_enable(self->sampler[i].fd));
	}
}

/* Maps a page of a file, or anonymous memory (-1). */
static void *map_or_exit(int fd, int prot, int flags)
{
	void *at = mmap(NULL, getpagesize(), prot, flags, fd, 0);

	if (at == MAP_FAILED)
		_exit(10);
	return at;
}

static int page_of_a_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);

	if (fd < 0 || ftruncate(fd, getpagesize()))
		_exit(11);
	return fd;
}

/* Maps a file whose path has @length bytes, by nested directories with long names. */
static void map_far_below(int length)
{
	/* PLACE/FIRST/NAME/.../NAME/file, where NAME has 255 bytes. */
	const int rest = length - strlen(PLACE "//file"), directories = rest / 256 + 1;
	const int first = rest % 256;
	int fd, i, top = open(PLACE, O_RDONLY | O_DIRECTORY);
	char name[256] = "";
	const char *end;

	if (chdir(PLACE))
		_exit(12);
	memset(name, 'd', 255);
	end = name + 255 - first;
	for (i = 0; i < directories; i++)
		if (mkdir(i ? name : end, 0700) || chdir(i ? name : end))
			_exit(13);
	fd = page_of_a_file("file");
	map_or_exit(fd, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	close(fd);
	unlink("file");
	for (i = directories; i--;)
		if (chdir("..") || rmdir(i ? name : end))
			_exit(14);
	if (fchdir(top))
		_exit(15);
	close(top);
}

/* Maps a library as the dynamic linker does for dlopen(3), and unmaps it as for dlclose(3). */
static void map_as_library(void)
{
	static const struct {
		unsigned int at, offset;	/* in pages */
		int prot, flags;
	} segments[] = {
		{ 1, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE },
		{ 2, 2, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE },
		{ 3, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE },
		{ 4, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS },
	};
	const size_t page = getpagesize(), size = 5 * page;
	int fd = page_of_a_file(PLACE "/library.so");
	unsigned int i;
	char *base;

	if (ftruncate(fd, 3 * page))
		_exit(40);
	/* Maps the whole range, then the segments over it. */
	base = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_DENYWRITE, fd, 0);
	for (i = 0; i < ARRAY_SIZE(segments); i++)
		if (mmap(base + segments[i].at * page, page, segments[i].prot, segments[i].flags,
			 segments[i].flags & MAP_ANONYMOUS ? -1 : fd,
			 segments[i].offset * page) == MAP_FAILED)
			_exit(41);
	close(fd);
	/*
	 * Makes the code writable and back, as for relocations in it, and makes a part of the data
	 * read-only.
	 */
	if (mprotect(base + page, page, PROT_READ | PROT_WRITE) ||
	    mprotect(base + page, page, PROT_READ | PROT_EXEC) ||
	    mprotect(base + 3 * page, page, PROT_READ))
		_exit(42);
	if (munmap(base, size))
		_exit(43);
	unlink(PLACE "/library.so");
}

static void *map_in_a_thread(void *unused)
{
	map_or_exit(-1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	return unused;
}

/* Maps all kinds of memory that have records. */
static void map_all(void)
{
	const size_t page = getpagesize();
	int i, fd = page_of_a_file(PLACE "/file");
	pthread_t thread;
	char *at;
	pid_t pid;

	/* A file: private, shared, locked, not executable. */
	map_or_exit(fd, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	map_or_exit(fd, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED);
	map_or_exit(fd, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_LOCKED);
	map_or_exit(fd, PROT_READ, MAP_PRIVATE);
	mmap(NULL, page, PROT_EXEC, MAP_PRIVATE, fd, page);
	/* A file whose name is removed. */
	unlink(PLACE "/file");
	map_or_exit(fd, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	close(fd);
	/* Anonymous executable memory, as for code that is made at run time. */
	map_or_exit(-1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	map_or_exit(-1, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS);
	at = map_or_exit(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	if (mprotect(at, page, PROT_READ | PROT_EXEC))
		_exit(20);
	fd = memfd_create("code", 0);
	if (fd < 0 || ftruncate(fd, page))
		_exit(21);
	map_or_exit(fd, PROT_READ | PROT_EXEC, MAP_SHARED);
	close(fd);
	/* The stack, and the heap. */
	at = (char *)((uintptr_t)&at & -page);
	if (mprotect(at, page, PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(22);
	at = sbrk(2 * page);
	at = (char *)(((uintptr_t)at + page - 1) & -page);
	if (mprotect(at, page, PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(23);
	map_as_library();
	/*
	 * Maps files with paths of all lengths modulo 8, with the longest path that the kernel
	 * reports (PATH_MAX - 9 bytes), and with longer paths.
	 */
	for (i = 0; i < 8; i++)
		map_far_below(3900 + i);
	for (i = 4086; i < 4098; i++)
		map_far_below(i);
	if (pthread_create(&thread, NULL, map_in_a_thread, NULL) || pthread_join(thread, NULL))
		_exit(24);
	pid = fork();
	if (!pid) {
		map_in_a_thread(NULL);
		_exit(0);
	}
	if (waitpid(pid, NULL, 0) != pid)
		_exit(25);
}

static const char *record_name(const struct event_record *r)
{
	switch (r->header.type) {
	case PERF_RECORD_MMAP:
		return (const char *)&r->words[4];
	case PERF_RECORD_MMAP2:
		return (const char *)&r->words[8];
	case PERF_RECORD_COMM:
		return (const char *)&r->words[1];
	default:
		return "";
	}
}

/* Reads until the next record of a mapping or a name, of process @pid if @pid is not 0. */
static bool next_record(struct sampler *s, __u32 pid)
{
	while (event_ring_next(&s->ring, &s->record)) {
		const struct perf_event_header *h = &s->record.header;

		if (h->type != PERF_RECORD_MMAP && h->type != PERF_RECORD_MMAP2 &&
		    h->type != PERF_RECORD_COMM)
			continue;
		if (!pid || (__u32)s->record.words[0] == pid)
			return true;
	}
	return false;
}

static void log_record(struct __test_metadata *_metadata, const char *maker, const struct sampler *s)
{
	const struct event_record *r = &s->record;
	int i;

	TH_LOG("%s: record %u misc %#x size %u '%.60s'", maker, r->header.type, r->header.misc,
	       r->header.size, record_name(r));
	for (i = 0; i < 8; i++)
		TH_LOG("%s: word %d: %#llx", maker, i, r->words[i]);
}

/* Expects the same records in both rings, except IDs and times. Returns their number. */
static unsigned int expect_same(struct __test_metadata *_metadata, FIXTURE_DATA(mmap) *self,
				pid_t pid)
{
	struct sampler *perf = &self->sampler[PERF], *own = &self->sampler[PERFMON];
	struct sample end[MAKERS];
	unsigned int records = 0;
	/*
	 * The two records of a mapping may differ in time because the CPU stood still between them,
	 * but not by more than this.
	 */
	const __u64 most = 1000000000 + clock_ns() - self->opened;
	size_t words;

	for (;;) {
		bool has_more = next_record(perf, pid);

		EXPECT_EQ(has_more, next_record(own, pid)) {
			log_record(_metadata, has_more ? "perf alone" : "perfmon alone", has_more ? perf : own);
		}
		if (!has_more)
			return records;
		records++;
		words = perf->record.header.size / 8 - 1 - 6;
		if (memcmp(&perf->record.header, &own->record.header, 8) ||
		    memcmp(perf->record.words, own->record.words, 8 * words)) {
			log_record(_metadata, "perf", perf);
			log_record(_metadata, "perfmon", own);
			EXPECT_TRUE(false);
			return records;
		}
		ASSERT_TRUE(sample_parse_trailer(&perf->record, ALL_TRAILER_PARTS, &end[PERF]));
		ASSERT_TRUE(sample_parse_trailer(&own->record, ALL_TRAILER_PARTS, &end[PERFMON]));
		EXPECT_EQ(end[PERF].pid, end[PERFMON].pid);
		EXPECT_EQ(end[PERF].tid, end[PERFMON].tid);
		EXPECT_EQ(end[PERF].cpu, end[PERFMON].cpu);
		EXPECT_EQ(event_id(own->fd), end[PERFMON].id);
		EXPECT_LE(end[PERF].time > end[PERFMON].time ?
			  end[PERF].time - end[PERFMON].time :
			  end[PERFMON].time - end[PERF].time, most);
	}
}

/* Maps everything, and executes a program. */
static void map_and_execute(void)
{
	map_all();
	execl(PROGRAM, PROGRAM, "1000", NULL);
}

/* Executes, as another user, a program that belongs to root and is setuid. */
static void execute_setuid_program(void)
{
	if (setresuid(USER, USER, USER))
		_exit(1);
	execl(PLACE "_setuid", PROGRAM, "1000", NULL);
}

static void map_and_execute_setuid_program(void)
{
	map_all();
	execute_setuid_program();
}

/*
 * While both events record, lets a child call @run, which executes a program. Returns the number of
 * records.
 */
static unsigned int compare_runs(struct __test_metadata *_metadata, FIXTURE_DATA(mmap) *self,
				 const struct perf_event_attr *wanted, bool of_cpu, int cpu,
				 void (*run)(void))
{
	int start_pipe, status;
	pid_t pid = fork_waiting(&start_pipe);
	unsigned int records;

	ASSERT_LE(0, pid);
	if (!pid) {
		run();
		_exit(127);
	}
	open_both(_metadata, self, wanted, of_cpu ? -1 : pid, cpu);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	records = expect_same(_metadata, self, of_cpu ? pid : 0);
	sampler_close(&self->sampler[PERF]);
	sampler_close(&self->sampler[PERFMON]);
	return records;
}

static unsigned int compare(struct __test_metadata *_metadata, FIXTURE_DATA(mmap) *self,
			    const struct perf_event_attr *wanted, bool of_cpu, int cpu)
{
	return compare_runs(_metadata, self, wanted, of_cpu, cpu, map_and_execute);
}

/*
 * Both kinds of mapping records, with and without data mappings. (With mmap2 alone, perf would have
 * records only while other events ask for mmap.)
 */
static const struct {
	struct perf_event_attr attr;
	unsigned int least;
} wanted_records[] = {
	{ { .mmap = 1 }, 15 },
	{ { .mmap = 1, .mmap2 = 1 }, 15 },
	{ { .mmap = 1, .mmap2 = 1, .mmap_data = 1 }, 25 },
	{ { .mmap = 1, .mmap_data = 1 }, 25 },
	{ { .mmap_data = 1 }, 8 },
};

TEST_F(mmap, mappings_of_a_task_are_recorded_as_by_perf)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wanted_records); i++)
		EXPECT_LE(wanted_records[i].least,
			  compare(_metadata, self, &wanted_records[i].attr, false, -1));
}

TEST_F(mmap, mappings_of_inheriting_tasks_are_recorded)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1, .inherit = 1 };

	EXPECT_LE(25U, compare(_metadata, self, &wanted, false, self->cpu));
}

TEST_F(mmap, mappings_on_a_cpu_are_recorded)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1 };

	EXPECT_LE(25U, compare(_metadata, self, &wanted, true, self->cpu));
}

/*
 * A task in a PID namespace has other ids than the ids that an opener outside of the namespace
 * sees.
 */
TEST_F(mmap, mappings_of_a_task_in_a_pid_namespace_are_recorded_as_by_perf)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1 };

	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	EXPECT_LE(25U, compare(_metadata, self, &wanted, false, -1));
}

TEST_F(mmap, mappings_in_a_pid_namespace_are_recorded_on_a_cpu)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1 };

	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	EXPECT_LE(25U, compare(_metadata, self, &wanted, true, self->cpu));
}

TEST_F(mmap, openers_in_a_pid_namespace_get_the_records_of_perf)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1 };
	int status;
	pid_t pid;

	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		EXPECT_EQ(1, getpid());
		EXPECT_LE(25U, compare(_metadata, self, &wanted, false, -1));
		EXPECT_LE(25U, compare(_metadata, self, &wanted, true, self->cpu));
		_exit(!__test_passed(_metadata));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* The program that enables the events (enable_on_exec) is recorded: its name, then its mappings. */
TEST_F(mmap, program_that_enables_an_event_is_recorded)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1, .enable_on_exec = 1 };
	struct sampler *s = &self->sampler[PERFMON];
	int start_pipe, status;
	pid_t pid = fork_waiting(&start_pipe);

	ASSERT_LE(0, pid);
	if (!pid) {
		execl(PROGRAM, PROGRAM, "1000", NULL);
		_exit(127);
	}
	open_both(_metadata, self, &wanted, pid, -1);
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_LE(4U, expect_same(_metadata, self, 0));
	s->ring.page->data_tail = 0;
	ASSERT_TRUE(next_record(s, 0));
	EXPECT_EQ((__u32)PERF_RECORD_COMM, s->record.header.type);
	EXPECT_EQ((__u32)PERF_RECORD_MISC_COMM_EXEC, s->record.header.misc);
}

static void make_setuid_program(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, system("cp " PROGRAM " " PLACE "_setuid"));
	ASSERT_EQ(0, chmod(PLACE "_setuid", 04755));
}

/* Events of a task end at the execution, after the record of the name; those of a CPU do not. */
TEST_F(mmap, setuid_program_is_recorded_as_by_perf)
{
	struct perf_event_attr wanted = { .mmap = 1, .mmap2 = 1, .mmap_data = 1 };

	make_setuid_program(_metadata);
	EXPECT_EQ(1U, compare_runs(_metadata, self, &wanted, false, -1, execute_setuid_program));
	EXPECT_LE(25U, compare_runs(_metadata, self, &wanted, true, self->cpu,
				    map_and_execute_setuid_program));
	unlink(PLACE "_setuid");
}

/* Events of a task do not record mappings of a program that the user may not examine. */
TEST_F(mmap, setuid_program_is_not_recorded)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler[PERFMON];
	int start_pipe, status;
	pid_t pid = fork_waiting(&start_pipe);

	ASSERT_LE(0, pid);
	if (!pid) {
		execute_setuid_program();
		_exit(127);
	}
	make_setuid_program(_metadata);
	attr.mmap2 = 1;
	attr.mmap_data = 1;
	ASSERT_EQ(0, sampler_open(s, makers[PERFMON], &attr, pid, -1, ORDER));
	ASSERT_EQ(0, event_enable(s->fd));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	while (next_record(s, 0))
		EXPECT_EQ((__u32)PERF_RECORD_COMM, s->record.header.type) {
			log_record(_metadata, "perfmon", s);
		}
	unlink(PLACE "_setuid");
}

static void count_records(struct sampler *s, unsigned long *seen, unsigned long *lost)
{
	while (event_ring_next(&s->ring, &s->record)) {
		if (s->record.header.type == PERF_RECORD_LOST)
			*lost += s->record.words[1];
		else
			++*seen;
	}
}

/* A full ring records how many mappings were lost. */
TEST_F(mmap, full_ring_records_how_many_mappings_are_lost)
{
	const unsigned int mappings = 1000;
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler[PERFMON];
	unsigned long seen = 0, lost = 0;
	unsigned int i;

	attr.mmap2 = 1;
	ASSERT_EQ(0, sampler_open(s, makers[PERFMON], &attr, 0, -1, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	for (i = 0; i < mappings; i++)
		munmap(map_or_exit(-1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS),
		       getpagesize());
	count_records(s, &seen, &lost);
	EXPECT_LT(20UL, seen);
	map_or_exit(-1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	ASSERT_EQ(0, event_disable(s->fd));
	count_records(s, &seen, &lost);
	EXPECT_LT(0UL, lost);
	EXPECT_EQ(mappings + 1UL, seen + lost);
	EXPECT_EQ(1, event_fdinfo_number(s->fd, "mmap"));
}

/* Opening and closing events that record no mappings does not keep the probes. */
TEST_F(mmap, probes_are_removed_although_events_are_opened)
{
	struct perf_event_attr attr = recording_attr();
	int fd, i;

	attr.mmap2 = 1;
	fd = makers[PERFMON]->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(2, mapping_probes());
	close(fd);
	attr.mmap2 = 0;
	/* The probes are removed a second later, or even later on a busy host. */
	for (i = 0; i < 600 && mapping_probes(); i++) {
		fd = makers[PERFMON]->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		close(fd);
		usleep(100000);
	}
	EXPECT_EQ(0, mapping_probes());
}

/* The addresses of all samples of an executed program are in recorded mappings. */
TEST_F(mmap, samples_lie_in_mappings)
{
	static struct {
		__u64 start, size;
	} maps[64];
	struct perf_event_attr attr = event_every(PERIOD);
	struct sampler *s = &self->sampler[PERFMON];
	unsigned int count = 0, i;
	unsigned long samples = 0, outside = 0;
	int start_pipe, status;
	pid_t pid = fork_waiting(&start_pipe);

	ASSERT_LE(0, pid);
	if (!pid) {
		execl(PROGRAM, PROGRAM, "100000", NULL);
		_exit(127);
	}
	attr.mmap2 = 1;
	attr.enable_on_exec = 1;
	ASSERT_EQ(0, sampler_open(s, makers[PERFMON], &attr, pid, -1, ORDER));
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	while (event_ring_next(&s->ring, &s->record)) {
		struct sample sample;

		if (s->record.header.type == PERF_RECORD_MMAP2) {
			ASSERT_GT(ARRAY_SIZE(maps), count);
			maps[count].start = s->record.words[1];
			maps[count++].size = s->record.words[2];
		}
		if (s->record.header.type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(sample_parse(&s->record, &s->parts, &sample));
		samples++;
		for (i = 0; i < count; i++)
			if (sample.ip - maps[i].start < maps[i].size)
				break;
		outside += i == count;
	}
	EXPECT_LT(50UL, samples);
	EXPECT_EQ(0UL, outside);
}

/* An event without record bits has no records of mappings. */
TEST_F(mmap, only_requested_records_are_written)
{
	struct perf_event_attr attr = recording_attr();
	struct sampler *s = &self->sampler[PERFMON];

	ASSERT_EQ(0, sampler_open(s, makers[PERFMON], &attr, 0, -1, 0));
	ASSERT_EQ(0, event_enable(s->fd));
	map_or_exit(-1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	EXPECT_FALSE(next_record(s, 0));
	EXPECT_EQ(0, event_fdinfo_number(s->fd, "mmap"));
}

/* A user who may not use perf (perf_event_paranoid) gets records of their own tasks. */
TEST_F(mmap, unprivileged_user_gets_mapping_records)
{
	int start_pipe, status, before = paranoid_read();
	pid_t pid;

	ASSERT_EQ(0, paranoid_write(3));
	ASSERT_EQ(0, chown(_PATH_PERFMON, 0, GROUP));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0660));
	pid = fork_waiting(&start_pipe);
	ASSERT_LE(0, pid);
	if (!pid) {
		struct perf_event_attr attr = recording_attr();
		struct sampler *s = &self->sampler[PERFMON];

		attr.mmap2 = 1;
		if (setresgid(GROUP, GROUP, GROUP) || become_user(USER, 0))
			_exit(1);
		if (sampler_open(s, makers[PERFMON], &attr, 0, -1, 1) || event_enable(s->fd))
			_exit(2);
		map_or_exit(open("/proc/self/exe", O_RDONLY), PROT_READ | PROT_EXEC, MAP_PRIVATE);
		_exit(next_record(s, 0) && strstr(record_name(&s->record), "event_mmap") ? 0 : 3);
	}
	ASSERT_EQ(1, write(start_pipe, "", 1));
	close(start_pipe);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, paranoid_write(before));
	EXPECT_EQ(0, chown(_PATH_PERFMON, 0, 0));
	EXPECT_EQ(0, chmod(_PATH_PERFMON, 0600));
}

TEST_HARNESS_MAIN
