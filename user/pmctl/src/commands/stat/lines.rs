// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats of perf's that have a line for each count: of each interval, or of the whole.

use std::slice;
use std::time::Duration;

use anyhow::Result;

use super::{NumberFormat, Run};

/// A format with lines.
pub(super) trait LineFormat {
    /// Writes those of the runs; `at` is the end of an interval.
    fn lines(&mut self, at: Option<Duration>, runs: &[Run]) -> Result<()>;
}

/// A format, with the totals where perf has them.
pub(super) struct WithTotals<F> {
    format: F,
    /// There were intervals.
    intervals: bool,
    /// Totals stand behind intervals, too.
    summary: bool,
}

impl<F: LineFormat> WithTotals<F> {
    pub(super) fn new(format: F, summary: bool) -> Self {
        Self {
            format,
            intervals: false,
            summary,
        }
    }
}

impl<F: LineFormat> NumberFormat for WithTotals<F> {
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()> {
        self.intervals = true;
        self.format.lines(Some(at), slice::from_ref(run))
    }

    fn end(&mut self, runs: &[Run]) -> Result<()> {
        // As perf: a reader of intervals adds them up.
        if self.intervals && !self.summary {
            Ok(())
        } else {
            self.format.lines(None, runs)
        }
    }
}
