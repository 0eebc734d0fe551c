// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of all forms of the output.

use std::time::Duration;

use anyhow::Result;

use crate::commands::stat::runs::run::Run;

/// A form of the output.
pub(in crate::commands::stat) trait NumberFormat {
    /// Writes the counts of an interval, which ended `interval_end` after the start.
    fn write_interval(&mut self, interval_end: Duration, run: &Run) -> Result<()>;
    /// Writes the counts of all runs together.
    fn write_totals(&mut self, runs: &[Run]) -> Result<()>;
}
