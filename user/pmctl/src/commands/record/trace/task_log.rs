// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log of the tasks during a recording: from perf, or else from `/proc`.

use std::mem;

use nix::errno::Errno;
use perfmon::Device;

use super::sideband::Sideband;
use crate::commands::record::clock::Clock;
use crate::commands::record::perf_ring::refusal_reason;
use crate::recording::address_spaces::AddressSpaces;
use crate::recording::perfdata::{Record, Stamp, Task, is_kernel};
use crate::recording::procfs;

/// Names, memory, and switches of tasks.
pub(super) struct TaskLog {
    source: TaskSource,
    /// Records that were not taken yet.
    news: Vec<Record>,
    /// The command, or the process that is watched.
    process: Option<u32>,
    /// Reasons why samples may have the wrong task or name.
    degraded: Vec<String>,
}

enum TaskSource {
    Perf(Sideband),
    /// perf is not allowed.
    Proc(Box<ProcSnapshot>),
}

/// State that is read from `/proc` where perf is not allowed.
struct ProcSnapshot {
    clock: Clock,
    /// Memory of the process when it was read last.
    memory: Vec<Record>,
    /// Memory of each process so far.
    spaces: AddressSpaces,
}

impl TaskLog {
    /// Opens perf's events on these CPUs.
    pub(super) fn begin(cpus: &[u32], process: Option<u32>, device: &Device) -> Self {
        let mut degraded = Vec::new();
        let source = match Sideband::open(cpus, device) {
            Ok(sideband) => TaskSource::Perf(sideband),
            Err(errno) => {
                degraded.push(refusal(errno));
                TaskSource::Proc(Box::new(ProcSnapshot {
                    clock: Clock::Pairs(Vec::new()),
                    memory: Vec::new(),
                    spaces: AddressSpaces::default(),
                }))
            }
        };
        let kernel = procfs::kernel();
        if kernel.is_empty() {
            degraded.push(
                "the kernel's addresses are hidden from this user (kernel.kptr_restrict): its functions have no \
                 names"
                    .to_owned(),
            );
        }
        let mut log = Self {
            source,
            // Reads /proc after perf has begun, so that nothing is missed.
            news: [kernel, procfs::process_records()].concat(),
            process,
            degraded,
        };
        log.watch(device);
        log
    }

    /// Reads what happened since the last call. Must be called often, and once more at the end.
    pub(super) fn watch(&mut self, device: &Device) {
        match &mut self.source {
            TaskSource::Perf(sideband) => {
                sideband.poll(device);
                self.news.append(&mut sideband.records);
            }
            TaskSource::Proc(seen) => {
                seen.clock.read(device);
                let now = self.process.map(procfs::process).unwrap_or_default();
                // A process that has ended has no memory.
                if now.len() > 1 && now != seen.memory {
                    self.news.extend(now.iter().cloned());
                    seen.memory = now;
                }
            }
        }
    }

    /// Takes out the records since the last call: names, memory, beginnings and ends of tasks.
    pub(super) fn take(&mut self) -> Vec<Record> {
        if let TaskSource::Proc(seen) = &mut self.source {
            for record in &self.news {
                seen.spaces.apply(record);
            }
        }
        mem::take(&mut self.news)
    }

    /// Returns whether the task of each sample is known.
    pub(super) const fn knows_tasks(&self) -> bool {
        matches!(self.source, TaskSource::Perf(_))
    }

    /// The task of a sample: from the switches of tasks; or from what is at its address, as long as only one process
    /// has something there.
    pub(super) fn task(&self, stamp: &Stamp, ip: u64) -> Task {
        let task = match &self.source {
            TaskSource::Perf(sideband) => sideband.tasks.at(stamp.cpu, stamp.time),
            TaskSource::Proc(_) if is_kernel(ip) => None,
            TaskSource::Proc(seen) => seen.spaces.only_owner(ip).map(Task::leader),
        };
        task.unwrap_or(Task::UNKNOWN)
    }

    /// Returns the clock of the records.
    pub(super) const fn clock(&self) -> &Clock {
        match &self.source {
            TaskSource::Perf(sideband) => &sideband.clock,
            TaskSource::Proc(seen) => &seen.clock,
        }
    }

    /// Forgets the switches before a time.
    pub(super) fn forget(&mut self, time: u64) {
        if let TaskSource::Perf(sideband) = &mut self.source {
            sideband.tasks.forget(time);
        }
    }

    /// Reasons why samples may have the wrong task or name.
    pub(super) fn degraded(mut self) -> Vec<String> {
        if let TaskSource::Perf(sideband) = &self.source {
            self.degraded.extend(doubts(sideband));
        }
        self.degraded
    }
}

/// Returns why perf can't be used, and what that means.
fn refusal(errno: Errno) -> String {
    let reason = refusal_reason(errno);
    format!(
        "perf does not record task switches: {reason}. A sample is attributed to a process only if no other has code \
         at its address"
    )
}

/// Returns what perf did not report.
fn doubts(sideband: &Sideband) -> Vec<String> {
    let lost = sideband.lost;
    let missing = (lost > 0).then(|| {
        format!("perf lost {lost} records of task switches: some samples may be attributed to another task")
    });
    let unsteady = (!sideband.is_steady()).then(|| {
        "the frequency of the time-stamp counter changed: some samples may be attributed to the task before or after".to_owned()
    });
    missing.into_iter().chain(unsteady).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{Body, Map};

    #[test]
    fn without_perf_the_address_decides() {
        let (task, start) = (Task::leader(7), 0x40_1000);
        let map = Map {
            task,
            start,
            length: 0x1000,
            ..Map::default()
        };
        let stamp = Stamp::default();
        let body = Body::Map(map);
        let mut log = TaskLog {
            source: TaskSource::Proc(Box::new(ProcSnapshot {
                clock: Clock::Pairs(Vec::new()),
                memory: Vec::new(),
                spaces: AddressSpaces::default(),
            })),
            news: vec![Record { stamp, body }],
            process: None,
            degraded: Vec::new(),
        };
        assert_eq!(log.task(&stamp, start), Task::UNKNOWN);
        assert_eq!(log.take().len(), 1);
        assert_eq!(log.take().len(), 0);
        assert_eq!(log.task(&stamp, start), task);
        assert_eq!(log.task(&stamp, 1), Task::UNKNOWN);
        assert_eq!(log.task(&stamp, u64::MAX), Task::UNKNOWN);
    }
}
