// SPDX-License-Identifier: GPL-2.0-only
//! The target of an event, and the caller's permission to count it.

use crate::{
    cpu::possible_cpus,
    logic::{
        event_config::EventConfig,
        hierarchy::{Hierarchy, MAX_LEVEL},
        sharing::TargetKind,
    },
    ownership::{
        policy::{check_may_count_cpu, is_capable},
        EventPlace,
    },
    sys::{cgroup::Cgroup, error::errno, ffi},
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    cpu::CpuId,
    prelude::*,
    sync::{aref::ARef, Arc},
    task::Task,
};

/// The tasks that an event counts.
#[derive(Clone)]
pub(super) enum Target {
    /// A task, on all CPUs or on one.
    Task(ARef<Task>, Option<CpuId>),
    /// All tasks on a CPU.
    Cpu(CpuId),
    /// The tasks of a cgroup and of its descendants, on all CPUs or on one.
    Cgroup(Arc<Cgroup>, Option<CpuId>),
}

impl Target {
    /// Returns the place where events of the target count.
    pub(super) fn place(&self) -> EventPlace {
        let (kind, cpu) = match self {
            // A task's event on one CPU shares counters with other events as if it counted on all CPUs.
            Self::Task(..) => (TargetKind::Task, None),
            Self::Cpu(cpu) => (TargetKind::Cpu, Some(*cpu)),
            Self::Cgroup(_, cpu) => (TargetKind::Cgroup, *cpu),
        };
        EventPlace { kind, cpu }
    }

    /// Returns the hierarchy of the cgroup; `None` for a task or a CPU.
    pub(super) fn hierarchy(&self) -> Option<Hierarchy> {
        match self {
            Self::Task(..) | Self::Cpu(_) => None,
            Self::Cgroup(cgroup, _) => Some(cgroup.hierarchy()),
        }
    }

    /// Returns the only CPU on which the target is counted; `None` if it is counted on all CPUs.
    pub(super) fn cpu(&self) -> Option<CpuId> {
        match self {
            Self::Task(_, cpu) | Self::Cgroup(_, cpu) => *cpu,
            Self::Cpu(cpu) => Some(*cpu),
        }
    }

    /// Returns whether the events of both targets are in the same contexts.
    pub(super) fn has_same_context(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(task, _), Self::Task(other, _)) => task.as_ptr() == other.as_ptr(),
            _ => self.is_same_target(other),
        }
    }

    /// Returns whether both are the same task, CPU or cgroup on the same CPUs, so that their events may form a group.
    pub(super) fn is_same_target(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(task, cpu), Self::Task(other, other_cpu)) => {
                task.as_ptr() == other.as_ptr() && cpu == other_cpu
            }
            (Self::Cpu(cpu), Self::Cpu(other)) => cpu == other,
            (Self::Cgroup(cgroup, cpu), Self::Cgroup(other, other_cpu)) => {
                cgroup.as_ptr() == other.as_ptr() && cpu == other_cpu
            }
            _ => false,
        }
    }

    /// Returns the number of contexts that the target has.
    pub(super) fn context_count(&self) -> usize {
        match self {
            Self::Task(..) | Self::Cpu(_) | Self::Cgroup(_, Some(_)) => 1,
            Self::Cgroup(_, None) => possible_cpus().count(),
        }
    }

    /// Returns whether the target is a task with the address space `mm`.
    pub(super) fn is_task_with_mm(&self, mm: *mut bindings::mm_struct) -> bool {
        match self {
            // SAFETY: The function requires a task that is alive: `self` has a reference to it.
            Self::Task(task, _) => unsafe { ffi::perfmon_task_has_mm(task.as_ptr(), mm) },
            Self::Cpu(_) | Self::Cgroup(..) => false,
        }
    }

    /// Returns whether an event with this configuration needs the tracepoints of tasks.
    pub(super) fn follows_tasks(&self, config: &EventConfig) -> bool {
        !matches!(self, Self::Cpu(_))
            || config.sampling.follows_tasks()
            || self.needs_records_at_switch(config)
    }

    /// Returns whether the processor's records (PEBS) of an event with this configuration have to be converted to samples
    /// at each context switch. A CPU's event needs that, since records do not name their task. The records of a task's event
    /// are converted when its window closes. An event of a cgroup makes every switch a slow one in any case, which converts
    /// all records.
    pub(super) fn needs_records_at_switch(&self, config: &EventConfig) -> bool {
        config.sampling.is_precise && matches!(self, Self::Cpu(_))
    }
}

impl Target {
    /// Finds the target that `pid` and `cpu` name, with their meaning in perf_event_open(2).
    ///
    /// # Errors
    ///
    /// EINVAL if there is no such CPU, ESRCH if there is no such thread. EACCES if the caller may not count a whole
    /// CPU, or may not trace the thread: without `CAP_PERFMON`, threads of other users, threads that are not
    /// dumpable, and kernel threads are refused; security modules may refuse others.
    pub(super) fn find(pid: i32, cpu: i32) -> Result<Self> {
        let only_cpu = match cpu {
            -1 => None,
            _ => Some(CpuId::from_i32(cpu).ok_or(EINVAL)?),
        };
        if pid == -1 {
            let cpu = only_cpu.ok_or(EINVAL)?;
            check_may_count_cpu()?;
            return Ok(Self::Cpu(cpu));
        }
        let task = find_task(pid)?;
        check_task_access(&task)?;
        Ok(Self::Task(task, only_cpu))
    }

    /// Finds the cgroup of the directory that `fd` is open for. `cpu` is the number of a CPU, or -1 for all CPUs, which
    /// perf_event_open(2) refuses.
    ///
    /// # Errors
    ///
    /// EINVAL if there is no such CPU, EACCES if the caller may not count a whole CPU, the errors of [`Cgroup::get`], and
    /// EOPNOTSUPP if the cgroup is deeper than [`MAX_LEVEL`].
    pub(super) fn find_cgroup(fd: i32, cpu: i32) -> Result<Self> {
        let only_cpu = match cpu {
            -1 => None,
            _ => Some(CpuId::from_i32(cpu).ok_or(EINVAL)?),
        };
        check_may_count_cpu()?;
        let cgroup = Cgroup::get(fd)?;
        if cgroup.level() > MAX_LEVEL {
            return Err(errno(bindings::EOPNOTSUPP));
        }
        let cgroup = Arc::new(cgroup, GFP_KERNEL_ACCOUNT)?;
        Ok(Self::Cgroup(cgroup, only_cpu))
    }

    /// Checks again that the caller may trace the task, which may have executed another program since [`Self::find`].
    ///
    /// # Errors
    ///
    /// ESRCH or EACCES, as from [`Self::find`].
    pub(super) fn recheck_access(&self) -> Result {
        match self {
            Self::Task(task, _) => check_task_access(task),
            Self::Cpu(_) | Self::Cgroup(..) => Ok(()),
        }
    }
}

/// Returns the thread with the TID `pid` in the caller's PID namespace; 0 is the caller.
///
/// # Errors
///
/// ESRCH if there is no such thread.
fn find_task(pid: i32) -> Result<ARef<Task>> {
    if pid < 0 {
        return Err(ESRCH);
    }
    // SAFETY: `perfmon_task_get()` takes any number: it has no preconditions.
    let task = unsafe { ffi::perfmon_task_get(pid) };
    let task = NonNull::new(task).ok_or(ESRCH)?;
    // SAFETY: `from_raw` requires a counted reference that the result may take over: `perfmon_task_get()` has returned
    // one to a `task_struct`, whose layout a `Task` has.
    Ok(unsafe { ARef::from_raw(task.cast()) })
}

/// Checks that the caller may trace a task.
///
/// # Errors
///
/// ESRCH if the task has exited. EACCES if the caller may not trace it. ENOMEM if there is no memory.
fn check_task_access(task: &Task) -> Result {
    // SAFETY: The function requires a task that is alive: `task` borrows a counted reference.
    if unsafe { ffi::perfmon_task_is_in_own_process(task.as_ptr()) } || is_capable() {
        return Ok(());
    }
    // SAFETY: The function requires a task that is alive: `task` borrows a counted reference.
    if unsafe { ffi::perfmon_task_is_kernel(task.as_ptr()) } {
        return Err(EACCES);
    }
    // SAFETY: The function requires a task that is alive, and a caller that may sleep: `task` borrows a counted
    // reference, and the caller is a task in ioctl(2), without spinlocks.
    match unsafe { ffi::perfmon_may_attach(task.as_ptr()) } {
        0 => Ok(()),
        // The task has exited.
        error if error == ENOENT.to_errno() || error == ESRCH.to_errno() => Err(ESRCH),
        error if error == ENOMEM.to_errno() => Err(ENOMEM),
        _ => Err(EACCES),
    }
}
