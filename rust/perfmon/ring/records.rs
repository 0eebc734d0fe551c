// SPDX-License-Identifier: GPL-2.0-only
//! Records of what happens to tasks: new names, forks, exits, context switches, mappings and new cgroups. The task itself
//! writes them, with interrupts off.

use super::Sampler;
use crate::{
    logic::{
        mapping::Mapping,
        perf_event::{
            PERF_RECORD_CGROUP, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK,
            PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_SWITCH_OUT,
            PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, PERF_RECORD_READ, PERF_RECORD_SWITCH,
            PERF_RECORD_SWITCH_CPU_WIDE,
        },
    },
    sys::ffi,
};
use kernel::bindings;

/// A change of a task, for which records are written.
#[derive(Clone, Copy)]
pub(crate) enum TaskChange<'a> {
    /// The current task gives the task in the first field, usually itself, a name of 16 bytes (`TASK_COMM_LEN`). The last
    /// field is true if an exec gives the name.
    Name(*mut bindings::task_struct, [u64; 2], bool),
    /// The task has created the task in the field.
    Fork(*mut bindings::task_struct),
    /// The task exits.
    Exit,
    /// The task starts running on the CPU.
    SwitchIn,
    /// The task stops running on the CPU. The field is true if the task could continue to run.
    SwitchOut(bool),
    /// The task has mapped memory. The words are the name of the mapping.
    Map(&'a Mapping, &'a [u64]),
    /// The task has made a cgroup with this ID. The words are the path of the cgroup.
    MakeCgroup(u64, &'a [u64]),
}

/// The other task of a context switch, if the record names it. Records of a CPU's or a cgroup's
/// events do.
pub(crate) type OtherTask = Option<*mut bindings::task_struct>;

impl Sampler {
    /// Writes a `PERF_RECORD_READ` when the event ends for `task`. `counts` are the words that
    /// read(2) would return. To be called on the ring's CPU, with interrupts off.
    #[cold]
    pub(crate) fn record_counts(&self, counts: &[u64], task: *mut bindings::task_struct, cpu: u32) {
        let origin = self.origin_of(task, cpu);
        let ids = self.ids(task);
        self.write_record(PERF_RECORD_READ, 0, &[&[ids], counts], &origin);
    }

    /// Returns whether the event wants records of this kind of change.
    #[inline(always)]
    pub(crate) fn records_change(&self, change: &TaskChange<'_>) -> bool {
        match change {
            TaskChange::Name(..) => self.sampling.records_names,
            TaskChange::Fork(_) | TaskChange::Exit => self.sampling.records_forks_and_exits,
            TaskChange::SwitchIn | TaskChange::SwitchOut(_) => self.sampling.records_switches,
            TaskChange::Map(mapping, _) => self.sampling.mappings.include(mapping.is_executable()),
            TaskChange::MakeCgroup(..) => self.sampling.records_new_cgroups,
        }
    }

    /// Writes the record of a change of `task`, on `cpu`, which is the current one. `other` is the other task of a
    /// context switch, if the record names it.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_change(
        &self,
        change: &TaskChange<'_>,
        task: *mut bindings::task_struct,
        other: OtherTask,
        cpu: u32,
    ) {
        let origin = self.origin_of(task, cpu);
        let ids = self.ids(task);
        match change {
            TaskChange::Name(named, name, by_exec) => {
                let ids = self.ids(*named);
                let [first, second] = *name;
                let misc = if *by_exec {
                    PERF_RECORD_MISC_COMM_EXEC
                } else {
                    0
                };
                // A name of up to 7 bytes and its 0 fit into the first word.
                if second == 0 && first.to_ne_bytes().contains(&0) {
                    self.write_record(PERF_RECORD_COMM, misc, &[&[ids, first]], &origin);
                } else {
                    self.write_record(PERF_RECORD_COMM, misc, &[&[ids, first, second]], &origin);
                }
            }
            TaskChange::Fork(child) => {
                let words = two_task_words(self.ids(*child), ids, self.time());
                self.write_record(PERF_RECORD_FORK, 0, &[&words], &origin);
            }
            TaskChange::Exit => {
                // SAFETY: The function requires the current task, and a namespace that is null or alive: only the
                // current task exits, and `self` has a reference to the namespace.
                let parent = unsafe { ffi::perfmon_parent_ids(task, self.namespace()) };
                let words = two_task_words(ids, parent, self.time());
                self.write_record(PERF_RECORD_EXIT, 0, &[&words], &origin);
            }
            TaskChange::SwitchIn | TaskChange::SwitchOut(_) => {
                let misc = match change {
                    TaskChange::SwitchOut(true) => {
                        PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
                    }
                    TaskChange::SwitchOut(false) => PERF_RECORD_MISC_SWITCH_OUT,
                    _ => 0,
                };
                match other {
                    None => self.write_record(PERF_RECORD_SWITCH, misc, &[], &origin),
                    Some(other) => {
                        let words = [self.ids(other)];
                        self.write_record(PERF_RECORD_SWITCH_CPU_WIDE, misc, &[&words], &origin);
                    }
                }
            }
            TaskChange::Map(mapping, name) => {
                let record = self.sampling.mappings.record(ids, mapping);
                self.write_record(record.kind, record.misc, &[record.words(), name], &origin);
            }
            TaskChange::MakeCgroup(id, path) => {
                self.write_record(PERF_RECORD_CGROUP, 0, &[&[*id], path], &origin);
            }
        }
    }
}

/// Returns the words of a FORK or EXIT record. `task` and `parent` are IDs as from [`Sampler::ids`]: the PID, with the TID
/// in the upper half.
fn two_task_words(task: u64, parent: u64, time: u64) -> [u64; 3] {
    let low_half = |ids: u64| ids & u64::from(u32::MAX);
    [
        low_half(task) | low_half(parent) << 32,
        task >> 32 | parent >> 32 << 32,
        time,
    ]
}
