// SPDX-License-Identifier: GPL-2.0-only
//! The budget of overflow interrupts: the time that they may take of a CPU before its next timer tick.

use super::Word;
use crate::logic::throttle::Limits;

/// The time left, in cycles of the time-stamp counter.
pub(crate) struct Budget {
    /// As a signed number: an interrupt may overdraw it.
    left: Word,
}

impl Budget {
    /// Begins a new tick.
    pub(crate) fn refill(&self, limits: &Limits) {
        self.left.set(limits.per_tick);
    }

    /// Charges an interrupt whose handler took so many cycles. Returns whether the budget is overdrawn.
    #[inline(always)]
    pub(crate) fn charge(&self, limits: &Limits, cycles: u64) -> bool {
        let cost = cycles
            .wrapping_add(limits.entry_cycles)
            .max(limits.min_charge);
        let left = self.left.get().wrapping_sub(cost);
        self.left.set(left);
        (left as i64) < 0
    }
}
