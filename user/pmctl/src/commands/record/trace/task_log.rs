// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log of the tasks during a recording, from perf or else from `/proc`.

use std::mem;

use nix::errno::Errno;
use perfmon::Device;

use super::sideband::Sideband;
use crate::commands::record::clock::Clock;
use crate::commands::record::perf_ring::refusal_reason;
use crate::recording::address_spaces::AddressSpaces;
use crate::recording::perfdata::{Record, Stamp, Task, is_kernel_address};
use crate::recording::procfs::{self, MappingKinds};

/// Names, memory, and switches of tasks.
pub(super) struct TaskLog {
    source: TaskSource,
    /// Records that [`Self::take_records`] has not returned yet.
    new_records: Vec<Record>,
    /// The PID of the command or of -p.
    process: Option<u32>,
    /// Reasons why samples may have the wrong task or name.
    degraded: Vec<String>,
}

/// The source of task records.
enum TaskSource {
    Perf(Sideband),
    /// `/proc`, where this user may not use perf.
    Proc(Box<ProcSnapshot>),
}

/// State that is read from `/proc` where this user may not use perf.
struct ProcSnapshot {
    clock: Clock,
    /// Mappings of the process at the last reading of `/proc`.
    memory: Vec<Record>,
    /// Mappings of all processes, by the records so far.
    address_spaces: AddressSpaces,
}

impl TaskLog {
    /// Opens perf's events on these CPUs, and reads the state before the recording from `/proc`.
    pub(super) fn begin(cpus: &[u32], process: Option<u32>, device: &Device) -> Self {
        let mut degraded = Vec::new();
        let source = match Sideband::open(cpus, device) {
            Ok(sideband) => TaskSource::Perf(sideband),
            Err(errno) => {
                degraded.push(no_perf_message(errno));
                TaskSource::Proc(Box::new(ProcSnapshot {
                    clock: Clock::Pairs(Vec::new()),
                    memory: Vec::new(),
                    address_spaces: AddressSpaces::default(),
                }))
            }
        };
        let kernel = procfs::kernel_records();
        if kernel.is_empty() {
            degraded.push(
                "the kernel's addresses are hidden from this user (kernel.kptr_restrict): its functions have no \
                 names"
                    .to_owned(),
            );
        }
        let mut log = Self {
            source,
            // Reads /proc after perf's events have been opened, so that no task is missed.
            new_records: [kernel, procfs::process_records(MappingKinds::Code)].concat(),
            process,
            degraded,
        };
        log.update(device);
        log
    }

    /// Reads the records since the last call. Must be called often, and once more at the end.
    pub(super) fn update(&mut self, device: &Device) {
        match &mut self.source {
            TaskSource::Perf(sideband) => {
                sideband.poll(device);
                self.new_records.append(&mut sideband.records);
            }
            TaskSource::Proc(snapshot) => {
                snapshot.clock.read(device);
                let now = self
                    .process
                    .map(|pid| procfs::process_records_of(pid, MappingKinds::Code))
                    .unwrap_or_default();
                // A process that has ended has no mappings any more.
                if now.len() > 1 && now != snapshot.memory {
                    self.new_records.extend(now.iter().cloned());
                    snapshot.memory = now;
                }
            }
        }
    }

    /// Returns the records since the last call: names, mappings, forks and exits of tasks.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        if let TaskSource::Proc(snapshot) = &mut self.source {
            for record in &self.new_records {
                snapshot.address_spaces.apply(record);
            }
        }
        mem::take(&mut self.new_records)
    }

    /// Returns whether the task of each sample is known.
    pub(super) const fn knows_tasks(&self) -> bool {
        matches!(self.source, TaskSource::Perf(_))
    }

    /// Returns the task of a sample. Without perf's task switches, returns the process with a
    /// mapping at the sample's address if there is only one such process, or else an unknown task.
    pub(super) fn task_of_sample(&self, stamp: &Stamp, ip: u64) -> Task {
        let task = match &self.source {
            TaskSource::Perf(sideband) => sideband.tasks.task_at(stamp.cpu, stamp.time),
            TaskSource::Proc(_) if is_kernel_address(ip) => None,
            TaskSource::Proc(snapshot) => snapshot.address_spaces.only_owner(ip).map(Task::leader),
        };
        task.unwrap_or(Task::UNKNOWN)
    }

    /// Returns the clock of the records.
    pub(super) const fn clock(&self) -> &Clock {
        match &self.source {
            TaskSource::Perf(sideband) => &sideband.clock,
            TaskSource::Proc(snapshot) => &snapshot.clock,
        }
    }

    /// Forgets the switches before a time.
    pub(super) fn forget_switches_before(&mut self, time: u64) {
        if let TaskSource::Perf(sideband) = &mut self.source {
            sideband.tasks.forget_before(time);
        }
    }

    /// Returns the reasons why samples may have the wrong task or name.
    pub(super) fn into_degraded_reasons(mut self) -> Vec<String> {
        if let TaskSource::Perf(sideband) = &self.source {
            self.degraded.extend(perf_problems(sideband));
        }
        self.degraded
    }
}

/// Returns the reason why perf can't be used, and the consequence.
fn no_perf_message(errno: Errno) -> String {
    let reason = refusal_reason(errno);
    format!(
        "perf does not record task switches: {reason}. A sample is attributed to a process only if no other has code \
         at its address"
    )
}

/// Returns the reasons to doubt the task switches that perf has recorded.
fn perf_problems(sideband: &Sideband) -> Vec<String> {
    let lost = sideband.lost;
    let missing = (lost > 0).then(|| {
        format!("perf lost {lost} records of task switches: some samples may be attributed to another task")
    });
    let clock_changed = (!sideband.is_clock_unchanged()).then(|| {
        "the frequency of the time-stamp counter changed: some samples may be attributed to the task before or after".to_owned()
    });
    missing.into_iter().chain(clock_changed).collect()
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
                address_spaces: AddressSpaces::default(),
            })),
            new_records: vec![Record { stamp, body }],
            process: None,
            degraded: Vec::new(),
        };
        assert_eq!(log.task_of_sample(&stamp, start), Task::UNKNOWN);
        assert_eq!(log.take_records().len(), 1);
        assert_eq!(log.take_records().len(), 0);
        assert_eq!(log.task_of_sample(&stamp, start), task);
        assert_eq!(log.task_of_sample(&stamp, 1), Task::UNKNOWN);
        assert_eq!(log.task_of_sample(&stamp, u64::MAX), Task::UNKNOWN);
    }
}
