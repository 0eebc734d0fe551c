// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dummy events. A dummy event counts nothing; for its task, the driver writes names, mappings and new cgroups to a
//! ring.

use perfmon::event::{Builder, Event};

use super::sampled_tasks::SampledTasks;
use crate::recording::perfdata::SampleParts;
use crate::recording::procfs::MappingKinds;

/// The largest number of pages of a dummy's ring.
pub(super) const DUMMY_PAGES: usize = 32;

/// The kinds of records of tasks that are written, besides the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskRecords {
    None,
    /// Names, forks and exits.
    Names,
    /// Names, and mappings of these kinds.
    Mappings(MappingKinds),
}

/// Returns a dummy for each of the tasks. A dummy also covers the tasks that its task creates, even
/// if created tasks are not sampled: threads share their memory.
///
/// Returns an empty list if no such records are needed: neither records of tasks, nor records of
/// new cgroups, which samples with cgroups need.
pub(super) fn dummies(
    tasks: &SampledTasks,
    records: TaskRecords,
    parts: SampleParts,
) -> Vec<Builder> {
    let dummy = || {
        // Only user mode, since a user without privileges may open such an event for own tasks.
        let dummy = Event::dummy().user();
        let dummy = match records {
            TaskRecords::None => dummy,
            TaskRecords::Names => dummy.tasks(),
            TaskRecords::Mappings(MappingKinds::Code) => dummy.tasks().mappings(),
            TaskRecords::Mappings(MappingKinds::CodeAndData) => {
                dummy.tasks().mappings().data_mappings()
            }
        };
        if parts.has_cgroup {
            dummy.new_cgroups()
        } else {
            dummy
        }
    };
    match tasks.tids() {
        _ if records == TaskRecords::None && !parts.has_cgroup => Vec::new(),
        [] => vec![dummy().all_tasks()],
        tids => tids.iter().map(|tid| dummy().pid(*tid).inherit()).collect(),
    }
}
