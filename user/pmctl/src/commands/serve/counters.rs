// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters: events of CPUs, which count whatever runs there from the start of the server to its end.
//!
//! The events of a CPU are a group, so that one call reads all of them, on that CPU, at one moment. What could not be
//! opened is tried again at each reading: an event whose counter another program had, and a CPU that was offline. If
//! something else writes to the registers of a counter, there is no count: the group is closed, and opened anew at the next
//! reading, from zero, as after a restart of the server.

use anyhow::Result;
use perfmon::event::GroupBuilder;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error, Group};

use crate::events::cpus::Cpus;
use crate::system::exit;

/// The counters of all CPUs.
pub(super) struct Counters {
    device: Device,
    events: Vec<EventSpec>,
    cpus: Vec<Cpu>,
    /// Number of times a group was opened anew because its counts were lost.
    lost: u64,
}

/// The counters of a CPU.
struct Cpu {
    number: u32,
    groups: Vec<CpuGroup>,
    /// By event: why it was not opened when that was last tried.
    lacks: Vec<Option<Lack>>,
}

/// Why an event is not counted on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// No counter is free.
    Counter,
    /// The CPU or the driver can't count it.
    Event,
    /// The CPU is offline.
    Cpu,
}

impl Lack {
    /// Returns what is lacking, unless the error is of another kind.
    pub(super) const fn of(cause: &Cause) -> Option<Self> {
        match cause {
            Cause::NoFreeCounter(_) => Some(Self::Counter),
            Cause::NoSuchEvent | Cause::NotSupported => Some(Self::Event),
            Cause::NoSuchCpu => Some(Self::Cpu),
            _ => None,
        }
    }
}

/// A group, and which events these are.
struct CpuGroup {
    group: Group,
    events: Vec<usize>,
}

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuCount {
    /// The index of the event.
    pub(super) event: usize,
    pub(super) cpu: u32,
    pub(super) value: u64,
}

impl Counters {
    /// Opens the events on each CPU. What can't be counted is told by `left_out`, once for each event and lack, with the
    /// CPUs and the error of the first of them; that a CPU is offline is not told.
    ///
    /// # Errors
    /// The reason, if nothing can be counted at all, or this user may not count.
    pub(super) fn open(
        device: Device,
        events: Vec<EventSpec>,
        cpus: &Cpus,
        mut left_out: impl FnMut(&EventSpec, &Cpus, &Error),
    ) -> Result<Self> {
        let number = events.len();
        let lacks = lacks_from_the_start(&events);
        let cpu = |number_of_cpu| Cpu {
            number: number_of_cpu,
            groups: Vec::new(),
            lacks: lacks.clone(),
        };
        let mut counters = Self {
            device,
            events,
            cpus: cpus.iter().map(cpu).collect(),
            lost: 0,
        };
        let mut failed: Vec<(usize, Lack, Error)> = Vec::new();
        let mut last = None;
        for cpu in &mut counters.cpus {
            for (event, error) in cpu.open(&counters.device, &counters.events) {
                let Some(lack) = Lack::of(&error.cause) else {
                    return Err(exit::with_help(error));
                };
                let is_known = failed.iter().any(|(e, l, _)| (*e, *l) == (event, lack));
                if lack != Lack::Cpu && !is_known {
                    failed.push((event, lack, error.clone()));
                }
                last = Some(error);
            }
        }
        if let Some(error) = last {
            if counters.missing() == counters.cpus.len() * number {
                return Err(exit::with_help(error));
            }
        }
        for (event, lack, error) in &failed {
            let cpus = counters.lacking(*event, *lack);
            left_out(&counters.events[*event], &cpus, error);
        }
        Ok(counters)
    }

    /// Returns the events.
    pub(super) fn events(&self) -> &[EventSpec] {
        &self.events
    }

    /// Returns the CPUs on which an event is counted.
    pub(super) fn counted_on(&self, event: usize) -> Cpus {
        self.cpus_where(|cpu| cpu.open_events().any(|open| open == event))
    }

    /// Returns the CPUs on which an event is not counted for this reason.
    pub(super) fn lacking(&self, event: usize, lack: Lack) -> Cpus {
        self.cpus_where(|cpu| cpu.lacks[event] == Some(lack))
    }

    fn cpus_where(&self, holds: impl Fn(&Cpu) -> bool) -> Cpus {
        let cpus = self.cpus.iter().filter(|cpu| holds(cpu));
        Cpus::new(cpus.map(|cpu| cpu.number).collect())
    }

    /// Returns how many counts there should be and are not.
    pub(super) fn missing(&self) -> usize {
        let missing = |cpu: &Cpu| self.events.len() - cpu.open_events().count();
        self.cpus.iter().map(missing).sum()
    }

    /// Returns how often counts were lost because another program has written to the registers.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns all counts, by CPU.
    ///
    /// # Errors
    /// None that are specific to it.
    pub(super) fn read(&mut self) -> Result<Vec<CpuCount>, Error> {
        let mut counts = Vec::with_capacity(self.cpus.len() * self.events.len());
        for cpu in &mut self.cpus {
            // An event that can't be opened now may be later.
            let _ = cpu.open(&self.device, &self.events);
            self.lost += cpu.read(&mut counts)?;
        }
        Ok(counts)
    }
}

/// Returns what each event lacks before anything is opened: where the CPU has no such event, nothing is tried.
fn lacks_from_the_start(events: &[EventSpec]) -> Vec<Option<Lack>> {
    let events = events.iter();
    events
        .map(|event| event.is_absent().then_some(Lack::Event))
        .collect()
}

impl Cpu {
    /// Returns the events that are open.
    fn open_events(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.groups.iter();
        groups.flat_map(|opened| opened.events.iter().copied())
    }

    /// Opens the events that are not open: as one group if that can be, else each alone. Returns those that still are
    /// not, and why.
    fn open(&mut self, device: &Device, events: &[EventSpec]) -> Vec<(usize, Error)> {
        let missing: Vec<usize> = (0..events.len())
            .filter(|event| self.lacks[*event] != Some(Lack::Event))
            .filter(|event| !self.open_events().any(|open| open == *event))
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        if self.try_open(device, events, &missing).is_ok() {
            for event in missing {
                self.lacks[event] = None;
            }
            return Vec::new();
        }
        let mut failed = Vec::new();
        for event in missing {
            let opened = self.try_open(device, events, &[event]);
            self.lacks[event] = opened.as_ref().err().and_then(|e| Lack::of(&e.cause));
            failed.extend(opened.err().map(|error| (event, error)));
        }
        failed
    }

    /// Opens some events as a group.
    fn try_open(
        &mut self,
        device: &Device,
        events: &[EventSpec],
        wanted: &[usize],
    ) -> Result<(), Error> {
        let mut builders = wanted.iter().filter_map(|event| events[*event].builder());
        let Some(leader) = builders.next() else {
            return Ok(());
        };
        let group = Group::of(leader.all_tasks().cpu(self.number));
        let group = builders.fold(group, GroupBuilder::and).open_on(device)?;
        self.groups.push(CpuGroup {
            group,
            events: wanted.to_vec(),
        });
        Ok(())
    }

    /// Adds the counts to `counts`, and closes the groups that have none. Returns how many these were.
    fn read(&mut self, counts: &mut Vec<CpuCount>) -> Result<u64, Error> {
        let (mut lost, mut failure) = (0, None);
        let cpu = self.number;
        self.groups.retain(|opened| match opened.group.read() {
            Ok(values) => {
                let values = opened.events.iter().zip(values.iter());
                counts.extend(values.map(|(event, (_, value))| CpuCount {
                    event: *event,
                    cpu,
                    value,
                }));
                true
            }
            Err(error) if error.cause == Cause::Missed => {
                lost += 1;
                false
            }
            Err(error) => {
                failure = Some(error);
                true
            }
        });
        failure.map_or(Ok(lost), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use perfmon::spec;

    #[test]
    fn an_event_that_the_cpu_lacks_is_missing_from_the_start() {
        let mut events = spec::parse("cycles", &testing::intel()).expect("the CPU has it");
        events.push(EventSpec::absent("branch-misses", "The CPU lacks it."));
        assert_eq!(lacks_from_the_start(&events), [None, Some(Lack::Event)]);
    }
}
