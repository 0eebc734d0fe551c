// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects mappings and the names of tasks from the driver's records, which are in the rings beside the samples. Where
//! the kernel does not tell the driver what programs map, from an event of perf's that needs no counter, or else from
//! `/proc`.

use std::mem;

use ahash::AHashSet;
use nix::errno::Errno;
use perfmon::Device;

use super::plan::SampledTasks;
use super::samplers::TaskRecords;
use crate::commands::record::perf_ring::{ALL_TASKS, PerfRing, refusal_reason};
use crate::recording::perfdata::{Attr, Body, Record, Stamp};
use crate::recording::procfs;
use crate::system::text::count;

/// Pages of a ring of perf's: a user may have 129 for each CPU, and the samples need some, too.
const RING_PAGES: usize = 32;

/// The origin of mappings.
enum Origin {
    /// The driver's records.
    Driver,
    /// perf's rings, of each CPU.
    Perf(Vec<PerfRing>),
    /// `/proc`.
    Processes,
}

/// The source of mappings.
pub(super) struct Maps {
    origin: Origin,
    /// Records that were not taken yet.
    news: Vec<Record>,
    /// Processes whose memory has to be read, with the time from which on it holds.
    changed: Vec<(u32, u64)>,
    /// The processes that are watched, without perf.
    watched: AHashSet<u32>,
    /// Memory of each watched process when it was read last.
    before: Vec<Record>,
    /// Records that perf has lost.
    lost: u64,
    degraded: Vec<String>,
}

impl Maps {
    /// Finds the source, and opens perf's events of these tasks, if it is them, on all CPUs that are online.
    pub(super) fn open(tasks: &SampledTasks, online: &[u32], device: &Device) -> Self {
        let is_told = device.info().is_ok_and(|info| info.mappings);
        let (origin, degraded) = if is_told {
            (Origin::Driver, Vec::new())
        } else {
            match rings(tasks, online) {
                Ok(rings) => (Origin::Perf(rings), Vec::new()),
                Err(errno) => (Origin::Processes, vec![refusal(errno)]),
            }
        };
        Self {
            origin,
            news: Vec::new(),
            changed: Vec::new(),
            watched: AHashSet::new(),
            before: Vec::new(),
            lost: 0,
            degraded,
        }
    }

    /// Returns the records that have to come from the driver.
    pub(super) const fn wanted_records(&self) -> TaskRecords {
        match self.origin {
            Origin::Driver => TaskRecords::Mappings,
            Origin::Perf(_) => TaskRecords::None,
            Origin::Processes => TaskRecords::Names,
        }
    }

    /// Returns whether mappings are read from `/proc`, after what [`Self::note`] is given.
    pub(super) const fn are_read(&self) -> bool {
        matches!(self.origin, Origin::Processes)
    }

    /// Reads the state before the recording, which has samples `of_kernel` or not.
    pub(super) fn begin(&mut self, tasks: &SampledTasks, of_kernel: bool) {
        let kernel = procfs::kernel();
        if kernel.is_empty() && of_kernel {
            self.degraded.push(
                "the kernel's addresses are hidden from this user (kernel.kptr_restrict): its functions have no \
                 names"
                    .to_owned(),
            );
        }
        self.news.extend(kernel);
        if tasks.are_some() {
            let processes = tasks.tids().iter().map(|tid| procfs::process_of(*tid));
            let processes: AHashSet<u32> = processes.collect();
            for pid in processes {
                // The command's is pmctl's own until the exec: names from there would be wrong ones.
                if !matches!(tasks, SampledTasks::Command { .. }) {
                    self.news.extend(procfs::process(pid));
                }
                self.watched.insert(pid);
            }
        } else {
            self.news.extend(procfs::process_records());
        }
    }

    /// Notes a record of the driver's about tasks: a program that has been executed has a new memory.
    pub(super) fn note(&mut self, record: &Record) {
        if let Body::Comm {
            task, exec: true, ..
        } = &record.body
        {
            self.changed.push((task.pid, record.stamp.time));
        }
    }

    /// Returns the records since the last call. Must be called often, and before the samples are read.
    pub(super) fn take(&mut self) -> Vec<Record> {
        match &mut self.origin {
            Origin::Driver => {}
            Origin::Perf(rings) => {
                for ring in rings {
                    self.lost += ring.drain(|record| self.news.push(record));
                }
            }
            Origin::Processes => self.read_memory(),
        }
        mem::take(&mut self.news)
    }

    /// Reads the memory of processes.
    fn read_memory(&mut self) {
        for (pid, time) in mem::take(&mut self.changed) {
            let at = |record: Record| Record {
                stamp: Stamp {
                    time,
                    ..record.stamp
                },
                ..record
            };
            self.news.extend(procfs::process(pid).into_iter().map(at));
        }
        let now: Vec<Record> = self
            .watched
            .iter()
            .flat_map(|pid| procfs::process(*pid))
            .collect();
        if now.len() > self.watched.len() && now != self.before {
            self.news.extend(now.iter().cloned());
            self.before = now;
        }
    }

    /// Reasons why samples may have no name, where so many of the driver's records were lost.
    pub(super) fn degraded(&self, lost: u64) -> Vec<String> {
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

/// Opens perf's events, with a ring for each CPU.
fn rings(tasks: &SampledTasks, online: &[u32]) -> Result<Vec<PerfRing>, Errno> {
    let attr = Attr::tasks(true, !tasks.are_some());
    let number = |tid: &u32| i32::try_from(*tid).unwrap_or(i32::MAX);
    let tids: Vec<i32> = match tasks.tids() {
        [] => vec![ALL_TASKS],
        tids => tids.iter().map(number).collect(),
    };
    let mut rings = Vec::new();
    for cpu in online {
        let mut ring: Option<PerfRing> = None;
        for tid in &tids {
            let opened = match &mut ring {
                None => PerfRing::open(&attr, *tid, *cpu, RING_PAGES).map(|new| ring = Some(new)),
                Some(ring) => ring.add(&attr, *tid, *cpu),
            };
            match opened {
                // A thread of several that has ended meanwhile.
                Err(Errno::ESRCH) if tids.len() > 1 => {}
                result => result?,
            }
        }
        rings.extend(ring);
    }
    Ok(rings)
}

/// Returns why perf can't be used, and what that means.
fn refusal(errno: Errno) -> String {
    let reason = refusal_reason(errno);
    format!(
        "this kernel has no kprobes, so the driver can't record mappings, and neither can perf: {reason}. Libraries \
         that are loaded late may have no name"
    )
}
