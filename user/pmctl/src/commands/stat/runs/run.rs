// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a run, and the figures of several runs.

use std::fmt;
use std::time::Duration;

use nix::sys::signal::Signal;
use perfmon_compare::figures::mean_count;

use crate::commands::stat::formats::summary::Summary;
use crate::commands::stat::sources::source::{ColumnCount, Counts, Reasons, Uncounted};
use crate::system::child::Ending;
use crate::system::exit;
use crate::system::text::count;

/// The result of one run.
#[derive(Debug)]
pub(in crate::commands::stat) struct Run {
    /// The time from the command's start to its end.
    pub(in crate::commands::stat) elapsed: Duration,
    /// The time from the start of the counters, which is after the delay of -D, to their stop.
    pub(in crate::commands::stat) counted_for: Duration,
    pub(in crate::commands::stat) user: Duration,
    pub(in crate::commands::stat) system: Duration,
    /// A count for each column; `None` if it can't be trusted.
    pub(in crate::commands::stat) counts: Counts,
    /// The reason for each missing count; `None` for one that can't be trusted.
    pub(in crate::commands::stat) uncounted: Reasons,
    /// The way in which the command ended; `None` if no command was run.
    pub(in crate::commands::stat) ending: Option<Ending>,
    /// The signal that asked for the end, or that a time limit sent: no other run follows.
    pub(in crate::commands::stat) stopped_by: Option<Signal>,
}

impl Run {
    /// Returns whether no other run follows.
    pub(in crate::commands::stat) fn is_last(&self) -> bool {
        self.stopped_by.is_some() || matches!(self.ending, Some(Ending::Killed(_)))
    }

    /// Combines runs that each counted a part of the events into one run with all counts. Its times are means, and its
    /// ending is that of the last run that failed, or else of the last run.
    pub(in crate::commands::stat) fn from_parts(parts: &[Self]) -> Self {
        let number = u32::try_from(parts.len()).unwrap_or(u32::MAX).max(1);
        let mean = |time: fn(&Self) -> Duration| parts.iter().map(time).sum::<Duration>() / number;
        let has_failed = |run: &&Self| run.ending.is_some_and(|ending| ending.exit_code() != 0);
        let last = parts.iter().rfind(has_failed).or(parts.last());
        Self {
            elapsed: mean(|run| run.elapsed),
            counted_for: mean(|run| run.counted_for),
            user: mean(|run| run.user),
            system: mean(|run| run.system),
            ending: last.and_then(|run| run.ending),
            stopped_by: parts.iter().find_map(|run| run.stopped_by),
            counts: parts.iter().flat_map(|run| run.counts.clone()).collect(),
            uncounted: parts.iter().flat_map(|run| run.uncounted.clone()).collect(),
        }
    }

    /// Returns the reasons for missing counts, by column; `None` for a count that can't be trusted.
    pub(in crate::commands::stat) fn missing_counts(
        &self,
    ) -> impl Iterator<Item = (usize, Option<Uncounted>)> {
        let counts = self.counts.iter().zip(&self.uncounted).enumerate();
        counts.filter_map(|(column, (count, reason))| count.is_none().then_some((column, *reason)))
    }

    /// Returns whether a column has no count for a known reason.
    fn is_uncounted(&self, column: usize) -> bool {
        self.counts[column].is_none() && self.uncounted[column].is_some()
    }

    pub(in crate::commands::stat) fn value(&self, column: usize) -> Option<u64> {
        self.counts[column].map(|count| count.value)
    }
}

/// A run that was cut short. It has counted only a part of the command, so the mean leaves it out. If it is the first run,
/// its counts are shown, because there are no others.
#[derive(Debug)]
pub(in crate::commands::stat) struct StoppedRun {
    /// Number of whole runs before the stopped one.
    whole_runs: usize,
    /// Number of runs that the user asked for; `None` for runs until Ctrl-C.
    requested: Option<u32>,
    pub(in crate::commands::stat) ending: Option<Ending>,
    signal: Option<Signal>,
    /// The run could not be counted.
    has_failed: bool,
}

impl StoppedRun {
    /// Describes `run`, which was stopped after this number of whole runs.
    pub(in crate::commands::stat) fn after_runs(
        whole_runs: usize,
        requested: Option<u32>,
        run: &Run,
    ) -> Self {
        Self {
            whole_runs,
            requested,
            ending: run.ending,
            signal: run.stopped_by,
            has_failed: false,
        }
    }

    /// Describes a run that could not be counted, for example because its process has ended.
    pub(in crate::commands::stat) fn by_failure(whole_runs: usize, requested: Option<u32>) -> Self {
        Self {
            whole_runs,
            requested,
            ending: None,
            signal: None,
            has_failed: true,
        }
    }

    /// Returns the last run as a stopped run, if a signal asked for its end or killed the command.
    ///
    /// - If there are other runs, the last run is removed from `runs`.
    /// - If there is only one run, it stays in `runs`, and is returned only if more runs were
    ///   requested.
    pub(in crate::commands::stat) fn take_last_if_stopped(
        runs: &mut Vec<Run>,
        requested: Option<u32>,
    ) -> Option<Self> {
        let last = runs.last().filter(|run| run.is_last())?;
        let stopped = Self::after_runs(runs.len() - 1, requested, last);
        if stopped.whole_runs > 0 {
            runs.pop();
            return Some(stopped);
        }
        requested.is_some_and(|runs| runs > 1).then_some(stopped)
    }

    /// Returns the exit code:
    ///
    /// - after a run that could not be counted, `NO_COUNT`;
    /// - if the command failed, its exit code;
    /// - if the command succeeded but more runs were requested, the exit code of the signal, so that a script does not
    ///   take a part of the runs for all of them;
    /// - otherwise 0.
    pub(in crate::commands::stat) fn exit_code(&self) -> u8 {
        if self.has_failed {
            return exit::NO_COUNT;
        }
        let code = self.ending.map_or(0, Ending::exit_code);
        match self.signal {
            Some(signal) if code == 0 && self.requested.is_some() => {
                Ending::Killed(signal as i32).exit_code()
            }
            _ => code,
        }
    }
}

impl fmt::Display for StoppedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped in run {}", self.whole_runs + 1)?;
        if let Some(requested) = self.requested {
            write!(f, " of {requested}")?;
        }
        match self.whole_runs {
            0 => f.write_str(": the numbers are those of this run, up to its end"),
            1 => f.write_str(": the numbers are those of the run before"),
            whole_runs => write!(
                f,
                ": the mean is of the {} before",
                count(whole_runs as u64, "run")
            ),
        }
    }
}

/// The figures of several runs: for each column the mean of its counts, `None` if one of them can't be trusted.
pub(in crate::commands::stat) struct Figures {
    pub(in crate::commands::stat) runs: usize,
    /// The columns that were not counted in at least one run.
    pub(in crate::commands::stat) uncounted: Vec<bool>,
    /// The means, rounded; exact for a single run.
    pub(in crate::commands::stat) counts: Vec<Option<u64>>,
    pub(in crate::commands::stat) summaries: Vec<Option<Summary>>,
}

impl Figures {
    pub(in crate::commands::stat) fn from_runs(runs: &[Run]) -> Self {
        let columns = runs.first().map_or(0, |run| run.counts.len());
        let column = |index: usize| runs.iter().map(move |run| run.value(index));
        let floats = |index| column(index).map(|count| count.map(|count| count as f64));
        Self {
            runs: runs.len(),
            uncounted: (0..columns)
                .map(|index| runs.iter().any(|run| run.is_uncounted(index)))
                .collect(),
            counts: (0..columns)
                .map(|index| mean_count(column(index)))
                .collect(),
            summaries: (0..columns)
                .map(|index| Summary::from_values(floats(index)))
                .collect(),
        }
    }

    pub(in crate::commands::stat) fn means(&self) -> Vec<Option<f64>> {
        self.summaries
            .iter()
            .map(|summary| summary.map(|summary| summary.mean))
            .collect()
    }
}

/// Returns how long the counter of a column ran, in ns: the mean over the runs.
pub(in crate::commands::stat) fn running_time(runs: &[Run], column: usize) -> u64 {
    let ran = |run: &Run| run.counts[column].map_or(0, |count: ColumnCount| count.ran.as_nanos());
    let ran: u128 = runs.iter().map(ran).sum();
    u64::try_from(ran / runs.len().max(1) as u128).unwrap_or(u64::MAX)
}

/// Returns the share of the time in which the event of a column was counted, in percent; `None` if
/// the event never waited. With several runs, returns the share of their total time.
pub(in crate::commands::stat) fn counted_share(runs: &[Run], column: usize) -> Option<f64> {
    let time = |time: fn(&ColumnCount) -> Duration| -> f64 {
        let counts = runs.iter().filter_map(|run| run.counts[column].as_ref());
        // The times are added as `f64`: the sum of two times in a file may be too large for a
        // `Duration`.
        counts.map(|count| time(count).as_secs_f64()).sum()
    };
    let [ran, enabled] = [time(|count| count.ran), time(|count| count.enabled)];
    (ran < enabled).then(|| 100.0 * ran / enabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::testing::run;

    #[test]
    fn stopped_run_is_left_out_if_there_are_whole_runs() {
        let complete_run = || run(&[Some(100)]);
        let stopped = || Run {
            stopped_by: Some(Signal::SIGTERM),
            ..run(&[Some(7)])
        };
        let take_last = |mut runs: Vec<Run>, requested| {
            let stopped = StoppedRun::take_last_if_stopped(&mut runs, requested);
            (runs.len(), stopped.map(|stopped| stopped.to_string()))
        };
        assert_eq!(
            take_last(vec![complete_run(), complete_run(), stopped()], Some(100)),
            (
                2,
                Some("stopped in run 3 of 100: the mean is of the 2 runs before".to_owned())
            )
        );
        assert_eq!(
            take_last(vec![complete_run(), stopped()], None),
            (
                1,
                Some("stopped in run 2: the numbers are those of the run before".to_owned())
            )
        );
        assert_eq!(
            take_last(vec![stopped()], Some(100)),
            (
                1,
                Some(
                    "stopped in run 1 of 100: the numbers are those of this run, up to its end"
                        .to_owned()
                )
            )
        );
        let killed = Run {
            ending: Some(Ending::Killed(9)),
            ..run(&[Some(7)])
        };
        assert_eq!(
            take_last(vec![complete_run(), killed], Some(100)),
            (
                1,
                Some("stopped in run 2 of 100: the numbers are those of the run before".to_owned())
            )
        );
        assert_eq!(take_last(vec![stopped()], Some(1)), (1, None));
        assert_eq!(take_last(vec![stopped()], None), (1, None));
        assert_eq!(
            take_last(vec![complete_run(), complete_run()], Some(2)),
            (2, None)
        );
    }

    #[test]
    fn exit_code_shows_that_runs_are_missing() {
        let code = |ending, requested| {
            let run = Run {
                stopped_by: Some(Signal::SIGTERM),
                ending: Some(ending),
                ..run(&[Some(7)])
            };
            StoppedRun::after_runs(1, requested, &run).exit_code()
        };
        assert_eq!(code(Ending::Exit(0), Some(100)), 143);
        assert_eq!(code(Ending::Exit(3), Some(100)), 3);
        assert_eq!(code(Ending::Killed(9), Some(100)), 137);
        assert_eq!(code(Ending::Exit(0), None), 0);

        let failed = StoppedRun::by_failure(2, Some(100));
        assert_eq!(failed.exit_code(), exit::NO_COUNT);
        assert_eq!(
            failed.to_string(),
            "stopped in run 3 of 100: the mean is of the 2 runs before"
        );
    }
}
