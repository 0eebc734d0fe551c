// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of counts during a run: counters of all CPUs, or events of tasks.

use std::time::Duration;

use anyhow::Result;

use super::Column;

/// The count of a column, and the times for which its event was counted and enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnCount {
    pub(super) value: u64,
    /// The time in which the event was counted.
    pub(super) ran: Duration,
    /// The time in which the event was enabled: longer than `ran` if it had to wait for a counter.
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

    /// Returns the sum of this count and that of another place.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            ran: self.ran + other.ran,
            enabled: self.enabled + other.enabled,
        }
    }

    /// Returns the count since an earlier one, `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            value: self.value - before.value,
            ran: self.ran.saturating_sub(before.ran),
            enabled: self.enabled.saturating_sub(before.enabled),
        }
    }

    /// Returns the count scaled to the whole enabled time, as perf estimates it; `None` if the event never had a counter.
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

/// Replaces counts by estimates for the whole enabled time. Returns whether an event never had a counter.
pub(super) fn estimate_counts(counts: &mut Counts) -> bool {
    let mut no_turn = false;
    for count in counts.iter_mut() {
        let estimated = count.and_then(ColumnCount::estimated);
        no_turn |= estimated.is_none() && count.is_some();
        *count = estimated;
    }
    no_turn
}

/// The reason why events that the CPU has were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    /// A task has executed a program that must not be counted.
    LeftProgram,
    /// The run ended before the counters were to start.
    NotStarted,
    /// The run ended before each event had a counter (--multiplex).
    NoTurn,
}

/// Counts for each column; `None` for one that can't be trusted or that no counter has.
pub(super) type Counts = Vec<Option<ColumnCount>>;

/// A source of counts.
pub(super) trait CountSource {
    /// Prepares a run: the counters are stopped and at 0. `command` is the PID of the process that will execute the command.
    fn prepare(&mut self, command: Option<u32>) -> Result<()>;

    /// Returns the columns, once the source is [prepared](Self::prepare).
    fn columns(&self) -> Vec<Column>;

    /// Starts all counters.
    fn start(&mut self) -> Result<()>;

    /// Stops all counters.
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
        assert!(!estimate_counts(&mut counts));
        let values = counts.iter().map(|count| count.map(|count| count.value));
        let expected = [Some(1000), Some(7), Some(2_923_976_628), None];
        assert_eq!(values.collect::<Vec<_>>(), expected);

        let mut counts = vec![count(0, Duration::ZERO), count(1, ran)];
        assert!(estimate_counts(&mut counts));
        assert_eq!(counts[0], None);
    }
}
