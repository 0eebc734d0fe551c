// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/futex.h>

#include "cpu.h"
#include "event.h"
#include "idle.h"
#include "loop.h"
#include "tree.h"

#define MAX_TASKS	24
#define MAX_N		20000
#define STACK		16384
#define PROGRAM		"/usr/lib/perfmon/pmctl_loop"

enum task_kind {
	KIND_FORK,
	KIND_VFORK,	/* its parent sleeps until it exits */
	KIND_THREAD,
	KIND_EXEC,	/* executes a program with a loop */
	KIND_VFORK_EXEC,
	KIND_KILLED,	/* killed by the test, after its loops and its children */
	KIND_SUICIDE,	/* kills itself */
	KIND_ORPHAN,	/* its parent exits first */
	KINDS
};

static const char *const kind_names[KINDS] = {
	"fork", "vfork", "thread", "exec", "vfork and exec", "killed", "suicide", "orphan",
};

/* A task: a node of the tree. Children have higher numbers than their parent. */
struct tree_task {
	enum task_kind kind;
	int parent;
	int cpu;		/* the CPU that the task pins itself to, or -1 */
	int first_cgroup;	/* descriptor of the cgroup.procs that the task writes to first, or -1 */
	int next_cgroup;	/* descriptor of the cgroup.procs that it writes to after its first loop, or -1 */
	unsigned long before;	/* rounds of the loop before its children */
	unsigned long after;	/* rounds of the loop after its children */
	unsigned long loops[2];	/* rounds of the two loops in this run */
	char n[8];		/* KIND_EXEC: the rounds as an argument */
	char *argv[3];
	pid_t pid;
	pid_t alive;		/* KIND_THREAD: its id until the kernel has ended it */
};

static struct {
	struct tree_task task[MAX_TASKS];
	int count;
	cpu_set_t only_cpu[CPU_SETSIZE];
	int victims[2];		/* pipe: ids of tasks to be killed */
	char stack[MAX_TASKS][STACK] __attribute__((aligned(16)));
} tree;

/*
 * Makes a system call without the C library, whose code could depend on the result.
 * Programs of 32 bits have no trees.
 */
#ifdef __x86_64__
static __always_inline long raw_syscall(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall" : "=a" (result)
			 : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10)
			 : "rcx", "r11", "memory");
	return result;
}
#else
#define raw_syscall	syscall
#endif

static void run_task(struct tree_task *t);

/* The start of a new thread, on its own stack. */
static int run_thread(void *task)
{
	run_task(task);
	return 0;
}

/* Moves the process to a cgroup, unless @procs is -1. */
static __always_inline void enter_cgroup(int procs)
{
	if (procs >= 0)
		raw_syscall(SYS_write, procs, (long)"0", 1, 0);
}

static void exec_loop(struct tree_task *t)
{
	static char *const empty[] = { NULL };

	enter_cgroup(t->first_cgroup);
	raw_syscall(SYS_execve, (long)PROGRAM, (long)t->argv, (long)empty, 0);
	raw_syscall(SYS_exit_group, 127, 0, 0, 0);
}

static void start_task(struct tree_task *t)
{
	long pid;

	switch (t->kind) {
	case KIND_THREAD:
		t->pid = clone(run_thread, tree.stack[t - tree.task] + STACK,
			       CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
			       CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |
			       CLONE_CHILD_CLEARTID, t, &t->alive, NULL, &t->alive);
		return;
	case KIND_VFORK:
	case KIND_VFORK_EXEC:
		/* Shares memory: clone(2) with a stack, as a child may not return. */
		t->pid = clone(run_thread, tree.stack[t - tree.task] + STACK,
			       CLONE_VM | CLONE_VFORK | SIGCHLD, t);
		return;
	default:
		pid = raw_syscall(SYS_clone, SIGCHLD, 0, 0, 0);
		if (!pid) {
			if (t->kind == KIND_EXEC)
				exec_loop(t);
			run_task(t);
		}
		t->pid = pid;
	}
}

/*
 * Waits for a task's end. Always makes exactly one system call, even if the task no longer exists.
 */
static void wait_for_task(struct tree_task *t)
{
	if (t->kind == KIND_THREAD)
		raw_syscall(SYS_futex, (long)&t->alive, FUTEX_WAIT, t->pid, 0);
	else if (t->kind != KIND_ORPHAN)
		raw_syscall(SYS_wait4, t->pid, 0, 0, 0);
}

static void end_task(struct tree_task *t)
{
	long pid;

	switch (t->kind) {
	case KIND_THREAD:
		raw_syscall(SYS_exit, 0, 0, 0, 0);
		break;
	case KIND_KILLED:
		pid = raw_syscall(SYS_getpid, 0, 0, 0, 0);
		raw_syscall(SYS_write, tree.victims[1], (long)&pid, sizeof(pid), 0);
		raw_syscall(SYS_pause, 0, 0, 0, 0);
		break;
	case KIND_SUICIDE:
		raw_syscall(SYS_kill, raw_syscall(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
		break;
	default:
		break;
	}
	raw_syscall(SYS_exit_group, 0, 0, 0, 0);
}

/* Executes a task: its loops and its children. Does not return. */
static void run_task(struct tree_task *t)
{
	int self = t - tree.task, i;

	if (t->kind == KIND_VFORK_EXEC)
		exec_loop(t);
	if (t->cpu >= 0)
		raw_syscall(SYS_sched_setaffinity, 0, sizeof(cpu_set_t),
		     (long)&tree.only_cpu[t->cpu], 0);
	enter_cgroup(t->first_cgroup);
	loop(t->loops[0]);
	enter_cgroup(t->next_cgroup);
	for (i = self + 1; i < tree.count; i++)
		if (tree.task[i].parent == self)
			start_task(&tree.task[i]);
	loop(t->loops[1]);
	for (i = self + 1; i < tree.count; i++)
		if (tree.task[i].parent == self)
			wait_for_task(&tree.task[i]);
	end_task(t);
}

static bool has_children(enum task_kind kind)
{
	return kind != KIND_EXEC && kind != KIND_VFORK_EXEC;
}

__u64 tree_make(struct rng *r, const cpu_set_t *cpus)
{
	__u64 sum = 0;
	struct tree_task *t;
	int i, cpu;

	for_each_cpu_in(cpu, cpus)
		CPU_SET(cpu, &tree.only_cpu[cpu]);
	tree.count = 1 + rng_below(r, MAX_TASKS);
	for (i = 0; i < tree.count; i++) {
		t = &tree.task[i];
		*t = (struct tree_task) { .cpu = -1, .first_cgroup = -1, .next_cgroup = -1 };
		do {
			t->parent = i ? (int)rng_below(r, i) : -1;
		} while (i && !has_children(tree.task[t->parent].kind));
		if (i)
			t->kind = rng_below(r, KINDS);
		for_each_cpu_in(cpu, cpus)
			if (rng_once_in(r, 4))
				t->cpu = cpu;
		t->before = 1 + rng_below(r, MAX_N);
		t->after = 1 + rng_below(r, MAX_N);
		if (has_children(t->kind))
			sum += LOOP_INSNS * (t->before - 1 + t->after - 1);
		else
			sum += LOOP_INSNS * (t->before - 1);
	}
	return sum;
}

/* Returns a random cgroup; in some cases, the task's present cgroup. */
static int next_cgroup(struct rng *r, int count, int present)
{
	return rng_once_in(r, 2) ? (int)rng_below(r, count) : present;
}

void tree_use_cgroups(struct rng *r, const int *procs, int count, __u64 *expected)
{
	/* The cgroup in which the children of each task begin. */
	int last[MAX_TASKS], i, first;
	struct tree_task *t;

	for (i = 0; i < count; i++)
		expected[i] = 0;
	for (i = 0; i < tree.count; i++) {
		t = &tree.task[i];
		first = i ? last[t->parent] : -1;
		/*
		 * Threads do not move, since a thread would move the other threads of its process,
		 * too.
		 */
		if (t->kind != KIND_THREAD) {
			first = i ? next_cgroup(r, count, first) : 0;
			t->first_cgroup = procs[first];
		}
		last[i] = first;
		expected[first] += LOOP_INSNS * (t->before - 1);
		if (!has_children(t->kind))
			continue;
		if (t->kind != KIND_THREAD) {
			last[i] = next_cgroup(r, count, first);
			t->next_cgroup = procs[last[i]];
		}
		expected[last[i]] += LOOP_INSNS * (t->after - 1);
	}
}

/* Kills the tasks that have written their id to the pipe, until the tree is gone. */
static void kill_victims(int from)
{
	long pid;

	while (read(from, &pid, sizeof(pid)) == sizeof(pid)) {
		wait_until_asleep(pid);
		kill(pid, SIGKILL);
	}
}

__s64 tree_run_and_count(const struct event_maker *maker, bool shortest_loops)
{
	struct perf_event_attr attr = event_instructions();
	int start_pipe[2], fd, i;
	struct tree_task *t;
	__s64 value;
	pid_t pid;
	char byte;

	attr.inherit = 1;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) || pipe2(tree.victims, O_CLOEXEC) ||
	    pipe2(start_pipe, O_CLOEXEC))
		return -errno;
	for (i = 0; i < tree.count; i++) {
		t = &tree.task[i];
		t->loops[0] = shortest_loops ? 1 : t->before;
		t->loops[1] = shortest_loops ? 1 : t->after;
		t->argv[0] = (char *)PROGRAM;
		t->argv[1] = t->n;
		snprintf(t->n, sizeof(t->n), "%07lu", t->loops[0]);
	}
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		raw_syscall(SYS_read, start_pipe[0], (long)&byte, 1, 0);
		run_task(&tree.task[0]);
	}
	close(tree.victims[1]);
	close(start_pipe[0]);
	fd = wait_until_asleep(pid);
	if (!fd)
		fd = maker->open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	value = fd;
	if (fd >= 0)
		value = event_enable(fd);
	if (!value && write(start_pipe[1], "", 1) == 1)
		kill_victims(tree.victims[0]);
	close(start_pipe[1]);
	close(tree.victims[0]);
	/*
	 * Waits for the first task, and for orphans, whose reaper this process is. Other children
	 * of this process are in another process group.
	 */
	while (waitpid(-pid, NULL, 0) > 0)
		;
	if (!value)
		value = event_count(fd);
	if (fd >= 0)
		close(fd);
	return value;
}

int tree_tasks(void)
{
	return tree.count;
}

void tree_print(void)
{
	const struct tree_task *t;
	int i;

	for (i = 0; i < tree.count; i++) {
		t = &tree.task[i];
		printf("# task %d of %d: %s, CPU %d, %lu and %lu\n", i, t->parent,
		       kind_names[t->kind], t->cpu, t->before, t->after);
	}
}
