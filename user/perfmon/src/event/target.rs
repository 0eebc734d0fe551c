// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks that events count.

use std::fmt;

use super::Cgroup;

/// The tasks that an event counts, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) tasks: Tasks,
    pub(super) cpu: i32,
}

/// The tasks that an event counts, on whichever CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    /// The argument `pid` of `perf_event_open(2)`: 0 is the calling thread, -1 all tasks, any other a thread's ID.
    Pid(i32),
    /// Tasks of a cgroup and of its descendants.
    Cgroup(Cgroup),
}

impl Target {
    /// The calling thread, on any CPU.
    pub(super) const THIS_THREAD: Self = Self {
        tasks: Tasks::Pid(0),
        cpu: -1,
    };

    /// Returns whether the target is a task, and not a cgroup or all tasks.
    #[must_use]
    pub fn is_of_tasks(&self) -> bool {
        matches!(self.tasks, Tasks::Pid(0..))
    }

    /// Returns whether the target is not restricted to one CPU.
    pub(crate) fn is_on_all_cpus(&self) -> bool {
        self.cpu == -1
    }

    /// Returns the CPU, if the target is restricted to one.
    pub(crate) fn cpu(&self) -> Option<usize> {
        usize::try_from(self.cpu).ok()
    }

    /// Returns the cgroup, if the target is one.
    pub(crate) fn cgroup(&self) -> Option<&Cgroup> {
        match &self.tasks {
            Tasks::Pid(_) => None,
            Tasks::Cgroup(cgroup) => Some(cgroup),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tasks {
            Tasks::Pid(-1) => f.write_str("all tasks")?,
            Tasks::Pid(0) => f.write_str("this thread")?,
            Tasks::Pid(pid) => write!(f, "task {pid}")?,
            Tasks::Cgroup(cgroup) => write!(f, "cgroup {}", cgroup.path().display())?,
        }
        match self.cpu {
            -1 => Ok(()),
            cpu => write!(f, " on CPU {cpu}"),
        }
    }
}
