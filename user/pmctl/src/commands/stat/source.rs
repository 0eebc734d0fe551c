// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of counts during a run: counters of all CPUs, or events of tasks.

use std::time::Duration;

use anyhow::Result;

use super::Column;

/// What a column counted, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnCount {
    pub(super) value: u64,
    /// The time in which it was counted.
    pub(super) ran: Duration,
    /// The time in which it was to be counted: longer if it waited for its turn.
    pub(super) enabled: Duration,
}

impl ColumnCount {
    /// Returns the count of an event that never waited.
    pub(super) fn whole(value: u64, ran: Duration) -> Self {
        Self {
            value,
            ran,
            enabled: ran,
        }
    }

    /// Returns the sum of two parts of what is counted.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            ran: self.ran + other.ran,
            enabled: self.enabled + other.enabled,
        }
    }

    /// Returns what was counted since.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            value: self.value - before.value,
            ran: self.ran.saturating_sub(before.ran),
            enabled: self.enabled.saturating_sub(before.enabled),
        }
    }

    /// Returns what it would have been without waits, as perf estimates it; `None` if it had no turn.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "perf computes it so"
    )]
    pub(super) fn estimated(self) -> Option<Self> {
        if self.ran >= self.enabled {
            return Some(self);
        }
        let [ran, enabled] = [self.ran, self.enabled].map(|time| time.as_nanos() as f64);
        let value = self.value as f64 * enabled / ran;
        (ran > 0.0).then_some(Self {
            value: value as u64,
            ..self
        })
    }
}

/// Makes estimates of counts. Returns whether there is an event that had no turn.
pub(super) fn estimate(counts: &mut Counts) -> bool {
    let mut waited = false;
    for count in counts.iter_mut() {
        let estimated = count.and_then(ColumnCount::estimated);
        waited |= estimated.is_none() && count.is_some();
        *count = estimated;
    }
    waited
}

/// Why events that the CPU has were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    /// A task has executed a program that must not be counted.
    Left,
    /// The run ended before the counters were to start.
    NotStarted,
    /// The run ended before each event had its turn.
    Waited,
}

/// Counts for each column; `None` for one that can't be trusted or that no counter has.
pub(super) type Counts = Vec<Option<ColumnCount>>;

/// A source of counts.
pub(super) trait CountSource {
    /// Makes it ready for a run: stopped, and zero. `command` is the process that waits to become the command.
    fn prepare(&mut self, command: Option<u32>) -> Result<()>;

    /// Returns what is counted, once it is [prepared](Self::prepare).
    fn columns(&self) -> Vec<Column>;

    /// Counts from now on.
    fn start(&mut self) -> Result<()>;

    /// Counts no more.
    fn stop(&mut self) -> Result<()>;

    /// Returns the counts. `elapsed` is the time since the start.
    fn read(&self, elapsed: Duration) -> Result<Counts>;

    /// Returns why counts are absent; `None` if all are there, or can't be trusted.
    fn uncounted(&self) -> Result<Option<Uncounted>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_perfs() {
        let [ran, enabled] = [342, 1000].map(Duration::from_millis);
        let count = |value, ran| {
            Some(ColumnCount {
                value,
                ran,
                enabled,
            })
        };
        let mut counts = vec![
            count(342, ran),
            count(7, enabled),
            count(1_000_000_007, ran),
            None,
        ];
        assert!(!estimate(&mut counts));
        let values = counts.iter().map(|count| count.map(|count| count.value));
        let expected = [Some(1000), Some(7), Some(2_923_976_628), None];
        assert_eq!(values.collect::<Vec<_>>(), expected);

        let mut counts = vec![count(0, Duration::ZERO), count(1, ran)];
        assert!(estimate(&mut counts));
        assert_eq!(counts[0], None);
    }
}
