// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event counts of a whole trace.

use std::collections::BTreeMap;

use super::{Config, EventId, Record, Timed};

/// Counts of each event on each CPU, from the records: rate x ticks + counts. Exact once the trace is
/// stopped, for STOP writes what came after the last tick.
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
/// assert_eq!(totals.on(cycles, 2), 1007);
/// assert_eq!(totals.on_all(cycles), 1007);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Events per tick; `None` for an event without ticks.
    rates: BTreeMap<EventId, Option<u32>>,
    counts: BTreeMap<(EventId, u32), u64>,
}

/// A record that a trace with this config does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "CPU {cpu} has a record of {event} that its config doesn't ask for: is it another trace's config?"
)]
pub struct Mismatch {
    /// The event.
    pub event: EventId,
    /// The CPU.
    pub cpu: u32,
}

impl Totals {
    /// Nothing yet, for the events of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            rates: config.ticks().collect(),
            counts: BTreeMap::new(),
        }
    }

    /// Takes a record into account. Values and branches are no counts. A sum that does not fit stays at 2^64 - 1.
    ///
    /// # Errors
    /// [`Mismatch`] for an event that the config doesn't have, and a tick of one that has no rate.
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

    /// Returns the count of an event on a CPU; 0 if there was no record of it.
    #[must_use]
    pub fn on(&self, event: EventId, cpu: u32) -> u64 {
        self.counts.get(&(event, cpu)).copied().unwrap_or(0)
    }

    /// The sum over all CPUs.
    #[must_use]
    pub fn on_all(&self, event: EventId) -> u64 {
        let cpus = self.counts.range((event, 0)..=(event, u32::MAX));
        cpus.fold(0, |sum, (_, &count)| sum.saturating_add(count))
    }

    /// Event, CPU and total, in this order, of all that had a record.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, u32, u64)> {
        self.counts
            .iter()
            .map(|(&(event, cpu), &count)| (event, cpu, count))
    }
}
