// SPDX-License-Identifier: GPL-2.0-only
//! What an event is to count, and whether the caller may.

use crate::{
    logic::{event_config::EventConfig, sharing::TargetKind},
    ownership::policy::{allow_counting, is_capable},
    sys::{cgroup::Cgroup, ffi},
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    cpu::CpuId,
    prelude::*,
    sync::{aref::ARef, Arc},
    task::Task,
};

/// The target of an event: what it counts.
#[derive(Clone)]
pub(super) enum Target {
    /// A task, on all CPUs or on one.
    Task(ARef<Task>, Option<CpuId>),
    /// All tasks on a CPU.
    Cpu(CpuId),
    /// The tasks of a cgroup and of those in it; of other CPUs than this one nothing.
    Cgroup(Arc<Cgroup>, Option<CpuId>),
}

impl Target {
    /// Returns what it is.
    pub(super) fn kind(&self) -> TargetKind {
        match self {
            Self::Task(..) => TargetKind::Task,
            Self::Cpu(_) => TargetKind::Cpu,
            Self::Cgroup(..) => TargetKind::Cgroup,
        }
    }

    /// Returns the only CPU on which something is counted.
    pub(super) fn cpu(&self) -> Option<CpuId> {
        match self {
            Self::Task(_, cpu) | Self::Cgroup(_, cpu) => *cpu,
            Self::Cpu(cpu) => Some(*cpu),
        }
    }

    /// Returns whether an event of the other target may be in a group with one of this.
    pub(super) fn is_same(&self, other: &Self) -> bool {
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

    /// Returns whether this is a task in the address space `mm`.
    pub(super) fn is_in(&self, mm: *mut bindings::mm_struct) -> bool {
        match self {
            // SAFETY: The task is alive, since `self` has a reference.
            Self::Task(task, _) => unsafe { ffi::perfmon_task_is_in(task.as_ptr(), mm) },
            Self::Cpu(_) | Self::Cgroup(..) => false,
        }
    }

    /// Returns whether an event with this configuration needs the tracepoints of tasks.
    pub(super) fn follows_tasks(&self, config: &EventConfig) -> bool {
        !matches!(self, Self::Cpu(_)) || config.sampling.follows_tasks()
    }
}

impl Target {
    /// Finds what `pid` and `cpu` mean to perf_event_open(2).
    ///
    /// # Errors
    ///
    /// EINVAL if there is no such CPU, ESRCH if there is no such thread. EACCES if the caller may not count all that
    /// runs on a CPU, or may not look at the thread: it is another user's, or not dumpable, or a kernel thread, and the
    /// caller lacks `CAP_PERFMON`; or the error of a security module.
    pub(super) fn find(pid: i32, cpu: i32) -> Result<Self> {
        let only = match cpu {
            -1 => None,
            _ => Some(CpuId::from_i32(cpu).ok_or(EINVAL)?),
        };
        if pid == -1 {
            let cpu = only.ok_or(EINVAL)?;
            allow_counting()?;
            return Ok(Self::Cpu(cpu));
        }
        let task = find_task(pid)?;
        allow_task(&task)?;
        Ok(Self::Task(task, only))
    }

    /// Finds what the descriptor of a cgroup's directory and `cpu` mean to perf_event_open(2). Without a CPU, which perf
    /// refuses, that is all of them.
    ///
    /// # Errors
    ///
    /// EINVAL if there is no such CPU, EACCES if the caller may not count all that runs on a CPU; those of
    /// [`Cgroup::get`].
    pub(super) fn find_cgroup(fd: i32, cpu: i32) -> Result<Self> {
        let only = match cpu {
            -1 => None,
            _ => Some(CpuId::from_i32(cpu).ok_or(EINVAL)?),
        };
        allow_counting()?;
        let cgroup = Arc::new(Cgroup::get(fd)?, GFP_KERNEL_ACCOUNT)?;
        Ok(Self::Cgroup(cgroup, only))
    }

    /// Asks again whether the caller may look at the task: it may have executed another program meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub(super) fn allow_again(&self) -> Result {
        match self {
            Self::Task(task, _) => allow_task(task),
            Self::Cpu(_) | Self::Cgroup(..) => Ok(()),
        }
    }
}

/// Returns the thread with this number in the caller's PID namespace; 0 is the caller.
///
/// # Errors
///
/// ESRCH.
fn find_task(pid: i32) -> Result<ARef<Task>> {
    if pid < 0 {
        return Err(ESRCH);
    }
    // SAFETY: The function has no preconditions.
    let task = unsafe { ffi::perfmon_task_get(pid) };
    let task = NonNull::new(task).ok_or(ESRCH)?;
    // SAFETY: The function has returned a reference, which is given to the result. A `Task` is a `task_struct`.
    Ok(unsafe { ARef::from_raw(task.cast()) })
}

/// Lets the caller look at a task.
fn allow_task(task: &Task) -> Result {
    // SAFETY: The task is alive, since the caller has a reference.
    if unsafe { ffi::perfmon_task_is_mine(task.as_ptr()) } || is_capable() {
        return Ok(());
    }
    // SAFETY: The task is alive, since the caller has a reference.
    if unsafe { ffi::perfmon_task_is_kernel(task.as_ptr()) } {
        return Err(EACCES);
    }
    // SAFETY: The task is alive, since the caller has a reference; the call of the device may sleep.
    match unsafe { ffi::perfmon_may_attach(task.as_ptr()) } {
        0 => Ok(()),
        // It has gone.
        error if error == ENOENT.to_errno() || error == ESRCH.to_errno() => Err(ESRCH),
        error if error == ENOMEM.to_errno() => Err(ENOMEM),
        _ => Err(EACCES),
    }
}
