// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subject of a count: its columns, and the options that select what the output shows.

use super::column::Column;
use super::metrics::Metrics;
use super::runs::run::Figures;
use super::scope::Scope;

/// The columns of a count, and the options that select what the output shows.
pub(crate) struct Subject {
    /// The command as one line; empty without a command.
    pub(super) command: String,
    pub(super) scope: Scope,
    pub(crate) columns: Vec<Column>,
    pub(super) metrics: Metrics,
    /// Number of runs that it takes to count all events once.
    pub(super) runs_per_count: usize,
    /// Counts of events are shown, and not only metrics.
    pub(super) shows_counts: bool,
    /// Events whose count is 0 are left out.
    pub(super) hides_zeros: bool,
}

impl Subject {
    /// Returns whether the count of a column is shown.
    pub(super) fn shows(&self, figures: &Figures, index: usize) -> bool {
        self.shows_counts && !(self.hides_zeros && figures.counts[index] == Some(0))
    }
}
