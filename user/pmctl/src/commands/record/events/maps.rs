// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is mapped where, and the names of tasks: from an event of perf's that needs no counter, or else from `/proc`.

use std::mem;

use ahash::AHashSet;
use nix::errno::Errno;

use super::plan::SampledTasks;
use crate::commands::record::perf_ring::{ALL_TASKS, PerfRing, refusal_reason};
use crate::recording::perfdata::{Attr, Body, Record, Stamp};
use crate::recording::procfs;

/// Pages of a ring of perf's: a user may have 129 for each CPU, and the samples need some, too.
const PAGES: usize = 32;

/// The source of mappings.
pub(super) struct Maps {
    /// perf's rings, of each CPU; `None` if perf is not allowed.
    rings: Option<Vec<PerfRing>>,
    /// Records that were not taken yet.
    news: Vec<Record>,
    /// Processes whose memory has to be read, with the time from which on it holds.
    changed: Vec<(u32, u64)>,
    /// The processes that are watched, without perf.
    watched: AHashSet<u32>,
    /// Memory of each watched process when it was read last.
    before: Vec<Record>,
    lost: u64,
    degraded: Vec<String>,
}

impl Maps {
    /// Opens perf's events of these tasks, on all CPUs that are online.
    pub(super) fn open(tasks: &SampledTasks, online: &[u32]) -> Self {
        let mut maps = Self {
            rings: None,
            news: Vec::new(),
            changed: Vec::new(),
            watched: AHashSet::new(),
            before: Vec::new(),
            lost: 0,
            degraded: Vec::new(),
        };
        match rings(tasks, online) {
            Ok(rings) => maps.rings = Some(rings),
            Err(errno) => maps.degraded.push(refusal(errno)),
        }
        maps
    }

    /// Returns whether the records of tasks have to come from the driver.
    pub(super) const fn are_ours(&self) -> bool {
        self.rings.is_none()
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
            self.news.extend(procfs::all());
        }
    }

    /// Notes a record of the driver's about tasks, without perf: a program that has been executed has a new memory.
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
        match &mut self.rings {
            Some(rings) => {
                for ring in rings {
                    self.lost += ring.drain(|record| self.news.push(record));
                }
            }
            None => self.look(),
        }
        mem::take(&mut self.news)
    }

    /// Reads the memory of processes.
    fn look(&mut self) {
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

    /// Reasons why samples may have no name.
    pub(super) fn degraded(&self) -> Vec<String> {
        let mut degraded = self.degraded.clone();
        if self.lost > 0 {
            degraded.push(format!(
                "perf could not tell {} of the changes of memory: some samples may have no name",
                self.lost
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
                None => PerfRing::open(&attr, *tid, *cpu, PAGES).map(|new| ring = Some(new)),
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
        "perf does not tell what programs map: {reason}. Libraries that are loaded late may have no name"
    )
}
