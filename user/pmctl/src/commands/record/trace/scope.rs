// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection of the records that are kept.

use std::collections::HashSet;

use crate::args::{CommonOptions, RecordTarget};
use crate::events::cpus::Cpus;
use crate::recording::perfdata::{Body, Record};

/// Selection of the records that are kept.
#[derive(Debug)]
pub(super) enum KeptRecords<'a> {
    All,
    /// Samples of all programs on these CPUs.
    Cpus(&'a Cpus),
    /// Records of these processes, to which their descendants are added.
    Family(HashSet<u32>),
}

impl<'a> KeptRecords<'a> {
    /// Returns the selection that the options ask for. `process` is the PID of the command or of -p.
    pub(super) fn new(options: &'a CommonOptions, process: Option<u32>, knows_tasks: bool) -> Self {
        match (&options.target, process) {
            (RecordTarget::Cpus(cpus), _) => Self::Cpus(cpus),
            (RecordTarget::Command | RecordTarget::Tasks(_), Some(pid)) if knows_tasks => {
                Self::Family(HashSet::from([pid]))
            }
            _ => Self::All,
        }
    }

    /// Returns whether a record is kept. Must be called for all records in the order of their times, so that the parent
    /// is known before the child.
    pub(super) fn keeps(&mut self, record: &Record) -> bool {
        match self {
            Self::All => true,
            Self::Cpus(cpus) => {
                !record.is_sample() || cpus.iter().any(|cpu| cpu == record.stamp.cpu)
            }
            Self::Family(pids) => match &record.body {
                Body::Sample(_) => pids.contains(&record.stamp.task.pid),
                Body::Map(map) => map.is_kernel || pids.contains(&map.task.pid),
                Body::Comm { task, .. } | Body::Exit { task, .. } => pids.contains(&task.pid),
                Body::Fork { child, parent } => {
                    if pids.contains(&parent.pid) {
                        pids.insert(child.pid);
                    } else if child.pid != parent.pid {
                        // An earlier process of the family had the same PID, and has ended.
                        pids.remove(&child.pid);
                    }
                    pids.contains(&child.pid)
                }
                _ => true,
            },
        }
    }

    pub(super) fn in_words(&self, options: &CommonOptions) -> String {
        match self {
            Self::All => "the machine".to_owned(),
            Self::Cpus(_) | Self::Family(_) => options.target_in_words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{Sample, Stamp, Task};

    fn record(pid: u32, body: Body) -> Record {
        Record {
            stamp: Stamp {
                task: Task::leader(pid),
                ..Stamp::default()
            },
            body,
        }
    }

    #[test]
    fn a_process_with_the_pid_of_an_ended_one_is_a_stranger() {
        let mut scope = KeptRecords::Family(HashSet::from([5]));
        let mut keeps = |record: Record| scope.keeps(&record);
        let fork = |parent, child| {
            let (child, parent) = (Task::leader(child), Task::leader(parent));
            record(parent.pid, Body::Fork { child, parent })
        };
        let sample = || record(6, Body::Sample(Sample::default()));
        assert!(keeps(fork(5, 6)) && keeps(sample()));
        // The child is a thread of the parent's process.
        let (child, parent) = (Task { pid: 6, tid: 7 }, Task::leader(6));
        assert!(keeps(record(6, Body::Fork { child, parent })) && keeps(sample()));
        assert!(!keeps(fork(1, 6)) && !keeps(sample()));
        assert!(!keeps(fork(6, 8)), "a child of the stranger");
        assert!(keeps(fork(5, 6)) && keeps(sample()));
    }

    #[test]
    fn descendants_belong_to_the_family() {
        let mut scope = KeptRecords::Family(HashSet::from([5]));
        let mut fork = |parent, child| {
            let (child, parent) = (Task::leader(child), Task::leader(parent));
            scope.keeps(&record(parent.pid, Body::Fork { child, parent }))
        };
        let kept = [fork(5, 6), fork(1, 7), fork(6, 8), fork(7, 9)];
        assert_eq!(kept, [true, false, true, false]);
        let sample = |pid| record(pid, Body::Sample(Sample::default()));
        let kept = [5, 6, 7, 8, 9].map(|pid| scope.keeps(&sample(pid)));
        assert_eq!(kept, [true, true, false, true, false]);
    }
}
