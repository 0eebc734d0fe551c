// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of CPUs, which count all programs there as long as the server runs.
//!
//! The events of a CPU are a group, so that one call reads all of them at one moment. Events that
//! can't be opened, because their counter is in use or the CPU is offline, are tried again at each
//! reading. If another program writes to the registers of a counter, the counts are lost: the group
//! is closed, and opened again at the next reading. The new group counts from zero, as after a
//! restart of the server.

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Device, Error};

use super::open_events::{OpenEvents, UncountedReason};
use crate::events::cpus::Cpus;
use crate::system::exit;

/// The counters of all CPUs.
pub(super) struct Counters {
    device: Device,
    events: Vec<EventSpec>,
    cpus: Vec<Cpu>,
    /// Number of times that a group was closed because its counts were lost.
    lost_count: u64,
}

/// The counters of a CPU.
struct Cpu {
    number: u32,
    open_events: OpenEvents,
}

/// The count of an event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuCount {
    /// The index of the event.
    pub(super) event: usize,
    pub(super) cpu: u32,
    pub(super) value: u64,
}

impl Counters {
    /// Opens the events on each CPU. Calls `on_left_out` once for each event and [`UncountedReason`], with the CPUs that
    /// don't count the event, and the error on the first of them. Does not call it for offline CPUs.
    ///
    /// # Errors
    /// No event can be counted on any CPU, or this user may not count.
    pub(super) fn open(
        device: Device,
        events: Vec<EventSpec>,
        cpus: &Cpus,
        mut on_left_out: impl FnMut(&EventSpec, &Cpus, &Error),
    ) -> Result<Self> {
        let cpu = |number| Cpu {
            number,
            open_events: OpenEvents::none(&events),
        };
        let cpus = cpus.iter().map(cpu).collect();
        let mut counters = Self {
            device,
            events,
            cpus,
            lost_count: 0,
        };
        let mut failures: Vec<(usize, UncountedReason, Error)> = Vec::new();
        let mut last_error = None;
        for cpu in &mut counters.cpus {
            for (event, error) in cpu.open_missing(&counters.device, &counters.events) {
                let Some(reason) = UncountedReason::of(&error.cause) else {
                    return Err(exit::with_help(error));
                };
                let is_known = failures.iter().any(|(e, r, _)| (*e, *r) == (event, reason));
                if reason != UncountedReason::OfflineCpu && !is_known {
                    failures.push((event, reason, error.clone()));
                }
                last_error = Some(error);
            }
        }
        if let Some(error) = last_error {
            if !counters.cpus.iter().any(|cpu| cpu.open_events.has_open()) {
                return Err(exit::with_help(error));
            }
        }
        for (event, reason, error) in &failures {
            let cpus = counters.cpus_not_counting(*event, *reason);
            on_left_out(&counters.events[*event], &cpus, error);
        }
        Ok(counters)
    }

    /// Returns the events.
    pub(super) fn events(&self) -> &[EventSpec] {
        &self.events
    }

    /// Returns the CPUs on which an event is counted.
    pub(super) fn cpus_counting(&self, event: usize) -> Cpus {
        self.cpus_where(|cpu| cpu.open_events.is_open(event))
    }

    /// Returns the CPUs on which an event is not counted for this reason.
    pub(super) fn cpus_not_counting(&self, event: usize, reason: UncountedReason) -> Cpus {
        self.cpus_where(|cpu| cpu.open_events.uncounted_reason(event) == Some(reason))
    }

    fn cpus_where(&self, condition: impl Fn(&Cpu) -> bool) -> Cpus {
        let cpus = self.cpus.iter().filter(|cpu| condition(cpu));
        Cpus::new(cpus.map(|cpu| cpu.number).collect())
    }

    /// Returns the number of missing counts: the events that are not open, over all CPUs that are online.
    pub(super) fn missing_count(&self) -> usize {
        self.cpus
            .iter()
            .map(|cpu| cpu.open_events.missing_count())
            .sum()
    }

    /// Returns the number of times that a CPU's counts were lost because another program wrote to the counters' registers.
    pub(super) const fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Returns all counts, by CPU.
    ///
    /// # Errors
    /// The first error of a read. Events that can't be opened at present are left out.
    pub(super) fn read(&mut self) -> Result<Vec<CpuCount>, Error> {
        let mut counts = Vec::with_capacity(self.cpus.len() * self.events.len());
        for cpu in &mut self.cpus {
            // The error is ignored: an event that can't be opened now is tried again at the next reading.
            let _ = cpu.open_missing(&self.device, &self.events);
            let number = cpu.number;
            self.lost_count += cpu.open_events.read(|event, value| {
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
    /// Opens the events that are not open. Returns the events that can't be opened, each with its error.
    fn open_missing(&mut self, device: &Device, events: &[EventSpec]) -> Vec<(usize, Error)> {
        let number = self.number;
        self.open_events
            .open_missing((device, events), |leader| leader.all_tasks().cpu(number))
    }
}
