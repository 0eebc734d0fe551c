// SPDX-License-Identifier: GPL-2.0-only
//! Late PMIs: those that find nothing left to do.
//!
//! Hardware raises the PMI some time after the overflow (the skid). By then the overflow may have been served: by
//! a call that stopped the counter, or by an earlier NMI. The late PMI still arrives as an NMI, and if no handler
//! claims it, Linux reports an unknown NMI, or panics.
//!
//! The local APIC latches at most one NMI. So at most one late PMI is expected at a time, the expectation
//! expires, and every NMI that serves an overflow ends it: an NMI of another source is not claimed for long.
//!
//! On AMD nothing masks PMIs while the handler runs, and they come late one after the other. There, as in Linux
//! perf, each NMI that serves an overflow opens a window of time for them.

use super::Word;
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The late PMIs that a CPU may still get. All bits zero: none.
///
/// Tasks and the overflow handler that interrupts them change it, on its own CPU.
///
/// ATOMICS: [`Self::expect`] and [`Self::cancel`] in a task pair with [`Self::served`] and [`Self::consume`] in an
/// NMI on the same CPU, which keeps its own order; the fence in `expect` keeps the compiler's.
pub(crate) struct PendingPmi {
    /// The last tick (jiffies) in which one PMI is expected; 0 if none is.
    until: Word,
    /// The last tick of the window for any number of PMIs; 0 if there was none.
    window_end: Word,
}

/// The change that [`PendingPmi::expect`] made, for [`PendingPmi::cancel`].
#[must_use]
pub(crate) struct Expectation {
    before: u64,
    now: u64,
}

impl PendingPmi {
    /// Expects one late PMI until the tick `until`. Called before the handler sees that a counter is stopped.
    pub(crate) fn expect(&self, until: u64) -> Expectation {
        let change = Expectation {
            before: self.until.get(),
            now: until.max(1),
        };
        self.until.set(change.now);
        // The store comes before those that make the counter inactive, after which the PMI is late.
        compiler_fence(SeqCst);
        change
    }

    /// Cancels an expectation, because the counter had not overflowed. A PMI that was expected before still is,
    /// unless an NMI has ended the expectation meanwhile.
    pub(crate) fn cancel(&self, change: Expectation) {
        let Expectation { before, now } = change;
        // If the exchange fails, an NMI came between, and nothing is left to cancel.
        let _ = self.until.replace(now, before);
    }

    /// Expects any number of late PMIs until the tick `until`. For the overflow handler.
    pub(crate) fn open_window(&self, until: u64) {
        self.window_end.set(until.max(1));
    }

    /// Ends the expectation: this NMI serves an overflow, and so stands for all PMIs raised before it. For the
    /// overflow handler.
    #[inline(always)]
    pub(crate) fn served(&self) {
        self.until.set(0);
    }

    /// Returns whether an NMI in the tick `now` that serves nothing may be a late PMI, and consumes the
    /// expectation. For the overflow handler.
    pub(crate) fn consume(&self, now: u64) -> bool {
        let expected = self.is_expected(now) || is_before_end(self.window_end.get(), now);
        self.until.set(0);
        expected
    }

    /// Returns whether the one late PMI may still arrive in the tick `now` or after it.
    pub(crate) fn is_expected(&self, now: u64) -> bool {
        is_before_end(self.until.get(), now)
    }
}

/// Returns whether the tick `now` is not after the tick `end`, if `end` is not 0. Ticks wrap.
fn is_before_end(end: u64, now: u64) -> bool {
    end != 0 && end.wrapping_sub(now) as i64 >= 0
}
