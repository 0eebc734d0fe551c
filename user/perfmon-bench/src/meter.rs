// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a call.

use perfmon::event::UserPage;
use perfmon::{Error, Event};

/// Passes of nothing, of which the least is taken off.
const EMPTY_PASSES: usize = 8;

/// Reads events of the calling thread around a function.
#[derive(Debug)]
pub(crate) struct Meter {
    pages: Vec<UserPage<'static>>,
    /// The counts at the beginning and at the end of a pass.
    before: Vec<u64>,
    after: Vec<u64>,
    /// The counts of a function without a body.
    own: Vec<u64>,
}

impl Meter {
    /// Prepares to read these events, which are the calling thread's. They count as long as the program runs.
    pub(crate) fn new(events: Vec<Event>) -> Result<Self, Error> {
        let events: &'static [Event] = events.leak();
        let pages = events.iter().map(Event::user_page);
        let mut meter = Self {
            pages: pages.collect::<Result<_, _>>()?,
            before: vec![0; events.len()],
            after: vec![0; events.len()],
            own: vec![0; events.len()],
        };
        let mut own = vec![u64::MAX; events.len()];
        for _ in 0..EMPTY_PASSES {
            let counts = meter.pass(&mut || {})?;
            for (least, count) in own.iter_mut().zip(counts) {
                *least = count.min(*least);
            }
        }
        meter.own = own;
        Ok(meter)
    }

    /// Returns what one call counts of each event.
    ///
    /// There is one copy of it for all functions, so that what is counted beside the call is always the same: it is
    /// neither generic nor inlined, and calls through a pointer.
    #[inline(never)]
    pub(crate) fn pass(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        for (page, count) in self.pages.iter().zip(&mut self.before) {
            *count = page.read()?;
        }
        work();
        for (page, count) in self.pages.iter().zip(&mut self.after) {
            *count = page.read()?;
        }
        let counts = self.after.iter().zip(&self.before).zip(&self.own);
        // A page that changes while it is read is read again; then there is less beside the call than usual, or more.
        Ok(counts
            .map(|((after, before), own)| (after - before).saturating_sub(*own))
            .collect())
    }
}
