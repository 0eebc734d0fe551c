// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a trace. A recording has them besides its samples.

use std::collections::BTreeMap;

use perfmon::trace::Totals;

use super::plan::TracePlan;
use crate::events::values::Unit;

/// The counts of a trace.
pub(super) struct TraceCounts {
    /// Event counts of each CPU.
    pub(super) totals: Totals,
    /// Events that were counted but made no sample, by CPU and index of the event.
    pub(super) unsampled: BTreeMap<(u32, usize), u64>,
    /// The time of the last sample of each CPU, in nanoseconds.
    pub(super) last_sample_times: BTreeMap<u32, u64>,
    /// Number of samples that were left out because they are of other programs, or with -C of other CPUs.
    pub(super) left_out_samples: u64,
    /// The values of other registers than counters.
    pub(super) values: ValueSums,
}

impl TraceCounts {
    /// Returns counts of 0.
    pub(super) fn zeros(plan: &TracePlan) -> Self {
        Self {
            totals: Totals::new(&plan.config),
            unsampled: BTreeMap::new(),
            last_sample_times: BTreeMap::new(),
            left_out_samples: 0,
            values: ValueSums::default(),
        }
    }

    /// Returns the number of samples of each CPU that were lost although their events were counted.
    pub(super) fn lost_samples(&self, plan: &TracePlan) -> BTreeMap<u32, u64> {
        let mut lost = BTreeMap::new();
        for ((cpu, index), events) in &self.unsampled {
            let period = plan.events[*index].period.map_or(u64::MAX, u64::from);
            *lost.entry(*cpu).or_default() += events / period;
        }
        lost
    }
}

/// Sums of values that grow, such as energy.
#[derive(Debug, Default)]
pub(super) struct ValueSums {
    /// The last value, by CPU and index of the event.
    last_values: BTreeMap<(u32, usize), u64>,
    /// The sum of the growth of an event's values on all CPUs, by index of the event.
    sums: BTreeMap<usize, u64>,
}

impl ValueSums {
    /// Adds a value, and returns its growth. A value that is a level, such as a temperature, is returned unchanged.
    pub(super) fn add(
        &mut self,
        (cpu, index): (u32, usize),
        unit: Option<Unit>,
        value: u64,
    ) -> u64 {
        if !unit.is_some_and(Unit::grows) {
            return value;
        }
        let last = self.last_values.insert((cpu, index), value).unwrap_or(0);
        // A trace that is started again begins from 0.
        let growth = value.checked_sub(last).unwrap_or(value);
        let sum = self.sums.entry(index).or_default();
        *sum = sum.saturating_add(growth);
        growth
    }

    /// Returns the growth of an event's value on all CPUs.
    pub(super) fn sum(&self, index: usize) -> u64 {
        self.sums.get(&index).copied().unwrap_or(0)
    }
}
