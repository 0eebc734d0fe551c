// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event counts of a whole trace.

use std::collections::BTreeMap;

use super::{Config, EventId, Record, Timed};

/// The count of each event on each CPU, computed from the records as rate x ticks + counts. It is exact once the trace is
/// stopped, because STOP writes the events since the last tick.
///
/// ```
/// use perfmon::trace::{Config, Event, EventId, Record, Timed, Totals};
///
/// let cycles = EventId::model(1);
/// let config = Config::builder().event(Event::sampling(cycles, 1000)).build()?;
/// let mut totals = Totals::new(&config);
/// for record in [Record::Tick { event: cycles }, Record::Count { event: cycles, count: 7 }] {
///     totals.add(&Timed { time: 0, cpu: 2, record })?;
/// }
/// assert_eq!(totals.total_on_cpu(cycles, 2), 1007);
/// assert_eq!(totals.total(cycles), 1007);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Events per tick; `None` for an event without ticks.
    rates: BTreeMap<EventId, Option<u32>>,
    counts: BTreeMap<(EventId, u32), u64>,
}

/// A record that a trace with this configuration does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "CPU {cpu} has a record of {event}, which the configuration does not record; use the configuration of this trace"
)]
pub struct Mismatch {
    /// The ID of the event.
    pub event: EventId,
    /// The number of the CPU.
    pub cpu: u32,
}

impl Totals {
    /// Creates totals of 0 for the events of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            rates: config.events_per_tick().collect(),
            counts: BTreeMap::new(),
        }
    }

    /// Adds a record to the totals. Values and branches are ignored, as they are not counts. A sum saturates at 2^64 - 1.
    ///
    /// # Errors
    /// [`Mismatch`] if the configuration lacks the event, or if the record is a tick of an event without a rate.
    pub fn add(&mut self, timed: &Timed<'_>) -> Result<(), Mismatch> {
        let (event, cpu) = (timed.record.event(), timed.cpu);
        let mismatch = Mismatch { event, cpu };
        let rate = self.rates.get(&event).ok_or(mismatch)?;
        let count = match timed.record {
            Record::Tick { .. } | Record::Pc { .. } => u64::from(rate.ok_or(mismatch)?),
            Record::Count { count, .. } => count,
            Record::Time { .. } | Record::Value { .. } | Record::LastBranch { .. } => return Ok(()),
        };
        let sum = self.counts.entry((event, cpu)).or_default();
        *sum = sum.saturating_add(count);
        Ok(())
    }

    /// Returns the count of an event on a CPU; 0 if no record of it was added.
    #[must_use]
    pub fn total_on_cpu(&self, event: EventId, cpu: u32) -> u64 {
        self.counts.get(&(event, cpu)).copied().unwrap_or(0)
    }

    /// Returns the sum over all CPUs.
    #[must_use]
    pub fn total(&self, event: EventId) -> u64 {
        let cpus = self.counts.range((event, 0)..=(event, u32::MAX));
        cpus.fold(0, |sum, (_, &count)| sum.saturating_add(count))
    }

    /// Returns the totals as (event, CPU, total), sorted by event and then by CPU. An event is left
    /// out on a CPU that has no record of it.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, u32, u64)> {
        self.counts
            .iter()
            .map(|(&(event, cpu), &count)| (event, cpu, count))
    }
}
