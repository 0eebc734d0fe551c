// SPDX-License-Identifier: GPL-2.0-only
//! Late PMIs: interrupts whose overflow has been served before they arrive.
//!
//! Hardware raises the PMI some time after the overflow (the skid). By then a call that stopped the counter, or an
//! earlier NMI, may have served the overflow. The late PMI still arrives as an NMI, and if no handler claims it,
//! Linux reports an unknown NMI, or panics.
//!
//! The local APIC latches at most one NMI, so at most one late PMI is expected at a time. The
//! expectation expires, so that NMIs of other sources are not claimed by mistake for long. An NMI
//! that serves an overflow may be the overflow's own PMI. But it may also be the expected late PMI,
//! and the overflow's own PMI comes afterwards. So one late PMI is still expected then, for no
//! longer than before.
//!
//! On AMD nothing masks PMIs while the handler runs, so several late PMIs may follow. There, as in Linux perf, each
//! NMI that serves an overflow opens a window of time in which late PMIs are claimed.

use super::Word;
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The late PMIs that a CPU may still get. If all bits are zero, no PMI is expected.
///
/// Tasks, and the overflow handler that interrupts them, change a value on the value's own CPU.
///
/// ATOMICS: [`Self::expect`], [`Self::has_ended`] and [`Self::cancel`] in a task pair with [`Self::end_expectation`] and
/// [`Self::consume`] in an NMI on the same CPU. A CPU sees its own accesses in order; the fence in `expect` makes the
/// compiler keep the order.
pub(crate) struct PendingPmi {
    /// The last tick (jiffies) in which one late PMI is expected; 0 if no PMI is expected.
    expected_until: Word,
    /// The last tick (jiffies) in which the PMI of an overflow is expected that was served while
    /// another late PMI was expected; 0 if no such PMI is expected. Only NMIs write it.
    still_expected_until: Word,
    /// The last tick (jiffies) of the window in which any number of late PMIs is expected; 0 before the first window.
    window_end_jiffy: Word,
}

/// The change that [`PendingPmi::expect`] made, for [`PendingPmi::cancel`] and [`PendingPmi::has_ended`].
#[must_use]
pub(crate) struct Expectation {
    previous_jiffy: u64,
    expected_until: u64,
}

impl PendingPmi {
    /// Expects one late PMI until the tick `expected_until`. To be called before a counter is marked inactive.
    pub(crate) fn expect(&self, expected_until: u64) -> Expectation {
        let change = Expectation {
            previous_jiffy: self.expected_until.get(),
            expected_until: expected_until.max(1),
        };
        self.expected_until.set(change.expected_until);
        // The store comes before the stores that mark the counter inactive: from then on the
        // counter's PMI is late.
        compiler_fence(SeqCst);
        change
    }

    /// Cancels an expectation, because the counter had not overflowed. Restores the previous
    /// expectation, unless an NMI has ended the expectation that is cancelled.
    pub(crate) fn cancel(&self, change: Expectation) {
        let Expectation {
            previous_jiffy,
            expected_until,
        } = change;
        // If the exchange fails, an NMI has ended the expectation, and nothing is left to cancel.
        let _ = self.expected_until.replace(expected_until, previous_jiffy);
    }

    /// Returns whether an NMI has come since the expectation, and has ended it.
    pub(crate) fn has_ended(&self, change: &Expectation) -> bool {
        self.expected_until.get() != change.expected_until
    }

    /// Expects any number of late PMIs until the tick `expected_until`. To be called by the overflow handler.
    pub(crate) fn open_window(&self, expected_until: u64) {
        self.window_end_jiffy.set(expected_until.max(1));
    }

    /// Ends the expectation, since this NMI serves an overflow. To be called by the overflow handler.
    ///
    /// The NMI may be the overflow's own PMI, which stands for all PMIs raised before it. Or it is
    /// the late PMI, and the overflow's PMI comes after it. So if a late PMI was expected, one late
    /// PMI is still expected, until the same tick.
    #[inline(always)]
    pub(crate) fn end_expectation(&self) {
        let expected_until = self.expected_until.get();
        if expected_until != 0 {
            self.still_expected_until.set(expected_until);
            self.expected_until.set(0);
        }
    }

    /// Returns whether an NMI without an overflow, in the tick `now`, may be a late PMI, and ends the expectation of the
    /// one late PMI. To be called by the overflow handler.
    pub(crate) fn consume(&self, now: u64) -> bool {
        let expected = self.is_expected(now) || is_before_end(self.window_end_jiffy.get(), now);
        self.expected_until.set(0);
        self.still_expected_until.set(0);
        expected
    }

    /// Returns whether the one late PMI is still expected in the tick `now`.
    pub(crate) fn is_expected(&self, now: u64) -> bool {
        is_before_end(self.expected_until.get(), now)
            || is_before_end(self.still_expected_until.get(), now)
    }
}

/// Returns whether the tick `now` is the tick `end` or an earlier one; false if `end` is 0. Ticks
/// wrap.
fn is_before_end(end: u64, now: u64) -> bool {
    end != 0 && end.wrapping_sub(now) as i64 >= 0
}
