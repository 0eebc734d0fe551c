// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a call.

use perfmon::event::{Reading, UserPage};
use perfmon::{Error, Event};

/// Number of empty passes. The smallest of their counts is subtracted from other counts.
const EMPTY_PASSES: usize = 8;

/// Reads events of the calling thread around a function.
#[derive(Debug)]
pub(crate) struct Meter {
    pages: Vec<UserPage<'static>>,
    /// The reading of each event at the beginning of a pass.
    before: Vec<Option<Reading>>,
    /// The reading of each event at the end of a pass.
    after: Vec<Option<Reading>>,
    /// The counts of an empty function.
    overhead: Vec<u64>,
}

impl Meter {
    /// Prepares to read these events of the calling thread, which then count as long as the program runs.
    pub(crate) fn new(events: Vec<Event>) -> Result<Self, Error> {
        let events: &'static [Event] = events.leak();
        let pages = events.iter().map(Event::user_page);
        let mut meter = Self {
            pages: pages.collect::<Result<_, _>>()?,
            before: vec![None; events.len()],
            after: vec![None; events.len()],
            overhead: vec![0; events.len()],
        };
        let mut overhead = vec![u64::MAX; events.len()];
        for _ in 0..EMPTY_PASSES {
            let counts = meter.count_pass(&mut || {})?;
            for (smallest, count) in overhead.iter_mut().zip(counts) {
                *smallest = count.min(*smallest);
            }
        }
        meter.overhead = overhead;
        Ok(meter)
    }

    /// Calls `work` once, and returns the count of each event. Fails if an event was not counted all the time.
    ///
    /// This function is neither generic nor inlined, and calls `work` through a pointer: with one copy for all benchmarks,
    /// the overhead of the call is always the same.
    #[inline(never)]
    pub(crate) fn count_pass(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        for (page, reading) in self.pages.iter().zip(&mut self.before) {
            *reading = Some(page.read_with_times()?);
        }
        work();
        for (page, reading) in self.pages.iter().zip(&mut self.after) {
            *reading = Some(page.read_with_times()?);
        }
        let readings = self
            .before
            .iter()
            .flatten()
            .zip(self.after.iter().flatten());
        let passes = self.pages.iter().zip(readings).zip(&self.overhead);
        // Saturates, because a page that changes while it is read is read again, which changes the overhead.
        passes
            .map(|((page, (before, after)), overhead)| {
                let count = page.count_between(before, after)?;
                Ok(count.saturating_sub(*overhead))
            })
            .collect()
    }
}
