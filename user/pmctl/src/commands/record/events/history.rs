// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of tasks and their memory before a file begins: each file of `--switch-output` begins with this state.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Range;

use crate::recording::address_spaces::parts_outside;
use crate::recording::perfdata::{Body, Map, Record, Stamp, Task};

/// The largest number of records that [`History::keep_recent`] keeps with their times. They take a few MB.
const MAX_RECENT_RECORDS: usize = 1 << 16;

/// The living tasks, and their mappings.
#[derive(Debug, Default)]
pub(super) struct History {
    processes: BTreeMap<u32, ProcessHistory>,
    /// The kernel's memory, by address.
    kernel_maps: BTreeMap<u64, Record>,
    /// The cgroups, by id.
    cgroups: BTreeMap<u64, Record>,
    /// Records that are not part of the state yet.
    recent: VecDeque<Record>,
}

#[derive(Clone, Debug, Default)]
struct ProcessHistory {
    /// Thread names by TID.
    names: BTreeMap<u32, String>,
    maps: Vec<Map>,
}

impl History {
    /// Keeps a record with its time, since older samples may follow.
    pub(super) fn keep_recent(&mut self, record: Record) {
        self.recent.push_back(record);
        if self.recent.len() > MAX_RECENT_RECORDS {
            if let Some(oldest) = self.recent.pop_front() {
                self.apply(&oldest);
            }
        }
    }

    /// Removes and returns the records that were kept. The caller has to pass each of these records to [`Self::apply`]
    /// once.
    pub(super) fn take_recent(&mut self) -> Vec<Record> {
        self.recent.drain(..).collect()
    }

    /// Updates the state with a record.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.body {
            Body::Map(map) if map.is_kernel => {
                self.kernel_maps.insert(map.start, record.clone());
            }
            Body::Code { address, flags, .. } => {
                const UNREGISTERED: u16 = 1;
                if flags & UNREGISTERED == 0 {
                    self.kernel_maps.insert(*address, record.clone());
                } else {
                    self.kernel_maps.remove(address);
                }
            }
            Body::Cgroup { id, .. } => {
                self.cgroups.insert(*id, record.clone());
            }
            Body::Map(map) => {
                let maps = &mut self.processes.entry(map.task.pid).or_default().maps;
                let new = range(map);
                let overlaps = |old: &Map| old.start < new.end && new.start < range(old).end;
                if maps.iter().any(overlaps) {
                    let older = mem::take(maps).into_iter();
                    maps.extend(older.flat_map(|old| remaining_parts(old, map)));
                }
                maps.push(map.clone());
            }
            Body::Comm { task, name, exec } => {
                let process = self.processes.entry(task.pid).or_default();
                if *exec {
                    *process = ProcessHistory::default();
                }
                process.names.insert(task.tid, name.clone());
            }
            Body::Fork { child, parent } => self.fork(*child, *parent),
            Body::Exit { task, .. } => {
                if let Some(process) = self.processes.get_mut(&task.pid) {
                    process.names.remove(&task.tid);
                    if process.names.is_empty() {
                        self.processes.remove(&task.pid);
                    }
                }
            }
            Body::Switch { .. } | Body::Lost(_) | Body::Sample(_) => {}
        }
    }

    fn fork(&mut self, child: Task, parent: Task) {
        let Some(process) = self.processes.get(&parent.pid) else {
            return;
        };
        let name = process.names.get(&parent.tid);
        let Some(name) = name.or(process.names.values().next()).cloned() else {
            return;
        };
        let mut maps = Vec::new();
        if child.pid != parent.pid {
            let task = Task::leader(child.pid);
            let copies = process.maps.iter().cloned();
            maps.extend(copies.map(|map| Map { task, ..map }));
            self.processes.remove(&child.pid);
        }
        let process = self.processes.entry(child.pid).or_default();
        process.names.insert(child.tid, name);
        process.maps.extend(maps);
    }

    /// Returns records that describe the state. Their time is 0.
    pub(super) fn initial_records(&self) -> Vec<Record> {
        let record = |task, body| Record {
            stamp: Stamp {
                task,
                ..Stamp::default()
            },
            body,
        };
        let mut records: Vec<Record> = self
            .kernel_maps
            .values()
            .chain(self.cgroups.values())
            .map(|known| record(known.stamp.task, known.body.clone()))
            .collect();
        for (pid, process) in &self.processes {
            for (tid, name) in &process.names {
                let task = Task {
                    pid: *pid,
                    tid: *tid,
                };
                let (name, exec) = (name.clone(), false);
                records.push(record(task, Body::Comm { task, name, exec }));
            }
            let maps = process.maps.iter();
            records.extend(maps.map(|map| record(map.task, Body::Map(map.clone()))));
        }
        records
    }
}

fn range(map: &Map) -> Range<u64> {
    map.start..map.start.saturating_add(map.length)
}

/// Returns the parts of the mapping `old` that the mapping `new` does not replace.
fn remaining_parts(old: Map, new: &Map) -> impl Iterator<Item = Map> + use<> {
    parts_outside(range(&old), &range(new)).map(move |part| Map {
        start: part.start,
        length: part.end - part.start,
        offset: old.offset.wrapping_add(part.start - old.start),
        ..old.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: Body) -> Record {
        Record {
            stamp: Stamp {
                time: 5,
                ..Stamp::default()
            },
            body,
        }
    }

    fn comm(pid: u32, tid: u32, name: &str, exec: bool) -> Record {
        record(Body::Comm {
            task: Task { pid, tid },
            name: name.to_owned(),
            exec,
        })
    }

    fn map(pid: u32, start: u64, length: u64, file: &str) -> Record {
        record(Body::Map(Map {
            task: Task::leader(pid),
            start,
            length,
            file: file.into(),
            ..Map::default()
        }))
    }

    fn fork(child: (u32, u32), parent: (u32, u32)) -> Record {
        let task = |(pid, tid)| Task { pid, tid };
        record(Body::Fork {
            child: task(child),
            parent: task(parent),
        })
    }

    fn exit(pid: u32, tid: u32) -> Record {
        record(Body::Exit {
            task: Task { pid, tid },
            parent: Task::default(),
        })
    }

    /// Returns the state as lines: names as `pid/tid name`, memory as `pid file`.
    fn state_lines(history: &History) -> Vec<String> {
        let text = |record: Record| match record.body {
            Body::Comm { task, name, .. } => format!("{}/{} {name}", task.pid, task.tid),
            Body::Map(map) => format!("{} {}", map.task.pid, map.file.display()),
            other => panic!("{other:?}"),
        };
        let records = history.initial_records().into_iter();
        records
            .inspect(|record| assert_eq!(record.stamp.time, 0))
            .map(text)
            .collect()
    }

    fn state_after(records: &[Record]) -> Vec<String> {
        let mut history = History::default();
        records.iter().for_each(|record| history.apply(record));
        state_lines(&history)
    }

    #[test]
    fn living_tasks_and_their_memory_are_the_state() {
        let mut records = vec![
            comm(7, 7, "sh", true),
            map(7, 0x1000, 0x1000, "sh"),
            map(7, 0x2000, 0x1000, "libc"),
            fork((8, 8), (7, 7)),
            fork((7, 9), (7, 7)),
        ];
        let sh = ["7/7 sh", "7/9 sh", "7 sh", "7 libc"];
        let child = ["8/8 sh", "8 sh", "8 libc"];
        assert_eq!(state_after(&records), [&sh[..], &child[..]].concat());
        records.push(comm(8, 8, "ls", true));
        records.push(map(8, 0x1000, 0x1000, "ls"));
        let child = ["8/8 ls", "8 ls"];
        assert_eq!(state_after(&records), [&sh[..], &child[..]].concat());
        records.extend([exit(7, 7), exit(8, 8)]);
        assert_eq!(state_after(&records), ["7/9 sh", "7 sh", "7 libc"]);
        records.push(exit(7, 9));
        assert!(state_after(&records).is_empty());
    }

    #[test]
    fn a_new_mapping_replaces_what_it_overlaps() {
        let mut history = History::default();
        for (start, length, file) in [
            (0x1000, 0x1000, "below"),
            (0x2000, 0x1000, "old"),
            (0x3000, 0x1000, "covered"),
            (0x4000, 0x1000, "above"),
            (0x2800, 0x100, "within"),
            (0x2f00, 0x1200, "over"),
        ] {
            history.apply(&map(7, start, length, file));
        }
        let maps = history.processes[&7].maps.iter();
        let maps: Vec<_> = maps
            .map(|map| (map.start, map.length, map.offset, map.file.to_str()))
            .collect();
        assert_eq!(
            maps,
            [
                (0x1000, 0x1000, 0, Some("below")),
                (0x2000, 0x800, 0, Some("old")),
                (0x2900, 0x600, 0x900, Some("old")),
                (0x4100, 0xf00, 0x100, Some("above")),
                (0x2800, 0x100, 0, Some("within")),
                (0x2f00, 0x1200, 0, Some("over")),
            ]
        );
    }

    #[test]
    fn recent_records_keep_their_times_as_long_as_they_are_few() {
        let mut history = History::default();
        history.keep_recent(comm(7, 7, "x", true));
        assert!(state_lines(&history).is_empty());
        let recent = history.take_recent();
        assert_eq!(recent, [comm(7, 7, "x", true)]);
        recent.iter().for_each(|record| history.apply(record));
        assert_eq!(state_lines(&history), ["7/7 x"]);
        for pid in 0..u32::try_from(MAX_RECENT_RECORDS).expect("it is small") + 2 {
            history.keep_recent(comm(pid, pid, "y", true));
        }
        assert_eq!(state_lines(&history), ["0/0 y", "1/1 y", "7/7 x"]);
        assert_eq!(history.take_recent().len(), MAX_RECENT_RECORDS);
    }
}
