// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's records of tasks during a recording, from an event on each CPU that needs no counter.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perfmon::Device;

use super::tasks::CpuTasks;
use crate::commands::record::clock::{Clock, FALLBACK_CLOCK};
use crate::commands::record::perf_ring::{ALL_TASKS, MAX_PAGES, PerfRing};
use crate::recording::perfdata::{Attr, Body, Record};

/// perf's events on all CPUs, and their records.
#[derive(Debug)]
pub(super) struct Sideband {
    rings: Vec<PerfRing>,
    /// Names, mappings, forks and exits of tasks. The task log takes these records out.
    pub(super) records: Vec<Record>,
    /// The task switches.
    pub(super) tasks: CpuTasks,
    /// Number of records that the kernel dropped because a ring was full.
    pub(super) lost: u64,
    /// The clock of the records' times.
    pub(super) clock: Clock,
}

impl Sideband {
    /// Opens an event on each of these CPUs.
    ///
    /// # Errors
    /// The error of `perf_event_open(2)`.
    pub(super) fn open(cpus: &[u32], device: &Device) -> Result<Self, Errno> {
        let open = |clock| {
            let attr = Attr::sideband(clock).encode();
            let rings = cpus
                .iter()
                .map(|cpu| PerfRing::open(&attr, ALL_TASKS, *cpu, MAX_PAGES));
            rings.collect::<Result<Vec<_>, _>>().map_err(Errno::from)
        };
        let mut rings = open(None)?;
        let clock = match rings.first().and_then(PerfRing::scale) {
            Some(scale) => Clock::Perf(scale),
            None => {
                rings = open(Some(FALLBACK_CLOCK.as_raw()))?;
                Clock::Pairs(Vec::new())
            }
        };
        let mut sideband = Self {
            rings,
            records: Vec::new(),
            tasks: CpuTasks::default(),
            lost: 0,
            clock,
        };
        sideband.clock.read(device);
        Ok(sideband)
    }

    /// Reads the records since the last call, and the clock.
    pub(super) fn poll(&mut self, device: &Device) {
        self.clock.read(device);
        for ring in &mut self.rings {
            self.lost += ring.drain(|record| match record {
                Record {
                    stamp,
                    body: Body::Switch { out, other },
                } => self.tasks.add_switch(stamp, out, other),
                other => self.records.push(other),
            });
        }
    }

    /// Returns whether the conversion to perf's clock is still the same.
    pub(super) fn is_clock_unchanged(&self) -> bool {
        match self.clock {
            Clock::Perf(scale) => self.rings.iter().all(|ring| ring.scale() == Some(scale)),
            Clock::Pairs(_) => true,
        }
    }
}

/// Runs on each of these CPUs for a moment, to cause a task switch at the beginning of the recording. The record of the
/// switch says which task runs on the CPU. A program that never waits would cause no switch.
pub(super) fn visit_cpus(cpus: &[u32]) -> Result<()> {
    const THIS_THREAD: Pid = Pid::from_raw(0);
    let previous_cpus = sched_getaffinity(THIS_THREAD)
        .context("can't read the CPU affinity of pmctl (sched_getaffinity)")?;
    for cpu in cpus {
        let mut target = CpuSet::new();
        target.set(*cpu as usize)?;
        // The move to the CPU may be forbidden, or the CPU may be offline by now. The task is then unknown until its
        // first switch.
        let _ = sched_setaffinity(THIS_THREAD, &target);
    }
    sched_setaffinity(THIS_THREAD, &previous_cpus)
        .context("can't restore the CPU affinity of pmctl (sched_setaffinity)")
}
