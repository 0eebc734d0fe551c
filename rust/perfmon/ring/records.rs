// SPDX-License-Identifier: GPL-2.0-only
//! Records of what happens to tasks: new names, beginnings, ends, switches and mappings. They are written by the task itself,
//! with interrupts off.

use super::Sampler;
use crate::{logic::mapping::Mapping, sys::ffi};
use kernel::bindings;

/// `PERF_RECORD_*` that are written here.
mod kind {
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const FORK: u32 = 7;
    pub(super) const READ: u32 = 8;
    pub(super) const SWITCH: u32 = 14;
    pub(super) const SWITCH_CPU_WIDE: u32 = 15;
}

/// `PERF_RECORD_MISC_*`
mod misc {
    /// The name is new because of an exec.
    pub(super) const COMM_EXEC: u16 = 1 << 13;
    /// The task does not run any more, and not that it does.
    pub(super) const SWITCH_OUT: u16 = 1 << 13;
    /// Flag: the task was ready to run on.
    pub(super) const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
}

/// What happens to a task.
#[derive(Clone, Copy)]
pub(crate) enum TaskChange<'a> {
    /// The task gets a name, of 16 bytes (`TASK_COMM_LEN`); by an exec or not.
    Name([u64; 2], bool),
    /// The task has made another one.
    Begin(*mut bindings::task_struct),
    /// The task ends.
    End,
    /// The task begins to run.
    SwitchIn,
    /// The task ceases to run; it is ready to run on or not.
    SwitchOut(bool),
    /// The task has mapped something, which has a name of so many words.
    Map(&'a Mapping, &'a [u64]),
}

/// The other task of a switch, for an event of a CPU.
pub(crate) type OtherTask = Option<*mut bindings::task_struct>;

impl Sampler {
    /// Writes the `PERF_RECORD_READ` of `task`, which ends: its counts, as from a read(2). To be called on the CPU of
    /// the ring, with interrupts off.
    #[cold]
    pub(crate) fn record_counts(&self, counts: &[u64], task: *mut bindings::task_struct, cpu: u32) {
        let moment = self.moment_of(task, cpu);
        let ids = self.ids(task);
        self.write(kind::READ, 0, &[&[ids], counts], &moment);
    }

    /// Returns whether the event records such changes.
    #[inline(always)]
    pub(crate) fn records_change(&self, change: &TaskChange<'_>) -> bool {
        match change {
            TaskChange::Name(..) => self.sampling.comm,
            TaskChange::Begin(_) | TaskChange::End => self.sampling.task,
            TaskChange::SwitchIn | TaskChange::SwitchOut(_) => self.sampling.switch,
            TaskChange::Map(mapping, _) => self.sampling.mappings.have(mapping.is_executable()),
        }
    }

    /// Writes the record of a change of `task`: on this CPU, where `other` is the task that it changes places with.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_change(
        &self,
        change: &TaskChange<'_>,
        task: *mut bindings::task_struct,
        other: OtherTask,
        cpu: u32,
    ) {
        let moment = self.moment_of(task, cpu);
        let ids = self.ids(task);
        match change {
            TaskChange::Name(name, by_exec) => {
                let [first, second] = *name;
                let misc = if *by_exec { misc::COMM_EXEC } else { 0 };
                // A name of up to 7 bytes has its 0 in the first word.
                if second == 0 && first.to_ne_bytes().contains(&0) {
                    self.write(kind::COMM, misc, &[&[ids, first]], &moment);
                } else {
                    self.write(kind::COMM, misc, &[&[ids, first, second]], &moment);
                }
            }
            TaskChange::Begin(child) => {
                let words = two_task_words(self.ids(*child), ids, self.time());
                self.write(kind::FORK, 0, &[&words], &moment);
            }
            TaskChange::End => {
                // SAFETY: The task is the current one; the parent's numbers are read under RCU.
                let parent = unsafe { ffi::perfmon_parent_ids(task, self.namespace()) };
                let words = two_task_words(ids, parent, self.time());
                self.write(kind::EXIT, 0, &[&words], &moment);
            }
            TaskChange::SwitchIn | TaskChange::SwitchOut(_) => {
                let misc = match change {
                    TaskChange::SwitchOut(true) => misc::SWITCH_OUT | misc::SWITCH_OUT_PREEMPT,
                    TaskChange::SwitchOut(false) => misc::SWITCH_OUT,
                    _ => 0,
                };
                match other {
                    None => self.write(kind::SWITCH, misc, &[], &moment),
                    Some(other) => {
                        let words = [self.ids(other)];
                        self.write(kind::SWITCH_CPU_WIDE, misc, &[&words], &moment);
                    }
                }
            }
            TaskChange::Map(mapping, name) => {
                let record = self.sampling.mappings.record(ids, mapping);
                self.write(record.kind, record.misc, &[record.words(), name], &moment);
            }
        }
    }
}

/// Returns the words of a record about two tasks, each given by its process and, above that, its thread.
fn two_task_words(task: u64, parent: u64, time: u64) -> [u64; 3] {
    let low = |ids: u64| ids & u64::from(u32::MAX);
    [
        low(task) | low(parent) << 32,
        task >> 32 | parent >> 32 << 32,
        time,
    ]
}
