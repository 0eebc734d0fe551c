// SPDX-License-Identifier: MIT OR Apache-2.0
//! What counts during a run: the counters of all CPUs, or events of tasks.

use std::time::Duration;

use anyhow::Result;
use perfmon::{Cause, Counter, Error};

use crate::cli::Cpus;
use crate::exit;

/// What a column counted, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) value: u64,
    pub(super) ran: Duration,
}

/// Counts for each column; `None` for one that can't be trusted or that no counter has.
pub(super) type Counts = Vec<Option<Count>>;

/// What counts.
pub(super) trait Source {
    /// Makes it ready for a run: stopped, and zero. `command` is the process that waits to become the command.
    fn prepare(&mut self, command: Option<u32>) -> Result<()>;

    /// Counts from now on.
    fn start(&mut self) -> Result<()>;

    /// Counts no more.
    fn stop(&mut self) -> Result<()>;

    /// Returns the counts. `elapsed` is the time since the start.
    fn read(&self, elapsed: Duration) -> Result<Counts>;
}

/// The counters of all CPUs, which count whatever runs there.
pub(super) struct Machine {
    pub(super) counters: Vec<Option<Counter>>,
    /// Of each column its counter, and the CPUs that are summed up, if not all, and their number.
    pub(super) columns: Vec<(usize, Option<Cpus>, u32)>,
}

impl Machine {
    /// Makes one call for each counter, in their order.
    fn each(&self, call: impl Fn(&Counter) -> Result<(), Error>) -> Result<()> {
        let mut counters = self.counters.iter().flatten();
        counters.try_for_each(call).map_err(exit::with_help)
    }
}

impl Source for Machine {
    fn prepare(&mut self, _: Option<u32>) -> Result<()> {
        self.each(Counter::reset)
    }

    fn start(&mut self) -> Result<()> {
        self.each(Counter::start)
    }

    fn stop(&mut self) -> Result<()> {
        self.each(|counter| match counter.stop() {
            // The counter is stopped; that it has no count is what reading it tells.
            Err(error) if error.cause == Cause::Untrusted => Ok(()),
            result => result,
        })
    }

    fn read(&self, elapsed: Duration) -> Result<Counts> {
        let one = |(index, cpus, number): &(usize, Option<Cpus>, u32)| {
            let Some(counter) = &self.counters[*index] else {
                return Ok(None);
            };
            let ran = elapsed * *number;
            match value(counter, cpus.as_ref()) {
                Ok(value) => Ok(Some(Count { value, ran })),
                Err(error) if error.cause == Cause::Untrusted => Ok(None),
                Err(error) => Err(exit::with_help(error)),
            }
        };
        self.columns.iter().map(one).collect()
    }
}

/// The count on all CPUs, or on some.
fn value(counter: &Counter, cpus: Option<&Cpus>) -> Result<u64, Error> {
    let Some(cpus) = cpus else {
        return counter.read();
    };
    cpus.ranges().try_fold(0, |sum, range| {
        Ok(sum + counter.read_on(range)?.into_iter().sum::<u64>())
    })
}
