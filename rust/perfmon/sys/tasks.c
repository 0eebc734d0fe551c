// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks: look-up, the permission to look at them, and calls in kernel threads.
 */
#include <linux/binfmts.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/proc_fs.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/exec_state.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>

#include "perfmon_shim.h"

/* A raw lock, because it is taken where tasks begin and end, also with interrupts off. */
static DEFINE_RAW_SPINLOCK(tasks);

unsigned long perfmon_tasks_lock(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&tasks, flags);
	return flags;
}

void perfmon_tasks_unlock(unsigned long flags)
{
	raw_spin_unlock_irqrestore(&tasks, flags);
}

struct task_struct *perfmon_task_get(int number)
{
	struct task_struct *task;
	struct pid *pid;

	if (!number)
		return get_task_struct(current);
	pid = find_get_pid(number);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	return task;
}

unsigned int perfmon_task_cpu(struct task_struct *task)
{
	return task_cpu(task);
}

bool perfmon_task_is_exiting(struct task_struct *task)
{
	return READ_ONCE(task->flags) & PF_EXITING;
}

bool perfmon_task_is_kernel(struct task_struct *task)
{
	return READ_ONCE(task->flags) & PF_KTHREAD;
}

bool perfmon_task_is_in_own_process(struct task_struct *task)
{
	return same_thread_group(task, current);
}

bool perfmon_task_has_mm(const struct task_struct *task, const struct mm_struct *mm)
{
	return READ_ONCE(task->mm) == mm;
}

/* Returns whether other tasks of the same user must not look at the current task. */
static bool is_private(void)
{
	bool result;

	rcu_read_lock();
	result = READ_ONCE(rcu_dereference(current->exec_state)->dumpable) !=
		 TASK_DUMPABLE_OWNER;
	rcu_read_unlock();
	return result;
}

/*
 * Returns whether begin_new_exec() ends perf's events, or would end them if
 * fs.suid_dumpable did not allow core dumps of setuid and setgid programs.
 */
bool perfmon_must_not_count_exec(const struct linux_binprm *bprm)
{
	return is_private() || bprm->secureexec ||
	       bprm->interp_flags & BINPRM_FLAGS_ENFORCE_NONDUMP ||
	       !uid_eq(current_euid(), current_uid()) ||
	       !gid_eq(current_egid(), current_gid());
}

struct pid *perfmon_own_process(void)
{
	return get_pid(task_tgid(current));
}

struct pid *perfmon_process_get(struct pid *process)
{
	return get_pid(process);
}

void perfmon_process_put(struct pid *process)
{
	put_pid(process);
}

int perfmon_process_number(struct pid *process)
{
	int number = 0;

	rcu_read_lock();
	/*
	 * The number of a process that has exited may still be the number of a
	 * process group or a session.
	 */
	if (pid_task(process, PIDTYPE_TGID))
		number = pid_vnr(process);
	rcu_read_unlock();
	return number;
}

void perfmon_own_name(char name[16])
{
	strscpy_pad(name, current->comm, 16);
}

struct call {
	struct work_struct work;
	void (*f)(void *data);
	void *data;
};

static void run_call(struct work_struct *work)
{
	struct call *call = container_of(work, struct call, work);

	call->f(call->data);
}

void perfmon_call(void (*f)(void *data), void *data)
{
	struct call call = { .f = f, .data = data };

	INIT_WORK_ONSTACK(&call.work, run_call);
	queue_work(system_dfl_wq, &call.work);
	flush_work(&call.work);
	destroy_work_on_stack(&call.work);
}

static void (*later_callback)(void);

static void run_later_callback(struct work_struct *work)
{
	later_callback();
}

static DECLARE_DELAYED_WORK(later_work, run_later_callback);

void perfmon_call_later(void (*f)(void))
{
	later_callback = f;
	queue_delayed_work(system_dfl_wq, &later_work, HZ);
}

void perfmon_call_later_cancel(void)
{
	cancel_delayed_work_sync(&later_work);
}

static void (*soon_callback)(void);

static void run_soon_callback(struct work_struct *work)
{
	soon_callback();
}

static DECLARE_WORK(soon_work, run_soon_callback);

void perfmon_call_soon(void (*f)(void))
{
	soon_callback = f;
	queue_work(system_dfl_wq, &soon_work);
}

void perfmon_call_soon_cancel(void)
{
	cancel_work_sync(&soon_work);
}

void perfmon_tracepoints_sync(void)
{
	tracepoint_synchronize_unregister();
	rcu_barrier();
}

static void wait_for_expedited_rcu(struct work_struct *work)
{
	synchronize_rcu_expedited();
}

/*
 * The caller can't wait itself: it would hold the kernel's mutex for expedited
 * grace periods, perhaps without getting to run. perfmon_call() can't be used:
 * callers hold mmap_lock, and lockdep would connect that with the locks of all work
 * that perfmon_call() does.
 */
void perfmon_rcu_wait(void)
{
	struct work_struct work;

	INIT_WORK_ONSTACK(&work, wait_for_expedited_rcu);
	queue_work(system_dfl_wq, &work);
	flush_work(&work);
	destroy_work_on_stack(&work);
}

/*
 * A mount of the module's own, so that no program can mount something else over
 * it.
 */
static struct vfsmount *own_proc;

static void mount_proc(void *data)
{
	struct file_system_type *type = get_fs_type("proc");
	int *err = data;

	if (!type) {
		*err = -ENODEV;
		return;
	}
	own_proc = kern_mount(type);
	*err = PTR_ERR_OR_ZERO(own_proc);
}

/*
 * A mount shows the tasks of the mounting task's PID namespace. A kernel thread
 * mounts, whose namespace has all tasks: a container may load the module.
 */
int perfmon_proc_mount(void)
{
	int err;

	perfmon_call(mount_proc, &err);
	return err;
}

void perfmon_proc_unmount(void)
{
	kern_unmount(own_proc);
}

/*
 * Returns 0 if the caller may look at a task. Modules can't call
 * ptrace_may_access(), but the kernel calls it, with PTRACE_MODE_READ, when the
 * caller reads a link of the task in proc. No file is opened: Landlock and AppArmor
 * would check whether the caller may read files of this mount, which no rule can
 * name.
 */
static int read_link(pid_t process, pid_t thread)
{
	char name[sizeof("/task//root") + 2 * 10];
	struct path link;
	int err;

	snprintf(name, sizeof(name), "%d/task/%d/root", process, thread);
	err = vfs_path_lookup(own_proc->mnt_root, own_proc, name, 0, &link);
	if (err)
		return err;
	/* The buffer has no room, so nothing is written. */
	err = vfs_readlink(link.dentry, NULL, 0);
	path_put(&link);
	/* -ENAMETOOLONG: access was allowed, and only the room was missing. */
	return err == -ENAMETOOLONG ? 0 : err;
}

int perfmon_may_attach(struct task_struct *task)
{
	/* The initial namespace, in which each task that is alive has a number. */
	struct pid_namespace *ns = proc_pid_ns(own_proc->mnt_sb);
	pid_t thread;
	int err;

	/*
	 * After execve(2) a thread has the TID of its process. If the task has called
	 * execve(2) since its TID was read, the link of another thread, or no link,
	 * was read: try again with the new TID.
	 */
	do {
		thread = task_pid_nr_ns(task, ns);
		if (!thread)
			return -ESRCH;
		err = read_link(task_tgid_nr_ns(task, ns), thread);
	} while (task_pid_nr_ns(task, ns) != thread);
	return err;
}
