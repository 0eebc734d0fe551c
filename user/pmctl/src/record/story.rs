// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened around the samples: as perf tells it, or else from what `/proc` says.

use std::mem;

use nix::errno::Errno;
use perfmon::Device;

use super::clock::Clock;
use super::processes;
use super::sideband::Sideband;
use crate::perfdata::{Record, Stamp, Task, is_kernel};
use crate::profile::Spaces;

/// What is known about tasks, and what isn't.
pub(super) struct Story {
    source: Source,
    /// What was told and not taken yet.
    news: Vec<Record>,
    /// The command, or the process that is watched.
    process: Option<u32>,
    /// Why it is not the whole truth; in words.
    degraded: Vec<String>,
}

enum Source {
    Perf(Sideband),
    /// perf may not be asked.
    Proc(Box<Seen>),
}

/// What one sees without perf.
struct Seen {
    clock: Clock,
    /// The process's memory when it was looked at last.
    memory: Vec<Record>,
    /// What each process has had in its memory.
    spaces: Spaces,
}

impl Story {
    /// Begins to listen on these CPUs.
    pub(super) fn begin(cpus: &[u32], process: Option<u32>, device: &Device) -> Self {
        let mut degraded = Vec::new();
        let source = match Sideband::open(cpus, device) {
            Ok(sideband) => Source::Perf(sideband),
            Err(errno) => {
                degraded.push(refusal(errno));
                Source::Proc(Box::new(Seen {
                    clock: Clock::Pairs(Vec::new()),
                    memory: Vec::new(),
                    spaces: Spaces::default(),
                }))
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
        let mut story = Self {
            source,
            // After perf has begun: so nothing is missed.
            news: [kernel, processes::all()].concat(),
            process,
            degraded,
        };
        story.watch(device);
        story
    }

    /// Listens: to be called often, and once more at the end.
    pub(super) fn watch(&mut self, device: &Device) {
        match &mut self.source {
            Source::Perf(sideband) => {
                sideband.poll(device);
                self.news.append(&mut sideband.records);
            }
            Source::Proc(seen) => {
                seen.clock.read(device);
                let now = self.process.map(processes::process).unwrap_or_default();
                // It has none any more when it has ended.
                if now.len() > 1 && now != seen.memory {
                    self.news.extend(now.iter().cloned());
                    seen.memory = now;
                }
            }
        }
    }

    /// Takes out what was told since the last time: names, memory, beginnings and ends of tasks.
    pub(super) fn take(&mut self) -> Vec<Record> {
        if let Source::Proc(seen) = &mut self.source {
            for record in &self.news {
                seen.spaces.apply(record);
            }
        }
        mem::take(&mut self.news)
    }

    /// Whether samples are known to be of this or that task.
    pub(super) const fn knows_tasks(&self) -> bool {
        matches!(self.source, Source::Perf(_))
    }

    /// The task of a sample: from the switches of tasks; or from what is at its address, as long as only one process
    /// has something there.
    pub(super) fn task(&self, stamp: &Stamp, ip: u64) -> Task {
        let task = match &self.source {
            Source::Perf(sideband) => sideband.tasks.at(stamp.cpu, stamp.time),
            Source::Proc(_) if is_kernel(ip) => None,
            Source::Proc(seen) => seen.spaces.only_owner(ip).map(Task::leader),
        };
        task.unwrap_or(Task::UNKNOWN)
    }

    /// The clock of what was told.
    pub(super) const fn clock(&self) -> &Clock {
        match &self.source {
            Source::Perf(sideband) => &sideband.clock,
            Source::Proc(seen) => &seen.clock,
        }
    }

    /// Nobody will ask for a time before this one.
    pub(super) fn forget(&mut self, time: u64) {
        if let Source::Perf(sideband) = &mut self.source {
            sideband.tasks.forget(time);
        }
    }

    /// Why it is not the whole truth; in words.
    pub(super) fn degraded(mut self) -> Vec<String> {
        if let Source::Perf(sideband) = &self.source {
            self.degraded.extend(doubts(sideband));
        }
        self.degraded
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::{Body, Map};

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
        let mut story = Story {
            source: Source::Proc(Box::new(Seen {
                clock: Clock::Pairs(Vec::new()),
                memory: Vec::new(),
                spaces: Spaces::default(),
            })),
            news: vec![Record { stamp, body }],
            process: None,
            degraded: Vec::new(),
        };
        assert_eq!(story.task(&stamp, start), Task::UNKNOWN);
        assert_eq!(story.take().len(), 1);
        assert_eq!(story.take().len(), 0);
        assert_eq!(story.task(&stamp, start), task);
        assert_eq!(story.task(&stamp, 1), Task::UNKNOWN);
        assert_eq!(story.task(&stamp, u64::MAX), Task::UNKNOWN);
    }
}
