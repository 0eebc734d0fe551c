// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of all sources of counts, and the counts themselves.

use std::time::Duration;

use anyhow::Result;

use crate::commands::stat::column::Column;

/// The count of a column, and the times for which its event was counted and enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands::stat) struct ColumnCount {
    pub(in crate::commands::stat) value: u64,
    /// The time in which the event was counted.
    pub(in crate::commands::stat) ran: Duration,
    /// The time in which the event was enabled: longer than `ran` if it had to wait for a counter, or if tasks ran on cores
    /// that do not have the event.
    pub(in crate::commands::stat) enabled: Duration,
    /// The event takes turns: if `ran` is shorter than `enabled`, the count is a part of the whole.
    takes_turns: bool,
}

impl ColumnCount {
    /// Returns the count of an event that never waited.
    pub(in crate::commands::stat) fn whole(value: u64, ran: Duration) -> Self {
        Self {
            value,
            ran,
            enabled: ran,
            takes_turns: false,
        }
    }

    /// Returns the count of an event that takes turns.
    pub(in crate::commands::stat) fn of_turns(
        value: u64,
        ran: Duration,
        enabled: Duration,
    ) -> Self {
        Self {
            value,
            ran,
            enabled,
            takes_turns: true,
        }
    }

    /// Returns the count of an event that has its counter all the time. If `ran` is shorter than `enabled`, tasks were also
    /// on cores that do not have the event.
    pub(in crate::commands::stat) fn without_turns(
        value: u64,
        ran: Duration,
        enabled: Duration,
    ) -> Self {
        Self {
            value,
            ran,
            enabled,
            takes_turns: false,
        }
    }

    /// Returns the sum of this count and the count `other` of another place.
    pub(in crate::commands::stat) fn plus(self, other: Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            ran: self.ran + other.ran,
            enabled: self.enabled + other.enabled,
            takes_turns: self.takes_turns || other.takes_turns,
        }
    }

    /// Returns the difference between this count and an earlier one, `before`. Returns
    /// [`Uncounted::Level`] as an error if the number has fallen: it is then a level of one of
    /// Linux's PMUs that sysfs does not mark as a level, and has no count.
    pub(in crate::commands::stat) fn since(self, before: Self) -> Result<Self, Uncounted> {
        let value = self.value.checked_sub(before.value);
        Ok(Self {
            value: value.ok_or(Uncounted::Level)?,
            ran: self.ran.saturating_sub(before.ran),
            enabled: self.enabled.saturating_sub(before.enabled),
            takes_turns: self.takes_turns,
        })
    }

    /// Returns the count unchanged if it is exact: the event does not take turns, or has had a counter all the time.
    /// Otherwise returns the count scaled to the whole enabled time, as perf estimates it; `None` if the event never
    /// had a counter.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "perf computes it so"
    )]
    pub(in crate::commands::stat) fn estimated(self) -> Option<Self> {
        if !self.takes_turns || self.ran >= self.enabled {
            return Some(self);
        }
        let [ran, enabled] = [self.ran, self.enabled].map(|time| time.as_nanos() as f64);
        let value = self.value as f64 * enabled / ran;
        (ran > 0.0).then_some(Self {
            value: value as u64,
            ..self
        })
    }

    /// Returns the count to report for this sum of counts of CPUs or tasks; as an error, the reason why there is no
    /// count.
    fn reported(self) -> Result<Self, Uncounted> {
        if self.takes_turns {
            return Ok(self);
        }
        if self.ran.is_zero() && !self.enabled.is_zero() {
            return Err(Uncounted::NoCore);
        }
        Ok(Self::whole(self.value, self.ran))
    }
}

/// Returns the counts since `before`, or since the start if `before` is empty. Also returns the
/// reason for each column whose numbers have fallen, and which therefore has no count.
pub(in crate::commands::stat) fn counts_since(
    now: &Summands,
    before: &Summands,
) -> (Summands, Reasons) {
    let of_column = |(index, now): (usize, &Option<Vec<ColumnCount>>)| {
        let before = before.get(index).map_or(Some(&[][..]), Option::as_deref);
        let (Some(now), Some(before)) = (now, before) else {
            return (None, None);
        };
        let of_part = |(part, now): (usize, &ColumnCount)| {
            now.since(before.get(part).copied().unwrap_or_default())
        };
        match now.iter().enumerate().map(of_part).collect() {
            Ok(counts) => (Some(counts), None),
            Err(reason) => (None, Some(reason)),
        }
    };
    now.iter().enumerate().map(of_column).unzip()
}

/// Returns the count of each column: the sum of its summands. Each summand is estimated by itself, since events take
/// turns on each CPU and in each task separately. Also returns the reasons why columns with summands have no count.
pub(in crate::commands::stat) fn estimate_counts(counted: &Summands) -> (Counts, Reasons) {
    let sum = |summands: &[ColumnCount]| {
        let estimates = summands.iter().map(|one| one.estimated());
        let estimates: Vec<ColumnCount> =
            estimates.collect::<Option<_>>().ok_or(Uncounted::NoTurn)?;
        let sum = estimates
            .into_iter()
            .fold(ColumnCount::default(), ColumnCount::plus);
        sum.reported()
    };
    let estimate = |summands: &Option<Vec<ColumnCount>>| match summands.as_deref().map(sum) {
        Some(Ok(sum)) => (Some(sum), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    counted.iter().map(estimate).unzip()
}

/// The reason why events that the CPU has were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::stat) enum Uncounted {
    /// A task has executed a program that must not be counted.
    LeftProgram,
    /// The run ended before the counters were to start.
    NotStarted,
    /// The run ended before each event had its turn.
    NoTurn,
    /// No task ran on a core that has the event.
    NoCore,
    /// One of Linux's PMUs had too few counters.
    NoPmuCounter,
    /// The number fell from one interval to the next: it is a level, such as a temperature.
    Level,
}

impl Uncounted {
    /// The reasons with their names in files.
    const NAMES: [(Self, &'static str); 6] = [
        (Self::LeftProgram, "left_program"),
        (Self::NotStarted, "not_started"),
        (Self::NoTurn, "no_turn"),
        (Self::NoCore, "no_core"),
        (Self::NoPmuCounter, "no_pmu_counter"),
        (Self::Level, "level"),
    ];

    /// Returns the name of the reason in files.
    pub(in crate::commands::stat) fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        let name = names.find(|(reason, _)| *reason == self);
        name.map_or("", |(_, name)| name)
    }

    /// Returns the reason with this name; `None` for one that this pmctl does not know.
    pub(in crate::commands::stat) fn from_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let entry = names.find(|(_, known)| *known == name);
        entry.map(|(reason, _)| *reason)
    }
}

/// Counts for each column; `None` for a count that can't be trusted, or for an event that no
/// counter counts.
pub(in crate::commands::stat) type Counts = Vec<Option<ColumnCount>>;

/// The reason for each column that was not counted; `None` for a count that is there, or can't be trusted.
pub(in crate::commands::stat) type Reasons = Vec<Option<Uncounted>>;

/// The summands of each column: counts of CPUs or tasks. `None` as in [`Counts`].
pub(in crate::commands::stat) type Summands = Vec<Option<Vec<ColumnCount>>>;

/// A source of counts.
pub(in crate::commands::stat) trait CountSource {
    /// Prepares a run: the counters are stopped and at 0. `command` is the PID of the process that will execute the command.
    fn prepare(&mut self, command: Option<u32>) -> Result<()>;

    /// Returns the columns, once the source is [prepared](Self::prepare).
    fn columns(&self) -> Vec<Column>;

    /// Starts all counters.
    fn start(&mut self) -> Result<()>;

    /// Stops all counters.
    fn stop(&mut self) -> Result<()>;

    /// Returns the counts. `elapsed` is the time since the start of the counters.
    fn read(&self, elapsed: Duration) -> Result<Summands>;

    /// Returns the reasons for uncounted columns that the counts themselves do not show.
    fn uncounted_reasons(&self) -> Result<Reasons> {
        Ok(vec![None; self.columns().len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_falls_is_no_count() {
        let count = |value| ColumnCount::without_turns(value, Duration::ZERO, Duration::ZERO);
        let column = |values: [u64; 2]| Some(values.map(count).to_vec());
        let now = vec![column([3, 9]), column([5, 9]), None];
        let before = vec![column([5, 1]), column([5, 1]), column([5, 1])];
        let expected = (
            vec![None, column([0, 8]), None],
            vec![Some(Uncounted::Level), None, None],
        );
        assert_eq!(counts_since(&now, &before), expected);
    }

    #[test]
    fn estimates_match_perf() {
        let [ran, enabled] = [342, 1000].map(Duration::from_millis);
        let count = |value, ran| ColumnCount::of_turns(value, ran, enabled);
        let one = |value, ran| Some(vec![count(value, ran)]);
        let columns = vec![
            one(342, ran),
            one(7, enabled),
            one(1_000_000_007, ran),
            None,
        ];
        let (counts, reasons) = estimate_counts(&columns);
        assert_eq!(reasons, [None; 4]);
        let values = counts.iter().map(|count| count.map(|count| count.value));
        let expected = [Some(1000), Some(7), Some(2_923_976_628), None];
        assert_eq!(values.collect::<Vec<_>>(), expected);

        let (counts, reasons) = estimate_counts(&vec![one(0, Duration::ZERO), one(1, ran)]);
        assert_eq!(reasons, [Some(Uncounted::NoTurn), None]);
        assert_eq!(counts[0], None);

        // One CPU counted for half of the time, and the other one for all of the time without an
        // event.
        let half = enabled / 2;
        let (counts, _) = estimate_counts(&vec![Some(vec![count(50, half), count(0, enabled)])]);
        let sum = counts[0].expect("it was counted");
        assert_eq!(
            (sum.value, sum.ran, sum.enabled),
            (100, half + enabled, enabled * 2)
        );
    }

    #[test]
    fn counts_on_one_kind_of_core_are_exact() {
        let [ran, enabled] = [342, 1000].map(Duration::from_millis);
        let never = ColumnCount::without_turns(0, Duration::ZERO, enabled);
        let half = ColumnCount::without_turns(7, ran, enabled);
        // One task was never on a core with the event, and another task has not run at all.
        let idle = ColumnCount::without_turns(0, Duration::ZERO, Duration::ZERO);
        let columns = vec![Some(vec![half, never, idle]), Some(vec![idle])];
        let expected = [
            Some(ColumnCount::whole(7, ran)),
            Some(ColumnCount::whole(0, Duration::ZERO)),
        ];
        assert_eq!(
            estimate_counts(&columns),
            (expected.to_vec(), vec![None; 2])
        );

        let (counts, reasons) = estimate_counts(&vec![Some(vec![half]), Some(vec![never, idle])]);
        assert_eq!(counts, [Some(ColumnCount::whole(7, ran)), None]);
        assert_eq!(reasons, [None, Some(Uncounted::NoCore)]);
    }

    #[test]
    fn interval_has_the_increase_of_each_summand() {
        let second = Duration::from_secs(1);
        let summands_of = |values: &[u64]| {
            let counts = values
                .iter()
                .map(|value| ColumnCount::whole(*value, second));
            Some(counts.collect::<Vec<_>>())
        };
        let values = |summands: &Summands| -> Vec<Option<Vec<u64>>> {
            let values_of = |one: &Vec<ColumnCount>| one.iter().map(|count| count.value).collect();
            summands
                .iter()
                .map(|one| one.as_ref().map(values_of))
                .collect()
        };
        let counts = vec![
            summands_of(&[5, 7]),
            summands_of(&[3]),
            None,
            summands_of(&[1]),
        ];
        let previous_counts = vec![
            summands_of(&[1, 2]),
            None,
            summands_of(&[1]),
            summands_of(&[1]),
        ];
        assert_eq!(
            values(&counts_since(&counts, &previous_counts).0),
            [Some(vec![4, 5]), None, None, Some(vec![0])]
        );
        assert_eq!(
            values(&counts_since(&counts, &Summands::new()).0),
            values(&counts)
        );
    }
}
