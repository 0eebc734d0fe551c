// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page of an event: exact counts by RDPMC on every CPU that the task moves to, and no RDPMC
 * for tasks without a page.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "event_page.h"
#include "fixture.h"
#include "loop.h"
#include "samples.h"
#include "target.h"

#define N	10000UL

FIXTURE(event)
{
	struct target target;
	int fd;
	struct perf_event_mmap_page *page;
	cpu_set_t cpus;
};

#define EVENT_OVERFLOWS
#include "event_fixture.h"

static void *map(int fd)
{
	void *page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->fd = open_instructions(_metadata, variant->maker, 0);
	self->page = map(self->fd);
	ASSERT_NE(NULL, self->page);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	if (self->page)
		munmap(self->page, getpagesize());
	close(self->fd);
	restore_maker(_metadata, variant);
}

/*
 * Counts loop(@n) by the page. The function is not inlined, like page_read(). Starts over if the
 * page changed while it was read, since a second attempt to read would also count the instructions
 * of the first attempt.
 */
static __attribute__((noinline)) __s64
count_by_page(const struct perf_event_mmap_page *page, unsigned long n)
{
	struct page_value before, after;

	do {
		before = page_read(page);
		loop(n);
		after = page_read(page);
	} while (after.tries > 1);
	return after.count - before.count;
}

TEST_F(event, page_describes_the_counter)
{
	struct perfmon_properties p;

	EXPECT_EQ(0U, self->page->index);
	ASSERT_EQ(0, event_enable(self->fd));
	EXPECT_EQ(1U, (unsigned int)self->page->cap_user_rdpmc);
	EXPECT_EQ(1U, (unsigned int)self->page->cap_bit0_is_deprecated);
	EXPECT_NE(0U, self->page->index);
	ASSERT_EQ(0, machine_properties(&p));
	EXPECT_EQ((self->page->index - 1) & PMC_FIXED_BASE ?
		  p.max_fixed_counter_width : p.max_programmable_counter_width,
		  self->page->pmc_width);
	/* The lock is even when no update is in progress. */
	EXPECT_EQ(0U, self->page->lock % 2);
}

TEST_F(event, page_of_a_disabled_event_has_the_count)
{
	struct page_value v;

	EXPECT_LT(0, event_loop_count(self->fd, N));
	v = page_read(self->page);
	EXPECT_EQ(0U, v.index);
	EXPECT_EQ(event_count(self->fd), v.count);
}

TEST_F(event, reset_is_seen_in_the_page)
{
	EXPECT_LT(0, event_loop_count(self->fd, N));
	ASSERT_EQ(0, event_reset(self->fd));
	EXPECT_EQ(0, page_read(self->page).count);
}

TEST_F(event, reset_while_it_counts_is_seen_in_the_page)
{
	ASSERT_EQ(0, event_enable(self->fd));
	loop(N);
	ASSERT_EQ(0, event_reset(self->fd));
	EXPECT_GT(CALL_OVERHEAD, page_read(self->page).count);
	EXPECT_LE(0, page_read(self->page).count);
}

/* perf's page is then wrong by the range of the counter. */
XFAIL_ADD(event, perf, reset_while_it_counts_is_seen_in_the_page);

TEST_F(event, count_by_rdpmc_is_exact)
{
	__s64 least;
	unsigned long n;

	ASSERT_EQ(0, event_enable(self->fd));
	least = count_by_page(self->page, 1);
	ASSERT_NE(0U, page_read(self->page).index);
	EXPECT_LE((__s64)LOOP_INSNS, least);
	EXPECT_GE((__s64)LOOP_INSNS + CALL_OVERHEAD, least);
	for (n = 2; n < 3000; n++)
		ASSERT_EQ(least + (__s64)(LOOP_INSNS * (n - 1)), count_by_page(self->page, n));
	for (n = 1; n <= 20; n++)
		ASSERT_EQ(least + (__s64)(LOOP_INSNS * (n * N - 1)),
			  count_by_page(self->page, n * N));
}

/* read(2) after the page counts only the instructions in between. */
TEST_F(event, page_and_read_agree)
{
	__s64 by_read, by_page, first = 0;
	int i;

	ASSERT_EQ(0, event_enable(self->fd));
	for (i = 0; i < 100; i++) {
		by_page = page_read(self->page).count;
		by_read = event_count(self->fd);
		ASSERT_LT(0, by_read - by_page);
		ASSERT_GT(CALL_OVERHEAD, by_read - by_page);
		if (i)
			ASSERT_EQ(first, by_read - by_page);
		first = by_read - by_page;
		loop(N);
	}
}

TEST_F(event, count_is_exact_on_every_cpu)
{
	struct page_value before, after;
	__s64 least, value;
	cpu_set_t set;
	int i, cpu;

	ASSERT_EQ(0, event_enable(self->fd));
	least = count_by_page(self->page, 1);
	for (i = 0; i < 50; i++) {
		for_each_cpu_in(cpu, &self->cpus) {
			ASSERT_EQ(0, pin_to_cpu(cpu));
			ASSERT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)),
				  count_by_page(self->page, N));
			ASSERT_NE(0U, page_read(self->page).index);
		}
	}

	/* In each case, exactly one system call, which moves the task, is between the two reads. */
	CPU_ZERO(&set);
	for (i = 0, value = 0; i < 50; i++) {
		for_each_cpu_in(cpu, &self->cpus) {
			CPU_SET(cpu, &set);
			before = page_read(self->page);
			loop(N);
			sched_setaffinity(0, sizeof(set), &set);
			loop(N);
			after = page_read(self->page);
			CPU_CLR(cpu, &set);
			/* Starts over if the page has changed, as count_by_page() does. */
			if (after.tries > 1)
				continue;
			if (value)
				ASSERT_EQ(value, after.count - before.count);
			value = after.count - before.count;
		}
	}
	EXPECT_LE((__s64)(2 * LOOP_INSNS * N), value);
	EXPECT_GE((__s64)(2 * LOOP_INSNS * N) + CALL_OVERHEAD, value);
}

/* Another task with an event on the same CPU causes many switches. */
TEST_F(event, count_is_exact_beside_another_task)
{
	int i, fd, cpu = pin_to_first_cpu();
	__s64 least;

	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, target_start(&self->target, cpu, false));
	fd = open_instructions(_metadata, variant->maker, self->target.tid);
	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, event_enable(self->fd));
	least = count_by_page(self->page, 1);
	ASSERT_EQ(0, target_start_job(&self->target, (struct job) { 100, 20000, STEP_YIELD }));
	for (i = 0; i < 20000 && !target_is_done(&self->target); i++) {
		ASSERT_EQ(least + (__s64)(LOOP_INSNS * 199), count_by_page(self->page, 200));
		if (i % 4)
			sched_yield();
	}
	TH_LOG("%d reads", i);
	ASSERT_EQ(0, target_wait_job(&self->target));
	close(fd);
}

/* perf gives each event a counter; the module's events that count the same share a counter. */
TEST_F(event, two_events_with_pages_are_exact)
{
	int fd = open_instructions(_metadata, variant->maker, 0);
	struct perf_event_mmap_page *page = map(fd);
	__s64 first, second, least;

	ASSERT_NE(NULL, page);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, event_enable(fd));
	EXPECT_EQ(variant->maker == &event_maker_perfmon,
		  page_read(self->page).index == page_read(page).index);
	least = count_by_page(page, 1);
	first = count_by_page(self->page, N);
	second = count_by_page(page, N);
	EXPECT_EQ(first, second);
	EXPECT_EQ(least + (__s64)(LOOP_INSNS * (N - 1)), second);
	munmap(page, getpagesize());
	close(fd);
	EXPECT_EQ(first, count_by_page(self->page, N));
}

/* The page of another task's event is right while that task does not run. */
TEST_F(event, page_of_another_tasks_event_is_right)
{
	struct perf_event_mmap_page *page;
	struct page_value v;
	__s64 count;
	int fd, i;

	ASSERT_EQ(0, target_start(&self->target, -1, false));
	fd = open_instructions(_metadata, variant->maker, self->target.tid);
	page = map(fd);
	ASSERT_NE(NULL, page);
	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, target_run_job(&self->target, (struct job) { N, 10, STEP_MOVE }));
	/* The target still executes a little after it has reported the end of its job. */
	for (i = 0; i < 60000; i++) {
		v = page_read(page);
		count = event_count(fd);
		if (!v.index && v.count == count)
			break;
		usleep(1000);
	}
	EXPECT_EQ(0U, v.index);
	EXPECT_EQ(count, v.count);
	EXPECT_LE((__s64)(10 * LOOP_INSNS * N), v.count);
	munmap(page, getpagesize());
	close(fd);
}

/* Executes RDPMC in a child. Returns 0, or the signal that ended the child. */
static int rdpmc_in_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_DUMPABLE, 0);
		rdpmc(0);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFSIGNALED(status) ? WTERMSIG(status) : status;
}

static sigjmp_buf after_rdpmc;

static void on_signal(int signal)
{
	siglongjmp(after_rdpmc, signal);
}

/* Executes RDPMC in this thread. Returns 0, or the signal that RDPMC has caused. */
static int rdpmc_here(void)
{
	struct sigaction action = { .sa_handler = on_signal }, before;
	int result;

	sigaction(SIGSEGV, &action, &before);
	result = sigsetjmp(after_rdpmc, 1);
	if (!result)
		rdpmc(0);
	sigaction(SIGSEGV, &before, NULL);
	return result;
}

static void *rdpmc_on_each_cpu(void *cpus)
{
	long failed = 0;
	int cpu;

	for_each_cpu_in(cpu, (cpu_set_t *)cpus)
		failed += pin_to_cpu(cpu) || rdpmc_here();
	return (void *)failed;
}

TEST_F(event, rdpmc_is_for_the_process_with_a_page)
{
	pthread_t thread;
	void *failed;

	EXPECT_EQ(0, rdpmc_here());
	EXPECT_EQ(NULL, rdpmc_on_each_cpu(&self->cpus));
	/* Mappings belong to the memory, so all threads may execute RDPMC. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, rdpmc_on_each_cpu, &self->cpus));
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	/* A child has a copy of the memory, without this mapping. */
	EXPECT_EQ(variant->maker->children_keep_rdpmc ? 0 : SIGSEGV, rdpmc_in_child());
	EXPECT_EQ(0, rdpmc_here());
}

TEST_F(event, rdpmc_ends_with_the_last_page)
{
	void *again = map(self->fd);

	ASSERT_NE(NULL, again);
	munmap(again, getpagesize());
	EXPECT_EQ(0, rdpmc_here());
	/* The mapping keeps the event open. */
	close(self->fd);
	EXPECT_EQ(0, rdpmc_here());
	munmap(self->page, getpagesize());
	self->page = NULL;
	self->fd = -1;
	EXPECT_EQ(SIGSEGV, rdpmc_here());
	EXPECT_EQ((void *)(long)CPU_COUNT(&self->cpus), rdpmc_on_each_cpu(&self->cpus));
	EXPECT_EQ(SIGSEGV, rdpmc_in_child());
}

/* The right goes with the page to its new address, and no mapping is left at the old one. */
TEST_F(event, moved_page_keeps_the_right)
{
	const size_t size = getpagesize();
	void *to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__s64 before;

	ASSERT_NE(MAP_FAILED, to);
	ASSERT_EQ(0, event_enable(self->fd));
	before = count_by_page(self->page, N);
	self->page = mremap(self->page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	ASSERT_EQ(to, self->page);
	EXPECT_EQ(NULL, rdpmc_on_each_cpu(&self->cpus));
	EXPECT_EQ(before, count_by_page(self->page, N));
	munmap(self->page, size);
	self->page = NULL;
	EXPECT_EQ((void *)(long)CPU_COUNT(&self->cpus), rdpmc_on_each_cpu(&self->cpus));
}

/* A mapping of the page with a ring may lose its parts one after the other. */
TEST_F(event, part_of_a_mapping_keeps_the_right)
{
	const size_t size = getpagesize();
	char *parts;

	munmap(self->page, size);
	self->page = NULL;
	EXPECT_EQ(SIGSEGV, rdpmc_here());
	parts = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)parts);
	EXPECT_EQ(0, rdpmc_here());
	/* perf splits no mapping from Linux 6.17 on. */
	if (munmap(parts + size, size)) {
		munmap(parts, 3 * size);
		EXPECT_EQ(SIGSEGV, rdpmc_here());
		ASSERT_FALSE(variant->maker == &event_maker_perfmon);
		return;
	}
	EXPECT_EQ(NULL, rdpmc_on_each_cpu(&self->cpus));
	munmap(parts, size);
	EXPECT_EQ(NULL, rdpmc_on_each_cpu(&self->cpus));
	munmap(parts + 2 * size, size);
	EXPECT_EQ((void *)(long)CPU_COUNT(&self->cpus), rdpmc_on_each_cpu(&self->cpus));
}

/* A CPU that goes offline and comes back has the right for the program, and for no other. */
TEST_F(event, page_is_right_after_hotplug)
{
	int home, cpu, online;
	__s64 before;

	if (cpu_find_hotpluggable(&home, &cpu, &online))
		SKIP(return, "this takes two CPUs, one of which can be switched off");
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	before = count_by_page(self->page, N);
	ASSERT_EQ(0, pin_to_cpu(home));
	ASSERT_EQ(0, cpu_set_online(online, "0"));
	EXPECT_EQ(before, count_by_page(self->page, N));
	ASSERT_EQ(0, cpu_set_online(online, "1"));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	EXPECT_EQ(before, count_by_page(self->page, N));
	EXPECT_EQ(variant->maker->children_keep_rdpmc ? 0 : SIGSEGV, rdpmc_in_child());
	munmap(self->page, getpagesize());
	self->page = NULL;
	EXPECT_EQ(SIGSEGV, rdpmc_here());
	close(online);
}

static struct {
	int fd;
	bool stop;
} mapper;

static void *map_and_unmap(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&mapper.stop, __ATOMIC_RELAXED))
		munmap(map(mapper.fd), getpagesize());
	return NULL;
}

/* Forks while a page is mapped and unmapped again and again. */
TEST_F(event, child_has_no_rdpmc_whenever_it_is_forked)
{
	int kept = 0, forks;
	pthread_t thread;

	if (variant->maker->children_keep_rdpmc)
		return;
	munmap(self->page, getpagesize());
	self->page = NULL;
	mapper.fd = self->fd;
	ASSERT_EQ(0, pthread_create(&thread, NULL, map_and_unmap, NULL));
	for (forks = 0; forks < 40 && !kept; forks++)
		kept = rdpmc_in_child() != SIGSEGV;
	__atomic_store_n(&mapper.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, kept) {
		TH_LOG("child %d", forks);
	}
}

/*
 * A child with a copy of the page would have an uncounted right of its own to RDPMC. As with perf's
 * page, a program can't ask for a copy (MADV_DOFORK).
 */
TEST_F(event, child_has_no_copy_of_the_page)
{
	EXPECT_EQ(-1, madvise(self->page, getpagesize(), MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	if (!variant->maker->children_keep_rdpmc)
		EXPECT_EQ(SIGSEGV, rdpmc_in_child());
}

/*
 * Another program maps the page of this task's event. In that program, RDPMC would cause a SIGSEGV.
 */
TEST_F(event, page_that_another_program_maps_refuses_rdpmc)
{
	int ask[2], answer[2], status;
	struct page_value v;
	void *page;
	pid_t pid;
	char c;

	/* perf lets the other program execute RDPMC, which reads the counter of another CPU. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, pipe(ask));
	ASSERT_EQ(0, pipe(answer));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		page = map(self->fd);
		if (!page || ((struct perf_event_mmap_page *)page)->cap_user_rdpmc)
			_exit(1);
		if (write(answer[1], "", 1) != 1 || read(ask[0], &c, 1) != 1)
			_exit(2);
		munmap(page, getpagesize());
		_exit(0);
	}
	ASSERT_EQ(1, read(answer[0], &c, 1));
	loop(N);
	v = page_read(self->page);
	EXPECT_EQ(0U, (unsigned int)self->page->cap_user_rdpmc);
	EXPECT_EQ(0U, v.index);
	EXPECT_GE(event_count(self->fd), v.count);
	/* Further mappings of this program do not allow RDPMC again. */
	page = map(self->fd);
	ASSERT_NE(NULL, page);
	munmap(page, getpagesize());
	EXPECT_EQ(0U, (unsigned int)self->page->cap_user_rdpmc);
	ASSERT_EQ(1, write(ask[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(1U, (unsigned int)self->page->cap_user_rdpmc);
	EXPECT_NE(0U, page_read(self->page).index);
	EXPECT_EQ((__s64)(LOOP_INSNS * N), count_by_page(self->page, 2 * N) -
		  count_by_page(self->page, N));
	close(ask[0]);
	close(ask[1]);
	close(answer[0]);
	close(answer[1]);
}

static struct {
	const struct event_maker *maker;
	pid_t child;		/* process id; 0: not yet */
	unsigned int cap_while_shared, cap_after_exec;	/* cap_user_rdpmc while shared, after exec */
	__u32 index;
	__s64 counted;
} vfork_parent;

/* Maps the page of an event of the other thread's child, while vfork(2) shares the memory. */
static void *watch_child(void *unused)
{
	struct perf_event_mmap_page *page;
	int fd, tries;
	__s64 before;
	pid_t child;

	(void)unused;
	while (!(child = __atomic_load_n(&vfork_parent.child, __ATOMIC_ACQUIRE)))
		usleep(1000);
	fd = event_open_instructions(vfork_parent.maker, child);
	page = map(fd);
	if (!page || event_enable(fd)) {
		kill(child, SIGKILL);
		return "no page";
	}
	vfork_parent.cap_while_shared = page->cap_user_rdpmc;
	__atomic_store_n(&vfork_parent.child, 0, __ATOMIC_RELEASE);
	for (tries = 0; page->cap_user_rdpmc && tries < 60000; tries++)
		usleep(1000);
	before = event_count(fd);
	/*
	 * Waits for some switches, and until the child has run: RDPMC must stay refused all the
	 * time.
	 */
	usleep(100000);
	for (tries = 0; event_count(fd) == before && tries < 60000; tries++)
		usleep(1000);
	vfork_parent.cap_after_exec = page->cap_user_rdpmc;
	vfork_parent.index = page->index;
	vfork_parent.counted = event_count(fd) - before;
	kill(child, SIGKILL);
	munmap(page, getpagesize());
	close(fd);
	return NULL;
}

TEST_F(event, page_of_a_vfork_child_refuses_rdpmc_after_exec)
{
	pthread_t thread;
	void *failed;
	int status;
	pid_t pid;

	/* perf's page allows RDPMC, which reads the counter of another CPU. */
	if (variant->maker == &event_maker_perf)
		return;
	memset(&vfork_parent, 0, sizeof(vfork_parent));
	vfork_parent.maker = variant->maker;
	ASSERT_EQ(0, pthread_create(&thread, NULL, watch_child, NULL));
	pid = vfork();
	if (!pid) {
		__atomic_store_n(&vfork_parent.child, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
		while (__atomic_load_n(&vfork_parent.child, __ATOMIC_ACQUIRE))
			syscall(SYS_sched_yield);
		execl("/proc/self/exe", "loop", "--loop", NULL);
		_exit(127);
	}
	ASSERT_LE(0, pid);
	ASSERT_EQ(0, pthread_join(thread, &failed));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(NULL, failed);
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	/*
	 * While the child shares the memory, its page counts as the page of a thread of this
	 * program.
	 */
	EXPECT_EQ(1U, vfork_parent.cap_while_shared);
	EXPECT_EQ(0U, vfork_parent.cap_after_exec);
	EXPECT_EQ(0U, vfork_parent.index);
	EXPECT_LT(0, vfork_parent.counted);
}

/* Microseconds: longer than the module follows tasks after its last event. */
#define HOOKS_LINGER_US	2500000

/* Returns whether a traced child has stopped at the entry of clone(2). */
static bool is_at_clone(pid_t pid)
{
	struct __ptrace_syscall_info info = {};

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_clone;
}

/*
 * Starts a process whose fork takes long: it stops at the entry, until end_fork(). Returns its PID,
 * or -1.
 */
static pid_t start_fork(void)
{
	pid_t pid = fork(), child;
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!child)
			_exit(0);
		_exit(waitpid(child, &status, 0) != child || status);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (is_at_clone(pid))
			return pid;
		/* Without this option a stop at a system call says nothing about the call. */
		ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
	}
	return -1;
}

/* Lets the fork end. Returns whether the process and its child have exited well. */
static bool end_fork(pid_t pid)
{
	int status;

	ptrace(PTRACE_DETACH, pid, 0, 0);
	return waitpid(pid, &status, 0) == pid && !status;
}

/*
 * Calls rdpmc_in_child() while a page of perf is mapped. Only a task that the module follows loses
 * the right to RDPMC.
 */
static int rdpmc_in_child_of_perfs(void)
{
	struct perf_event_attr attr = event_instructions();
	int fd = event_maker_perf.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC), result;
	void *page;

	if (fd < 0)
		return fd;
	page = map(fd);
	result = page ? rdpmc_in_child() : -ENOMEM;
	munmap(page, getpagesize());
	close(fd);
	return result;
}

/*
 * Waits until the module no longer follows tasks. This takes longer on a busy host. Checks it only
 * rarely, since each check forks, and a fork keeps the hooks. Returns false if the hooks stay.
 */
static bool wait_until_hooks_have_gone(void)
{
	int i;

	for (i = 0; i < 30; i++) {
		usleep(HOOKS_LINGER_US);
		if (!rdpmc_in_child_of_perfs())
			return true;
	}
	return false;
}

/*
 * A fork that began while a page was mapped copies the right to its child. The child loses the
 * right, because the module follows tasks until the fork has ended, even if the fork takes long.
 */
TEST_F(event, tasks_are_followed_while_a_fork_is_under_way)
{
	pid_t forking;

	if (variant->maker->children_keep_rdpmc || variant->parameters)
		return;
	/* The mapping keeps the event open. The child does not have the mapping. */
	close(self->fd);
	self->fd = -1;
	forking = start_fork();
	ASSERT_LT(0, forking);
	munmap(self->page, getpagesize());
	self->page = NULL;
	usleep(HOOKS_LINGER_US);
	EXPECT_EQ(SIGSEGV, rdpmc_in_child_of_perfs());
	EXPECT_TRUE(end_fork(forking));
	EXPECT_TRUE(wait_until_hooks_have_gone());
}

/* A new program has no right to execute RDPMC either. */
TEST_F(event, new_program_has_no_rdpmc)
{
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid) {
		/* Maps a page, then executes a program that has no page. */
		self->fd = event_open_instructions(variant->maker, 0);
		if (self->fd < 0 || !map(self->fd) || rdpmc_here())
			_exit(1);
		execl("/proc/self/exe", "rdpmc", "--rdpmc", NULL);
		_exit(127);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGSEGV, WTERMSIG(status));
}

/* Counts everything that runs on a CPU, and reads the page on this CPU. */
TEST_F(event, page_of_a_cpus_event_is_exact)
{
	struct perf_event_attr attr = event_instructions();
	int fd, cpu = pin_to_first_cpu();
	struct perf_event_mmap_page *page;
	__s64 value;

	ASSERT_LE(0, cpu);
	attr.disabled = 0;
	fd = variant->maker->open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	page = map(fd);
	ASSERT_NE(NULL, page);
	/* A page need not allow RDPMC: an index of 0 refers to read(2). */
	if (page_read(page).index) {
		value = count_by_page(page, 100 * N);
		EXPECT_LE((__s64)(100 * LOOP_INSNS * N), value);
		EXPECT_GT((__s64)(101 * LOOP_INSNS * N), value);
	}
	munmap(page, getpagesize());
	close(fd);
}

/* Returns the counter's value without the page's offset: negative until it overflows. */
static __s64 raw_counter(const struct perf_event_mmap_page *page)
{
	__u32 index = __atomic_load_n(&page->index, __ATOMIC_RELAXED);

	__u64 bits = index ? rdpmc(index - 1) : 0;

	return (__s64)(bits << (64 - page->pmc_width)) >> (64 - page->pmc_width);
}

/*
 * The counter that a program reads by RDPMC must not show how far another task on this CPU is in
 * its sample period.
 */
TEST_F(event, counter_does_not_reveal_another_tasks_progress)
{
	struct perf_event_attr attr = event_every(1009);
	struct sampler sampler = { .fd = -1 };
	__s64 value;
	pid_t pid;
	int i;

	/* perf's counter shows the other task's progress. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_LE(0, pin_to_first_cpu());
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (sampler_open(&sampler, variant->maker, &attr, 0, -1, 0) ||
		    event_enable(sampler.fd))
			_exit(1);
		for (;;)
			loop(N);
	}
	ASSERT_EQ(0, event_enable(self->fd));
	for (i = 0; i < 100; i++) {
		usleep(1000);
		value = raw_counter(self->page);
		ASSERT_NE(0, value);
		EXPECT_GT(-10000, value);
	}
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
}

/*
 * Forks a child that may execute RDPMC, since a page of perf's event is mapped at that moment.
 * The module does not follow the child, which has no event of the module. When perf's event has
 * been closed, the child answers each byte with the value of the counter.
 */
static pid_t child_that_perf_left_rdpmc(unsigned int index, const int ask[2], const int answer[2])
{
	struct perf_event_attr attr = event_instructions();
	int fd = event_maker_perf.open(&attr, 0, -1, -1, 0);
	__u64 value = 0;
	pid_t pid;
	void *page;
	char c;

	if (fd < 0)
		return fd;
	page = map(fd);
	pid = page ? fork() : -ENOMEM;
	if (!pid) {
		close(fd);
		close(ask[1]);
		/* The first answer says that the event is closed here. */
		while (write(answer[1], &value, sizeof(value)) == sizeof(value)) {
			if (read(ask[0], &c, 1) != 1)
				_exit(0);
			value = rdpmc(index);
		}
		_exit(1);
	}
	munmap(page, getpagesize());
	close(fd);
	if (pid > 0 && read(answer[0], &value, sizeof(value)) != sizeof(value))
		return -EPIPE;
	return pid;
}

TEST_F(event, counter_reveals_nothing_to_a_child_of_perf)
{
	int ask[2], answer[2], status;
	__u64 before, after;
	unsigned int index;
	pid_t pid;

	/* One variant suffices, since the child has its right from perf in both. */
	if (variant->maker == &event_maker_perf)
		return;
	ASSERT_LE(0, pin_to_first_cpu());
	ASSERT_EQ(0, event_enable(self->fd));
	index = self->page->index - 1;
	munmap(self->page, getpagesize());
	self->page = NULL;
	close(self->fd);
	self->fd = -1;
	ASSERT_TRUE(wait_until_hooks_have_gone());
	ASSERT_EQ(0, pipe(ask));
	ASSERT_EQ(0, pipe(answer));
	pid = child_that_perf_left_rdpmc(index, ask, answer);
	ASSERT_LE(0, pid);
	self->fd = open_instructions(_metadata, variant->maker, 0);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(1, write(ask[1], "", 1));
	ASSERT_EQ(8, read(answer[0], &before, sizeof(before)));
	loop(100 * N);
	ASSERT_EQ(1, write(ask[1], "", 1));
	ASSERT_EQ(8, read(answer[0], &after, sizeof(after)));
	EXPECT_GT((__s64)(100 * N), (__s64)(after - before)) {
		TH_LOG("%llu, then %llu", before, after);
	}
	close(ask[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(ask[0]);
	close(answer[0]);
	close(answer[1]);
}

TEST_F(event, invalid_mappings_are_refused)
{
	long size = getpagesize();

	/*
	 * Tries a private mapping, a mapping from the second page on, and a size that is not 1 +
	 * 2^n pages.
	 */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_PRIVATE, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, self->fd, size));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4 * size, PROT_READ, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	/* The existing page still works. */
	EXPECT_EQ(0, rdpmc_here());
}

/* An inherited event on any CPU has no page, since several tasks would share the page at once. */
TEST_F(event, page_of_an_inherited_event_is_refused)
{
	struct perf_event_attr attr = event_instructions();
	void *page;
	int fd;

	attr.inherit = 1;
	fd = variant->maker->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);
	EXPECT_EQ(MAP_FAILED, page);
	EXPECT_EQ(EINVAL, errno);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--rdpmc")) {
		rdpmc(0);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--loop"))
		for (;;)
			loop(N);
	return test_harness_run(argc, argv);
}
