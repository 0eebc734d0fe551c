// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects mappings and the names of tasks. Both come from the driver's records, which are in the
//! rings beside the samples. If the kernel does not tell the driver about mappings, they are
//! recorded by an event of perf, which needs no counter, or else read from `/proc`.

use std::mem;

use ahash::{AHashMap, AHashSet};
use nix::errno::Errno;
use perfmon::Device;

use super::dummies::TaskRecords;
use super::sampled_tasks::SampledTasks;
use crate::commands::record::perf_ring::{PerfRing, refusal_reason};
use crate::recording::cgroups::KnownCgroups;
use crate::recording::perfdata::{Attr, Body, Record, Stamp, Task};
use crate::recording::procfs::{self, MappingKinds};
use crate::system::text::count;

/// Pages of a ring of perf. A user may pin 129 pages for each CPU, and the rings of samples need
/// some of them.
const RING_PAGES: usize = 32;

/// The origin of mappings.
enum Origin {
    /// The driver's records.
    Driver,
    /// perf's rings, one for each CPU.
    Perf(Vec<PerfRing>),
    /// `/proc`.
    Processes,
}

/// The mappings of the recorded processes, from perf, the driver or `/proc`.
pub(super) struct Maps {
    origin: Origin,
    kinds: MappingKinds,
    /// Records that [`Self::take_records`] has not returned yet.
    new_records: Vec<Record>,
    /// Processes whose memory has to be read again, with the time of their exec.
    executed_pids: Vec<(u32, u64)>,
    /// The processes whose memory is read from `/proc`.
    watched: AHashSet<u32>,
    /// The mappings of the watched processes at the last reading of `/proc`.
    last_memory: Vec<Record>,
    /// Number of records that perf has lost.
    lost: u64,
    /// Reasons why samples may have no name.
    degraded: Vec<String>,
}

impl Maps {
    /// Chooses the origin of mappings of these kinds. If that is perf, opens perf's events for these tasks on all
    /// online CPUs.
    pub(super) fn open(
        tasks: &SampledTasks,
        online: &[u32],
        device: &Device,
        kinds: MappingKinds,
    ) -> Self {
        let driver_has_mappings = device.info().is_ok_and(|info| info.has_mappings);
        let (origin, degraded) = if driver_has_mappings {
            (Origin::Driver, Vec::new())
        } else {
            match open_rings(tasks, online, kinds) {
                Ok(rings) => (Origin::Perf(rings), Vec::new()),
                Err(errno) => (Origin::Processes, vec![no_perf_message(errno)]),
            }
        };
        Self {
            origin,
            kinds,
            new_records: Vec::new(),
            executed_pids: Vec::new(),
            watched: AHashSet::new(),
            last_memory: Vec::new(),
            lost: 0,
            degraded,
        }
    }

    /// Returns the kinds of records of tasks that the driver has to write.
    pub(super) const fn wanted_records(&self) -> TaskRecords {
        match self.origin {
            Origin::Driver => TaskRecords::Mappings(self.kinds),
            Origin::Perf(_) => TaskRecords::None,
            Origin::Processes => TaskRecords::Names,
        }
    }

    /// Returns the kinds of mappings that are recorded.
    pub(super) const fn kinds(&self) -> MappingKinds {
        self.kinds
    }

    /// Returns whether mappings are read from `/proc`, so that [`Self::note_exec`] has to be called.
    pub(super) const fn reads_procfs(&self) -> bool {
        matches!(self.origin, Origin::Processes)
    }

    /// Reads the state before the recording. `samples_kernel` says whether the kernel is sampled; `cgroups` are part of
    /// the state.
    pub(super) fn read_initial_state(
        &mut self,
        tasks: &SampledTasks,
        samples_kernel: bool,
        cgroups: KnownCgroups,
    ) {
        if cgroups.is_incomplete {
            self.degraded.push(format!(
                "there are more than {} cgroups: the others have no names",
                cgroups.records.len()
            ));
        }
        self.new_records.extend(cgroups.records);
        let kernel = procfs::kernel_records();
        if kernel.is_empty() && samples_kernel {
            self.degraded.push(
                "the kernel's addresses are hidden from this user (kernel.kptr_restrict): its functions have no \
                 names"
                    .to_owned(),
            );
        }
        self.new_records.extend(kernel);
        if tasks.are_selected() {
            let processes = tasks.tids().iter().map(|tid| procfs::process_of(*tid));
            let processes: AHashSet<u32> = processes.collect();
            for pid in processes {
                // Until the exec, the command's memory is a copy of pmctl's: its names would be wrong.
                if !matches!(tasks, SampledTasks::Command { .. }) {
                    self.new_records
                        .extend(procfs::process_records_of(pid, self.kinds));
                }
                self.watched.insert(pid);
            }
        } else {
            self.new_records.extend(procfs::process_records(self.kinds));
        }
    }

    /// If a record of the driver reports an exec, notes its process, whose new memory has to be
    /// read.
    pub(super) fn note_exec(&mut self, record: &Record) {
        if let Body::Comm {
            task, exec: true, ..
        } = &record.body
        {
            self.executed_pids.push((task.pid, record.stamp.time));
        }
    }

    /// Returns the records since the last call. Must be called often, and before the samples are read.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        match &mut self.origin {
            Origin::Driver => {}
            Origin::Perf(rings) => {
                for ring in rings {
                    self.lost += ring.drain(|record| self.new_records.push(record));
                }
            }
            Origin::Processes => self.read_memory(),
        }
        mem::take(&mut self.new_records)
    }

    /// Reads the memory of processes.
    fn read_memory(&mut self) {
        for (pid, time) in mem::take(&mut self.executed_pids) {
            let with_exec_time = |record: Record| Record {
                stamp: Stamp {
                    time,
                    ..record.stamp
                },
                ..record
            };
            self.new_records.extend(
                procfs::process_records_of(pid, self.kinds)
                    .into_iter()
                    .map(with_exec_time),
            );
        }
        let now: Vec<Record> = self
            .watched
            .iter()
            .flat_map(|pid| procfs::process_records_of(*pid, self.kinds))
            .collect();
        if now.len() > self.watched.len() && now != self.last_memory {
            // Only the new records: complete lists would make the file grow with the square of the number of mappings.
            self.new_records
                .extend(new_records(&self.last_memory, &now));
            self.last_memory = now;
        }
    }

    /// Returns the reasons why samples may have no name. `lost` is the number of the driver's records that were lost.
    pub(super) fn degraded_reasons(&self, lost: u64) -> Vec<String> {
        let mut degraded = self.degraded.clone();
        let lost = self.lost + lost;
        if lost > 0 {
            degraded.push(format!(
                "{} of mappings or task names were lost, since a ring was full: some samples may have no name",
                count(lost, "record")
            ));
        }
        degraded
    }
}

/// Returns the records of `now` that `last` lacks.
fn new_records(last: &[Record], now: &[Record]) -> Vec<Record> {
    let key = |record: &Record| match &record.body {
        Body::Map(map) => (map.task, map.start),
        // Each thread has one name.
        Body::Comm { task, .. } => (*task, 0),
        _ => (record.stamp.task, 0),
    };
    let mut known: AHashMap<(Task, u64), Vec<&Record>> = AHashMap::new();
    for record in last {
        known.entry(key(record)).or_default().push(record);
    }
    let is_new = |record: &&Record| {
        let known = known.get(&key(record));
        known.is_none_or(|records| !records.contains(record))
    };
    now.iter().filter(is_new).cloned().collect()
}

/// Opens perf's events, with a ring for each CPU.
fn open_rings(
    tasks: &SampledTasks,
    online: &[u32],
    kinds: MappingKinds,
) -> Result<Vec<PerfRing>, Errno> {
    let attr = Attr::for_task_records(true, !tasks.are_selected());
    let attr = match kinds {
        MappingKinds::Code => attr,
        MappingKinds::CodeAndData => attr.with_data_mappings(),
    };
    let attr = attr.encode();
    let numbers = tasks.numbers();
    let mut rings = Vec::new();
    for cpu in online {
        let mut ring: Option<PerfRing> = None;
        for task in &numbers {
            let opened = PerfRing::open_or_add(&mut ring, &attr, (*task, *cpu), RING_PAGES);
            match opened.map_err(Errno::from) {
                // One of several threads has ended meanwhile.
                Err(Errno::ESRCH) if numbers.len() > 1 => {}
                result => result?,
            }
        }
        rings.extend(ring);
    }
    Ok(rings)
}

/// Returns the reason why perf can't be used, and the consequence.
fn no_perf_message(errno: Errno) -> String {
    let reason = refusal_reason(errno);
    format!(
        "this kernel has no kprobes, so the driver can't record mappings, and neither can perf: {reason}. Libraries \
         that are loaded late may have no name"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::Map;

    fn record(body: Body) -> Record {
        Record {
            stamp: Stamp::default(),
            body,
        }
    }

    #[test]
    fn only_what_the_last_list_lacks_is_new() {
        let task = Task::leader(7);
        let map = |start, length| {
            record(Body::Map(Map {
                task,
                start,
                length,
                ..Map::default()
            }))
        };
        let name = |name: &str| {
            record(Body::Comm {
                task,
                name: name.to_owned(),
                exec: false,
            })
        };
        let last = [name("a"), map(0x1000, 0x1000), map(0x4000, 0x2000)];
        assert_eq!(new_records(&[], &last), last);
        assert_eq!(new_records(&last, &last), []);
        let now = [
            name("b"),
            map(0x1000, 0x1000),
            map(0x4000, 0x1000),
            map(0x8000, 1),
        ];
        assert_eq!(
            new_records(&last, &now),
            [name("b"), map(0x4000, 0x1000), map(0x8000, 1)]
        );
    }
}
