// SPDX-License-Identifier: GPL-2.0-only
//! The budget of overflow interrupts: the time that they may take of a CPU before its next timer tick.

use super::Word;
use crate::logic::throttle::Limits;

/// The time left, in cycles of the time-stamp counter.
pub(crate) struct Budget {
    /// The time left, as a signed number: an interrupt may overdraw it.
    cycles_left: Word,
    /// The time when the last handler ended.
    last_end: Word,
    /// Not 0 if the next overflow follows at once: the time until it is the cost of an interrupt.
    next_is_soon: Word,
    /// The average of such times, each clamped to the bounds in the limits.
    entry_cost: Word,
    /// The time of wake-ups that no tick was charged for yet.
    wake_up_debt: Word,
}

impl Budget {
    /// Begins with interrupts that cost the least.
    pub(crate) fn start(&self, limits: &Limits) {
        self.wake_up_debt.set(0);
        self.refill(limits, 0);
        self.entry_cost.set(limits.entry_bounds.0);
    }

    /// Begins a new tick. Wake-ups took `woken` in the last tick, which is charged to this one and the next ones.
    ///
    /// Sampling may have been suspended until now: no time since then shows what an interrupt costs.
    pub(crate) fn refill(&self, limits: &Limits, woken: u64) {
        let (charged, owed) = limits.charge_wake_ups(self.wake_up_debt.get().wrapping_add(woken));
        self.wake_up_debt.set(owed);
        self.cycles_left.set(limits.per_tick.wrapping_sub(charged));
        self.next_is_soon.set(0);
    }

    /// Notes whether the next overflow follows at once.
    #[inline(always)]
    pub(crate) fn set_next_soon(&self, soon: bool) {
        self.next_is_soon.set(soon.into());
    }

    /// Begins an interrupt, at the time `now`.
    #[inline(always)]
    pub(crate) fn begin(&self, limits: &Limits, now: u64) {
        if self.next_is_soon.get() != 0 {
            self.learn_entry_cost(limits, now);
        }
    }

    /// Adds the time since the last handler to the average cost of an interrupt. A single long time, in which a host
    /// or another program has had the CPU, hardly changes the average.
    fn learn_entry_cost(&self, limits: &Limits, now: u64) {
        const WEIGHT: u64 = 16;
        let (least, most) = limits.entry_bounds;
        let took = now.wrapping_sub(self.last_end.get()).clamp(least, most);
        let known = self.entry_cost.get();
        self.entry_cost.set(
            known
                .wrapping_sub(known / WEIGHT)
                .wrapping_add(took / WEIGHT),
        );
    }

    /// Charges an interrupt: its handler, which ran from `begin` to `end`, and what entering and leaving it costs.
    /// Returns true if the budget is overdrawn.
    #[inline(always)]
    pub(crate) fn charge(&self, limits: &Limits, begin: u64, end: u64) -> bool {
        self.last_end.set(end);
        let cost = end
            .wrapping_sub(begin)
            .wrapping_add(self.entry_cost.get())
            .max(limits.min_charge);
        let left = self.cycles_left.get().wrapping_sub(cost);
        self.cycles_left.set(left);
        (left as i64) < 0
    }
}
