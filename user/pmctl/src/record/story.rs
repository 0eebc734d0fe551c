// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened around the samples: as perf tells it, or else from what `/proc` says.

use nix::errno::Errno;
use perfmon::Device;

use super::clock::Clock;
use super::convert::Attribution;
use super::processes;
use super::sideband::Sideband;
use crate::perfdata::Record;
use crate::profile::Spaces;

/// What is known about tasks, and what isn't.
pub(super) struct Story {
    source: Source,
    /// What there was at the beginning.
    before: Vec<Record>,
    /// The command.
    child: Option<u32>,
    /// Why it is not the whole truth; in words.
    degraded: Vec<String>,
}

enum Source {
    Perf(Sideband),
    /// perf may not be asked: the clock, and the command's memory as it was seen last.
    Proc(Clock, Vec<Record>),
}

impl Story {
    /// Begins to listen on these CPUs.
    pub(super) fn begin(cpus: &[u32], child: Option<u32>, device: &Device) -> Self {
        let mut degraded = Vec::new();
        let source = match Sideband::open(cpus, device) {
            Ok(sideband) => Source::Perf(sideband),
            Err(errno) => {
                degraded.push(refusal(errno));
                Source::Proc(Clock::Pairs(Vec::new()), Vec::new())
            }
        };
        let kernel = processes::kernel();
        if kernel.is_empty() {
            degraded.push(
                "the kernel's addresses are hidden from this user (kernel.kptr_restrict): its functions have no \
                 names"
                    .to_owned(),
            );
        }
        // After perf has begun: so nothing is missed.
        let before = [kernel, processes::all()].concat();
        let mut story = Self {
            source,
            before,
            child,
            degraded,
        };
        story.watch(device);
        story
    }

    /// Listens: to be called often, and once more at the end.
    pub(super) fn watch(&mut self, device: &Device) {
        match &mut self.source {
            Source::Perf(sideband) => sideband.poll(device),
            Source::Proc(clock, memory) => {
                clock.read(device);
                let now = self.child.map(processes::process).unwrap_or_default();
                // It has none any more when it has ended.
                if now.len() > 1 {
                    *memory = now;
                }
            }
        }
    }

    /// The end.
    pub(super) fn end(mut self) -> Told {
        match self.source {
            Source::Perf(mut sideband) => {
                self.degraded.extend(doubts(&sideband));
                sideband.records.sort_by_key(|record| record.stamp.time);
                Told {
                    records: [self.before, sideband.records].concat(),
                    clock: sideband.clock,
                    attribution: Attribution::Switches(sideband.tasks),
                    degraded: self.degraded,
                }
            }
            Source::Proc(clock, memory) => {
                let records = [self.before, memory].concat();
                let mut spaces = Spaces::default();
                for record in &records {
                    spaces.apply(record);
                }
                Told {
                    records,
                    clock,
                    attribution: Attribution::Addresses(spaces),
                    degraded: self.degraded,
                }
            }
        }
    }
}

/// All that is known about tasks.
pub(super) struct Told {
    /// By time.
    pub(super) records: Vec<Record>,
    pub(super) clock: Clock,
    pub(super) attribution: Attribution,
    /// Why it is not the whole truth; in words.
    pub(super) degraded: Vec<String>,
}

impl Told {
    /// Whether samples are known to be of this or that task.
    pub(super) fn knows_tasks(&self) -> bool {
        matches!(self.attribution, Attribution::Switches(_))
    }
}

/// Why perf can't be asked, and what that means.
fn refusal(errno: Errno) -> String {
    let reason = match errno {
        Errno::EACCES => "the kernel's policy forbids it (kernel.perf_event_paranoid)".to_owned(),
        // What mmap(2) says of a ring.
        Errno::EPERM => {
            "this user may not lock that much memory (ulimit -l, kernel.perf_event_mlock_kb)"
                .to_owned()
        }
        other => other.desc().to_owned(),
    };
    format!(
        "perf does not tell which task a CPU executes: {reason}. A sample counts for the process that has \
         something at its address, if there is only one"
    )
}

/// What perf did not tell.
fn doubts(sideband: &Sideband) -> Vec<String> {
    let lost = sideband.lost;
    let missing = (lost > 0).then(|| {
        format!("perf could not tell {lost} of the switches between tasks: some samples may be of others")
    });
    let unsteady = (!sideband.is_steady()).then(|| {
        "the speed of the time-stamp counter changed: some samples may be of the task before or after".to_owned()
    });
    missing.into_iter().chain(unsteady).collect()
}
