// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's formats that have a line for each count, of each interval or of all runs.

use std::slice;
use std::time::Duration;

use anyhow::Result;

use super::number_format::NumberFormat;
use crate::commands::stat::column::Column;
use crate::commands::stat::runs::run::{Run, counted_share};
use crate::commands::stat::sources::source::Uncounted;

/// A format with a line for each count.
pub(in crate::commands::stat) trait LineFormat {
    /// Writes the lines of `runs`. `interval_end` is the end of an interval, since the start; `None` for the totals.
    fn write_lines(&mut self, interval_end: Option<Duration>, runs: &[Run]) -> Result<()>;
}

/// Returns the share of the time in which the event of a column was counted, in percent, as perf prints it: 0 for an event
/// that had no turn.
pub(in crate::commands::stat) fn share_in_lines(
    column: &Column,
    runs: &[Run],
    index: usize,
) -> f64 {
    let had_no_turn =
        |run: &Run| run.counts[index].is_none() && run.uncounted[index] == Some(Uncounted::NoTurn);
    if !column.event.is_absent() && runs.iter().any(had_no_turn) {
        return 0.0;
    }
    counted_share(runs, index).unwrap_or(100.0)
}

/// Adds the totals of all runs to a line format, where perf writes totals: in output without intervals, or with
/// --summary.
pub(in crate::commands::stat) struct WithTotals<F> {
    format: F,
    /// An interval has been written.
    has_intervals: bool,
    /// Totals are also written after the intervals (--summary).
    has_summary: bool,
}

impl<F: LineFormat> WithTotals<F> {
    pub(in crate::commands::stat) fn new(format: F, has_summary: bool) -> Self {
        Self {
            format,
            has_intervals: false,
            has_summary,
        }
    }
}

impl<F: LineFormat> NumberFormat for WithTotals<F> {
    fn write_interval(&mut self, interval_end: Duration, run: &Run) -> Result<()> {
        self.has_intervals = true;
        self.format
            .write_lines(Some(interval_end), slice::from_ref(run))
    }

    fn write_totals(&mut self, runs: &[Run]) -> Result<()> {
        // No totals after intervals, as in perf: a reader can add the intervals up.
        if self.has_intervals && !self.has_summary {
            Ok(())
        } else {
            self.format.write_lines(None, runs)
        }
    }
}
