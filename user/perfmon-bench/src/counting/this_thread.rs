// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the calling thread, read without system calls.

use perfmon::event::{Builder, Reading, UserPage};
use perfmon::{Error, Event};

/// Reads events of the calling thread around a function.
#[derive(Debug)]
pub(crate) struct ThisThread {
    pages: Vec<UserPage<'static>>,
    /// The reading of each event at the beginning of a pass.
    before: Vec<Option<Reading>>,
    /// The reading of each event at the end of a pass.
    after: Vec<Option<Reading>>,
}

impl ThisThread {
    /// Opens events of the calling thread, which then count as long as the program runs.
    pub(crate) fn open(events: &[Builder]) -> Result<Self, Error> {
        let events = events
            .iter()
            .map(|event| event.clone().this_thread().open());
        let events: &'static [Event] = events.collect::<Result<Vec<_>, _>>()?.leak();
        let pages = events.iter().map(Event::user_page);
        Ok(Self {
            pages: pages.collect::<Result<_, _>>()?,
            before: vec![None; events.len()],
            after: vec![None; events.len()],
        })
    }

    /// Calls `work` once, and returns the count of each event. Fails if an event was not counted all the time.
    ///
    /// This function is neither generic nor inlined, and calls `work` through a pointer: with one copy for all benchmarks,
    /// the overhead of the call is always the same.
    #[inline(never)]
    pub(crate) fn count(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
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
        let passes = self.pages.iter().zip(readings);
        passes
            .map(|(page, (before, after))| page.count_between(before, after))
            .collect()
    }
}
