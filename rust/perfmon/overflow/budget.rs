// SPDX-License-Identifier: GPL-2.0-only
//! Throttling: what overflow interrupts may still take of a CPU's time before its next timer tick.

use crate::logic::throttle::Limits;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is left, in cycles of the time-stamp counter.
///
/// ATOMICS: relaxed, since the handler and the timer run on the budget's own CPU.
pub(crate) struct Budget {
    /// As a signed number: an interrupt may overdraw it.
    left: AtomicU64,
}

impl Budget {
    /// Begins a new tick.
    pub(crate) fn refill(&self, limits: &Limits) {
        self.left.store(limits.per_tick, Relaxed);
    }

    /// Charges an interrupt whose handler took so many cycles. Returns whether the budget is overdrawn.
    #[inline(always)]
    pub(crate) fn charge(&self, limits: &Limits, cycles: u64) -> bool {
        let cost = cycles
            .wrapping_add(limits.entry_cycles)
            .max(limits.min_charge);
        let left = self.left.load(Relaxed).wrapping_sub(cost);
        self.left.store(left, Relaxed);
        (left as i64) < 0
    }
}
