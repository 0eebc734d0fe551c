// SPDX-License-Identifier: MIT OR Apache-2.0
//! What counts during a run: the counters of all CPUs, or events of tasks.

use std::time::Duration;

use anyhow::Result;

use super::Column;

/// What a column counted, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnCount {
    pub(super) value: u64,
    pub(super) ran: Duration,
}

/// Why events that the CPU has were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    /// A task has executed a program that must not be counted.
    Left,
    /// The run ended before the counters were to start.
    NotStarted,
}

/// Counts for each column; `None` for one that can't be trusted or that no counter has.
pub(super) type Counts = Vec<Option<ColumnCount>>;

/// What counts.
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
