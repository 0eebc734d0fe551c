// SPDX-License-Identifier: GPL-2.0-only
//! PMIs that find nothing left to do.
//!
//! Hardware raises the PMI some time after the overflow (the skid). By then the overflow may have been
//! served: by a call that stopped the counter, or by an earlier NMI. The late PMI still arrives as an NMI,
//! and if no handler claims it Linux reports an unknown NMI, or panics.
//!
//! The local APIC latches one NMI and no more. So at most one late PMI is expected at a time, the expectation
//! expires, and every NMI that serves an overflow ends it: an NMI of another source is not claimed for long.
//!
//! On AMD nothing masks PMIs while the handler runs, and they come late one after the other. There, as in
//! Linux perf, each NMI that serves an overflow opens a window of time for them.

use core::sync::atomic::{
    compiler_fence, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// The late PMIs that a CPU may still get. All bits zero: none.
///
/// Tasks and the overflow handler that interrupts them change it, on its own CPU.
///
/// ATOMICS: relaxed, since one CPU keeps its own order; the compiler is told by [`Self::expect`] that the
/// NMI handler may run after it.
pub(crate) struct PendingPmi {
    /// The last tick (jiffies) in which one PMI is expected; 0 if none is.
    until: AtomicU64,
    /// The last tick of the window for any number of them; 0 if there was none.
    window_end: AtomicU64,
}

/// What [`PendingPmi::expect`] changed, for [`PendingPmi::cancel`].
#[must_use]
pub(crate) struct Expectation {
    before: u64,
    now: u64,
}

impl PendingPmi {
    /// Expects a late PMI until the tick `until`. Whoever stops a counter expects its PMI before the handler
    /// takes the counter for stopped.
    pub(crate) fn expect(&self, until: u64) -> Expectation {
        let change = Expectation {
            before: self.until.load(Relaxed),
            now: until.max(1),
        };
        self.until.store(change.now, Relaxed);
        // What follows may let the PMI arrive.
        compiler_fence(SeqCst);
        change
    }

    /// Takes an expectation back: the counter had not overflowed. A PMI that was expected before still is,
    /// unless an NMI has ended the expectation meanwhile.
    pub(crate) fn cancel(&self, change: Expectation) {
        let Expectation { before, now } = change;
        // If the exchange fails, an NMI came between, which leaves nothing to take back.
        let _ = self.until.compare_exchange(now, before, Relaxed, Relaxed);
    }

    /// Expects any number of late PMIs until the tick `until`. For the overflow handler.
    pub(crate) fn open_window(&self, until: u64) {
        self.window_end.store(until.max(1), Relaxed);
    }

    /// Ends the expectation: this NMI serves an overflow, and so stands for all PMIs raised before it. For the
    /// overflow handler.
    #[inline(always)]
    pub(crate) fn served(&self) {
        self.until.store(0, Relaxed);
    }

    /// Returns whether an NMI in the tick `now` that serves nothing may be a late PMI, and consumes the
    /// expectation. For the overflow handler.
    pub(crate) fn consume(&self, now: u64) -> bool {
        let expected = self.is_expected(now) || is_before_end(self.window_end.load(Relaxed), now);
        self.until.store(0, Relaxed);
        expected
    }

    /// Returns whether the one late PMI may still arrive in the tick `now` or after it.
    pub(crate) fn is_expected(&self, now: u64) -> bool {
        is_before_end(self.until.load(Relaxed), now)
    }
}

/// Returns whether the tick `now` is not after the tick `end`, if there is one. Ticks wrap.
fn is_before_end(end: u64, now: u64) -> bool {
    end != 0 && end.wrapping_sub(now) as i64 >= 0
}
