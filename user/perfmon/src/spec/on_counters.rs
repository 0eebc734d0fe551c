// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which counters of a PMU count an event.

use perfmon_core::logic::event_counters::EventCounters;
use perfmon_core::logic::evtsel::EventSelect as Select;

use crate::pmu::Pmu;
use crate::{EventSelect, Modes};

/// Counters of a PMU that count an event, with the select to write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnCounters {
    /// The select for general counters, in both modes, if they can count it.
    pub select: Option<EventSelect>,
    /// The general counters that can: bit n for counter n.
    pub general: u64,
    /// The fixed counter that counts it.
    pub fixed: Option<u8>,
}

impl OnCounters {
    /// Returns the counters for a select without modes; `None` if there are none.
    pub(super) fn of(select: Select, pmu: &Pmu) -> Option<Self> {
        let capabilities = pmu.capabilities().ok()?;
        let cpus = pmu.microarchitecture();
        let found = EventCounters::new(select, &capabilities, cpus).ok()?;
        let general = EventSelect::from_bits(select.stopped())?.modes(Modes::Both);
        // In the module's numbers of counters, fixed ones begin at 32.
        let fixed = found.fixed.map(|counter| counter.index() - 32);
        Some(Self {
            select: (found.general != 0).then_some(general),
            general: found.general,
            fixed: fixed.and_then(|number| u8::try_from(number).ok()),
        })
    }
}
