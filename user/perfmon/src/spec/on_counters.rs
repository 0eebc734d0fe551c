// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of a PMU that can count an event.

use perfmon_core::logic::event_counters::EventCounters;
use perfmon_core::logic::evtsel::EventSelect as Select;

use crate::pmu::Pmu;
use crate::{EventSelect, Modes};

/// The counters of a PMU that can count an event, with the select to write to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnCounters {
    /// The select for general counters, in both modes, if they can count the event.
    pub select: Option<EventSelect>,
    /// The general counters that can count the event: bit n stands for counter n.
    pub general: u64,
    /// The fixed counter that counts the event.
    pub fixed: Option<u8>,
}

impl OnCounters {
    /// Returns the counters for a select without modes; `None` if no counter can count it.
    pub(super) fn of(select: Select, pmu: &Pmu) -> Option<Self> {
        let capabilities = pmu.capabilities().ok()?;
        let cpus = pmu.microarchitecture();
        let counters = EventCounters::new(select, &capabilities, cpus).ok()?;
        let general = EventSelect::from_bits(select.stopped())?.modes(Modes::Both);
        // The module numbers fixed counters from 32.
        let fixed = counters.fixed.map(|counter| counter.index() - 32);
        Some(Self {
            select: (counters.general != 0).then_some(general),
            general: counters.general,
            fixed: fixed.and_then(|number| u8::try_from(number).ok()),
        })
    }
}
