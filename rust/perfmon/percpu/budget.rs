// SPDX-License-Identifier: GPL-2.0-only
//! The budget of overflow interrupts: the time that they may take of a CPU before its next timer tick.

use super::Word;
use crate::logic::throttle::Limits;

/// The time left, in cycles of the time-stamp counter.
pub(crate) struct Budget {
    /// The time left, as a signed number: an interrupt may overdraw it.
    left: Word,
    /// The time when the last handler ended.
    end: Word,
    /// Not 0 if the next overflow comes soon: all time until then is what the interrupt itself costs.
    next_is_soon: Word,
    /// The average of such times, each within the limits' bounds.
    entry: Word,
    /// The time that wake-ups took and that no tick was charged yet.
    owed: Word,
}

impl Budget {
    /// Begins with interrupts that cost the least.
    pub(crate) fn start(&self, limits: &Limits) {
        self.owed.set(0);
        self.refill(limits, 0);
        self.entry.set(limits.entry.0);
    }

    /// Begins a new tick. Wake-ups took `woken` in the last one, which this one and those after it have less.
    ///
    /// Sampling may have been suspended until now: no time since then shows what an interrupt costs.
    pub(crate) fn refill(&self, limits: &Limits, woken: u64) {
        let (charged, owed) = limits.charge_wake_ups(self.owed.get().wrapping_add(woken));
        self.owed.set(owed);
        self.left.set(limits.per_tick.wrapping_sub(charged));
        self.next_is_soon.set(0);
    }

    /// Says whether the next overflow comes as soon as can be.
    #[inline(always)]
    pub(crate) fn expect(&self, soon: bool) {
        self.next_is_soon.set(soon.into());
    }

    /// Begins an interrupt, at the time `now`.
    #[inline(always)]
    pub(crate) fn begin(&self, limits: &Limits, now: u64) {
        if self.next_is_soon.get() != 0 {
            self.learn(limits, now);
        }
    }

    /// Takes the time since the last handler for what an interrupt costs. Now and then it is longer, where a host takes
    /// the CPU away, or another program has it: the average hardly moves by one.
    fn learn(&self, limits: &Limits, now: u64) {
        const WEIGHT: u64 = 16;
        let (least, most) = limits.entry;
        let took = now.wrapping_sub(self.end.get()).clamp(least, most);
        let known = self.entry.get();
        self.entry.set(
            known
                .wrapping_sub(known / WEIGHT)
                .wrapping_add(took / WEIGHT),
        );
    }

    /// Charges an interrupt: its handler, which ran from `begin` to `end`, and what entering and leaving it costs.
    /// Returns true if the budget is overdrawn.
    #[inline(always)]
    pub(crate) fn charge(&self, limits: &Limits, begin: u64, end: u64) -> bool {
        self.end.set(end);
        let cost = end
            .wrapping_sub(begin)
            .wrapping_add(self.entry.get())
            .max(limits.min_charge);
        let left = self.left.get().wrapping_sub(cost);
        self.left.set(left);
        (left as i64) < 0
    }
}
