// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of all forms of the output.

use std::time::Duration;

use anyhow::Result;

use crate::commands::stat::runs::run::Run;

/// A form of the output.
pub(in crate::commands::stat) trait NumberFormat {
    /// Prints the counts of an interval, which ended `at` after the start.
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()>;
    /// Prints the counts of all runs.
    fn end(&mut self, runs: &[Run]) -> Result<()>;
}
