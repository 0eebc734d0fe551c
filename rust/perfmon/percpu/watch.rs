// SPDX-License-Identifier: GPL-2.0-only
//! The state of the timer that watches a CPU.

use super::Word;
use crate::logic::counter::{CounterId, MAX_COUNTERS};

/// The state of the timer. All bits zero: it does not run.
pub(crate) struct WatchState {
    /// Not 0 while the timer runs: [`TICKING`] or [`SLOW`].
    pub(crate) running: Word,
    /// The counters that had overflowed at the last tick.
    pub(crate) overflowed: Word,
    /// The [`CounterValue::load_id`](super::CounterValue::load_id) of these at that tick.
    loads: [Word; MAX_COUNTERS],
}

/// [`WatchState::running`]: with the period of the kernel's tick.
pub(crate) const TICKING: u64 = 1;
/// [`WatchState::running`]: no counter is active, and the timer is for values only.
pub(crate) const SLOW: u64 = 2;

impl WatchState {
    /// Returns whether a counter that has overflowed since its load `load` had already done so at the last
    /// tick.
    pub(crate) fn is_stuck(&self, counter: CounterId, load: u64) -> bool {
        let seen = self.overflowed.get() & counter.bit() != 0;
        self.loads.get(counter.index()).is_some_and(|last| {
            let same = last.get() == load;
            last.set(load);
            seen && same
        })
    }
}
