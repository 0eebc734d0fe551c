// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters: events of CPUs, which count whatever runs there from the start of the server to its end.
//!
//! The events of a CPU are a group, so that one call reads all of them, on that CPU, at one moment. What could not be
//! opened is tried again at each reading: an event whose counter another program had, and a CPU that was offline. If
//! something else writes to the registers of a counter, there is no count: the group is closed, and opened anew at the next
//! reading, from zero, as after a restart of the server.

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Device, Error};

use super::open_events::{Lack, OpenEvents};
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
    open: OpenEvents,
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
        let cpu = |number_of_cpu| Cpu {
            number: number_of_cpu,
            open: OpenEvents::none(&events),
        };
        let opened_on = cpus.iter().map(cpu).collect();
        let mut counters = Self {
            device,
            events,
            cpus: opened_on,
            lost: 0,
        };
        let mut failed: Vec<(usize, Lack, Error)> = Vec::new();
        let mut last = None;
        for cpu in &mut counters.cpus {
            for (event, error) in cpu.open_missing(&counters.device, &counters.events) {
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
        self.cpus_where(|cpu| cpu.open.has(event))
    }

    /// Returns the CPUs on which an event is not counted for this reason.
    pub(super) fn lacking(&self, event: usize, lack: Lack) -> Cpus {
        self.cpus_where(|cpu| cpu.open.lack(event) == Some(lack))
    }

    fn cpus_where(&self, holds: impl Fn(&Cpu) -> bool) -> Cpus {
        let cpus = self.cpus.iter().filter(|cpu| holds(cpu));
        Cpus::new(cpus.map(|cpu| cpu.number).collect())
    }

    /// Returns how many counts there should be and are not.
    pub(super) fn missing(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.open.missing()).sum()
    }

    /// Returns how often counts were lost because another program has written to the registers.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns all counts, by CPU.
    ///
    /// # Errors
    /// The first error of a read. Events that can't be opened at present are left out.
    pub(super) fn read(&mut self) -> Result<Vec<CpuCount>, Error> {
        let mut counts = Vec::with_capacity(self.cpus.len() * self.events.len());
        for cpu in &mut self.cpus {
            // An event that can't be opened now may be later.
            let _ = cpu.open_missing(&self.device, &self.events);
            let number = cpu.number;
            self.lost += cpu.open.read(|event, value| {
                counts.push(CpuCount {
                    event,
                    cpu: number,
                    value,
                });
            })?;
        }
        Ok(counts)
    }
}

impl Cpu {
    /// Opens the events that are not open. Returns those that still are not, and why.
    fn open_missing(&mut self, device: &Device, events: &[EventSpec]) -> Vec<(usize, Error)> {
        let number = self.number;
        self.open
            .open_missing((device, events), |leader| leader.all_tasks().cpu(number))
    }
}
