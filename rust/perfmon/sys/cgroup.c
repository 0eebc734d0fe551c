// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cgroups: look-up by descriptor, IDs and paths for samples, and calls to the CPUs of
 * tasks that have moved to another cgroup.
 */
#include <linux/build_bug.h>
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernfs.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <linux/math.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "perfmon_shim.h"

#ifdef CONFIG_CGROUPS

#ifdef CONFIG_CGROUP_PERF
/* Returns the node of a directory of cgroups of version 1. NULL if the file is something else. */
static struct kernfs_node *node_of_version_1(const struct file *file)
{
	const struct inode *inode = file_inode(file);
	struct kernfs_node *node = inode->i_private;

	/* No two types of file systems have the same name. */
	if (inode->i_sb->s_magic != CGROUP_SUPER_MAGIC ||
	    strcmp(inode->i_sb->s_type->name, "cgroup") || kernfs_type(node) != KERNFS_DIR)
		return NULL;
	return node;
}

/* Does what css_tryget_online_from_dir() does, which is not exported. */
static struct cgroup *get_cgroup_of_version_1(int fd)
{
	CLASS(fd, f)(fd);
	struct kernfs_node *node = fd_empty(f) ? NULL : node_of_version_1(fd_file(f));
	struct cgroup *cgroup;

	if (!node)
		return ERR_PTR(-EBADF);
	rcu_read_lock();
	cgroup = rcu_dereference(*(void __rcu __force **)&node->priv);
	if (!cgroup)
		cgroup = ERR_PTR(-ENOENT);
	else if (!rcu_dereference(cgroup->subsys[perf_event_cgrp_id]))
		cgroup = ERR_PTR(-EBADF);
	else if (!css_tryget_online(&cgroup->self))
		cgroup = ERR_PTR(-ENOENT);
	rcu_read_unlock();
	return cgroup;
}
#else
static struct cgroup *get_cgroup_of_version_1(int fd)
{
	return ERR_PTR(-EBADF);
}
#endif

struct cgroup *perfmon_cgroup_get(int fd)
{
	struct cgroup *cgroup = cgroup_get_from_fd(fd);

	return cgroup == ERR_PTR(-EBADF) ? get_cgroup_of_version_1(fd) : cgroup;
}

bool perfmon_cgroup_is_of_version_1(const struct cgroup *cgroup)
{
	return cgroup->root != &cgrp_dfl_root;
}

void perfmon_cgroup_put(struct cgroup *cgroup)
{
	cgroup_put(cgroup);
}

u64 perfmon_cgroup_id(const struct cgroup *cgroup)
{
	return cgroup_id(cgroup);
}

/*
 * Returns the cgroup that perf would record for the task. Callers have interrupts off or are
 * NMI handlers, which RCU treats as readers.
 */
static struct cgroup *perf_cgroup_of(struct task_struct *task)
{
#ifdef CONFIG_CGROUP_PERF
	return task_css_check(task, perf_event_cgrp_id, true)->cgroup;
#else
	return task_css_set_check(task, true)->dfl_cgrp;
#endif
}

u64 perfmon_cgroup_id_of(struct task_struct *task)
{
	return cgroup_id(perf_cgroup_of(task ?: current));
}

bool perfmon_cgroup_is_of_perf(const struct cgroup *cgroup)
{
	return cgroup->root == perf_cgroup_of(current)->root;
}

size_t perfmon_cgroup_path(struct cgroup *cgroup, char path[4096])
{
	const size_t limit = PATH_MAX - sizeof(u64);
	size_t size;

	static_assert(PATH_MAX == 4096);
	/* cgroup_path() truncates a path that does not fit. */
	path[0] = '\0';
	cgroup_path(cgroup, path, limit);
	size = strnlen(path, limit - 1);
	memset(path + size, 0, sizeof(u64));
	return round_up(size + 1, sizeof(u64));
}

int perfmon_cgroup_level(const struct cgroup *cgroup)
{
	return cgroup->level;
}

static struct perfmon_task_cgroups with_ancestors(struct cgroup *cgroup)
{
	return (struct perfmon_task_cgroups){
		.level = cgroup->level,
		.by_level = cgroup->ancestors,
	};
}

struct perfmon_task_cgroups perfmon_cgroups_of(struct task_struct *task)
{
	return with_ancestors(task_css_set_check(task, true)->dfl_cgrp);
}

struct perfmon_task_cgroups perfmon_cgroups_of_version_1(struct task_struct *task)
{
	struct cgroup *cgroup = perf_cgroup_of(task);

	if (!perfmon_cgroup_is_of_version_1(cgroup))
		return (struct perfmon_task_cgroups){};
	return with_ancestors(cgroup);
}

/*
 * The argument is the function itself: an asynchronous call has no structure on
 * its caller's stack to point to.
 */
static void run_on_cpu(void *f)
{
	/*
	 * Pairs with smp_mb() in perfmon_cgroup_call_cpus(): f() sees each move whose call
	 * has found the data in use.
	 */
	smp_mb();
	((void (*)(void))f)();
}

static DEFINE_PER_CPU(call_single_data_t, moved_calls);

static void call_cpu(unsigned int cpu, void (*f)(void))
{
	call_single_data_t *data = per_cpu_ptr(&moved_calls, cpu);

	/*
	 * If the data are still in use, the CPU has not begun the previous call yet.
	 * That call will also find the tasks that have moved now.
	 */
	data->func = run_on_cpu;
	data->info = f;
	smp_call_function_single_async(cpu, data);
}

/*
 * The CPUs of the threads that have moved. Each is called once, however many threads
 * the process has. The kernel calls the tracepoints of moves under a lock of their own,
 * so the mask has one user at a time.
 */
static struct cpumask moved_cpus;

void perfmon_cgroup_call_cpus(struct task_struct *task, bool all_threads, void (*f)(void))
{
	struct task_struct *thread;
	unsigned int cpu;

	/* Pairs with the switch to a task, which looks at its cgroup after the task has its CPU. */
	smp_mb();
	if (!all_threads) {
		call_cpu(task_cpu(task), f);
		return;
	}
	cpumask_clear(&moved_cpus);
	rcu_read_lock();
	for_each_thread(task, thread)
		cpumask_set_cpu(task_cpu(thread), &moved_cpus);
	rcu_read_unlock();
	for_each_cpu(cpu, &moved_cpus)
		call_cpu(cpu, f);
}

#else

struct cgroup *perfmon_cgroup_get(int fd)
{
	return ERR_PTR(-EOPNOTSUPP);
}

bool perfmon_cgroup_is_of_version_1(const struct cgroup *cgroup)
{
	return false;
}

void perfmon_cgroup_put(struct cgroup *cgroup)
{
}

u64 perfmon_cgroup_id(const struct cgroup *cgroup)
{
	return 0;
}

u64 perfmon_cgroup_id_of(struct task_struct *task)
{
	return 0;
}

bool perfmon_cgroup_is_of_perf(const struct cgroup *cgroup)
{
	return false;
}

size_t perfmon_cgroup_path(struct cgroup *cgroup, char path[4096])
{
	return 0;
}

int perfmon_cgroup_level(const struct cgroup *cgroup)
{
	return 0;
}

struct perfmon_task_cgroups perfmon_cgroups_of(struct task_struct *task)
{
	return (struct perfmon_task_cgroups){};
}

struct perfmon_task_cgroups perfmon_cgroups_of_version_1(struct task_struct *task)
{
	return (struct perfmon_task_cgroups){};
}

void perfmon_cgroup_call_cpus(struct task_struct *task, bool all_threads, void (*f)(void))
{
}

#endif
