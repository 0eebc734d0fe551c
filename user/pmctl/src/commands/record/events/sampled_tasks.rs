// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks of a recording.

use crate::args::RecordTarget;
use crate::commands::record::perf_ring::ALL_TASKS;
use crate::events::threads::Thread;

/// The tasks of a recording.
#[derive(Clone, Debug)]
pub(super) enum SampledTasks {
    /// The command and the tasks that it creates, on each of these CPUs.
    Command { pid: u32, cpus: Vec<u32> },
    /// Threads and the tasks that they create, on each of these CPUs.
    Threads { tids: Vec<u32>, cpus: Vec<u32> },
    /// All tasks while they are on `sampled_cpus`. The same tasks are not sampled on `other_cpus`, but may make
    /// mappings there.
    Cpus {
        sampled_cpus: Vec<u32>,
        other_cpus: Vec<u32>,
    },
}

impl SampledTasks {
    /// Returns the tasks that the command line asks for. `command` is the PID of the command.
    pub(super) fn new(
        target: &RecordTarget,
        (command, threads): (Option<u32>, &[Thread]),
        online: &[u32],
    ) -> Self {
        let cpus = online.to_vec();
        match target {
            RecordTarget::Cpus(chosen) => {
                let sampled_cpus: Vec<u32> = chosen.iter().collect();
                let is_other = |cpu: &u32| !sampled_cpus.contains(cpu);
                let other_cpus = cpus.into_iter().filter(is_other).collect();
                Self::Cpus {
                    sampled_cpus,
                    other_cpus,
                }
            }
            RecordTarget::Machine => Self::Cpus {
                sampled_cpus: cpus,
                other_cpus: Vec::new(),
            },
            RecordTarget::Tasks(_) => Self::Threads {
                tids: threads.iter().map(|thread| thread.tid).collect(),
                cpus,
            },
            RecordTarget::Command => Self::Command {
                pid: command.unwrap_or(0),
                cpus,
            },
        }
    }

    /// Returns the CPUs that are sampled.
    pub(super) fn cpus(&self) -> &[u32] {
        match self {
            Self::Command { cpus, .. }
            | Self::Threads { cpus, .. }
            | Self::Cpus {
                sampled_cpus: cpus, ..
            } => cpus,
        }
    }

    /// Returns the CPUs that are not sampled, but on which the tasks may make mappings.
    pub(super) fn other_cpus(&self) -> &[u32] {
        match self {
            Self::Command { .. } | Self::Threads { .. } => &[],
            Self::Cpus { other_cpus, .. } => other_cpus,
        }
    }

    /// Returns the TIDs of the threads; empty for all tasks.
    pub(super) fn tids(&self) -> &[u32] {
        match self {
            Self::Command { pid, .. } => std::slice::from_ref(pid),
            Self::Threads { tids, .. } => tids,
            Self::Cpus { .. } => &[],
        }
    }

    /// Returns the numbers by which `perf_event_open(2)` knows the tasks: the TIDs, or [`ALL_TASKS`].
    pub(super) fn numbers(&self) -> Vec<i32> {
        match self.tids() {
            [] => vec![ALL_TASKS],
            tids => tids
                .iter()
                .map(|tid| i32::try_from(*tid).unwrap_or(i32::MAX))
                .collect(),
        }
    }

    /// Returns whether only some tasks of the machine are sampled.
    pub(super) const fn are_selected(&self) -> bool {
        !matches!(self, Self::Cpus { .. })
    }
}
