// SPDX-License-Identifier: GPL-2.0-only
//! The time that overflow interrupts may take of a CPU until its next timer tick.

use super::Word;
use crate::logic::throttle::Limits;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The cost of entering and leaving an interrupt, as the trial at load has measured it on one CPU;
/// 0 without a measurement.
///
/// ATOMICS: relaxed. The number orders no other access.
static MEASURED_ENTRY_COST: AtomicU64 = AtomicU64::new(0);

/// The budget of a CPU's overflow interrupts. All times are in cycles of the time-stamp counter.
pub(crate) struct Budget {
    /// The time that is left, as a signed number, since an interrupt may overdraw the budget.
    cycles_left: Word,
    /// The time at which the last overflow handler ended.
    last_handler_end: Word,
    /// Not 0 if the next overflow comes at once, so that the time from the end of a handler to the beginning of the
    /// next handler is the cost of an interrupt.
    overflow_is_imminent: Word,
    /// The average cost of entering and leaving an interrupt, each measurement clamped to `Limits::entry_bounds`.
    entry_cost: Word,
    /// The beginning of the last handler that began while [`Self::overflow_is_imminent`] was set.
    imminent_handler_begin: Word,
    /// The time of wake-ups that was not subtracted from a tick's budget yet.
    wake_up_debt: Word,
}

impl Budget {
    /// Starts with a full budget, and assumes the cost of an interrupt that [`set_measured_entry_cost`] has set.
    pub(crate) fn start(&self, limits: &Limits) {
        let (min_cycles, max_cycles) = limits.entry_bounds;
        let measured_cycles = MEASURED_ENTRY_COST.load(Relaxed);
        self.wake_up_debt.set(0);
        self.refill(limits, 0);
        self.entry_cost
            .set(measured_cycles.clamp(min_cycles, max_cycles));
    }

    /// Refills the budget at a tick. `wake_up_cycles` is the time of wake-ups since the last tick.
    /// That time is subtracted from the new budget. If it exceeds the budget, the rest is
    /// subtracted from the budgets of the next ticks, up to a limit.
    ///
    /// Also clears the mark of an imminent overflow: sampling may have been suspended since the mark was set, and then
    /// the time until the next overflow is not the cost of an interrupt.
    pub(crate) fn refill(&self, limits: &Limits, wake_up_cycles: u64) {
        let (spent_cycles, debt_cycles) =
            limits.split_wake_ups(self.wake_up_debt.get().wrapping_add(wake_up_cycles));
        self.wake_up_debt.set(debt_cycles);
        self.cycles_left
            .set(limits.per_tick.wrapping_sub(spent_cycles));
        self.overflow_is_imminent.set(0);
    }

    /// Notes whether the next overflow comes at once.
    #[inline(always)]
    pub(crate) fn set_overflow_imminent(&self, is_imminent: bool) {
        self.overflow_is_imminent.set(is_imminent.into());
    }

    /// Notes that an overflow handler begins at the time `now`.
    #[inline(always)]
    pub(crate) fn begin_handler(&self, limits: &Limits, now: u64) {
        if self.overflow_is_imminent.get() != 0 {
            self.learn_entry_cost(limits, now);
        }
    }

    /// Lets the next handler note the time at which it begins, for [`Self::last_handler`]. To be called by the trial at
    /// load.
    pub(crate) fn await_handler(&self) {
        self.overflow_is_imminent.set(1);
    }

    /// Returns the times at which the handler that was [awaited](Self::await_handler) began and ended.
    pub(crate) fn last_handler(&self) -> (u64, u64) {
        (
            self.imminent_handler_begin.get(),
            self.last_handler_end.get(),
        )
    }

    /// Adds the time since the last handler to the average cost of an interrupt. A single long
    /// time, for example because a hypervisor or another program had the CPU, hardly changes the
    /// average.
    fn learn_entry_cost(&self, limits: &Limits, now: u64) {
        /// The approximate number of measurements in the average.
        const WEIGHT: u64 = 16;
        self.imminent_handler_begin.set(now);
        let (min_cycles, max_cycles) = limits.entry_bounds;
        let cycles = now
            .wrapping_sub(self.last_handler_end.get())
            .clamp(min_cycles, max_cycles);
        let average = self.entry_cost.get();
        self.entry_cost.set(
            average
                .wrapping_sub(average / WEIGHT)
                .wrapping_add(cycles / WEIGHT),
        );
    }

    /// Spends the time of an interrupt: its handler, which ran from `handler_begin` to `end`, and the cost of entering
    /// and leaving it. Returns whether the budget is overdrawn.
    #[inline(always)]
    pub(crate) fn spend(&self, limits: &Limits, handler_begin: u64, end: u64) -> bool {
        self.last_handler_end.set(end);
        let handler_cycles = end.wrapping_sub(handler_begin);
        let cost = handler_cycles
            .wrapping_add(self.entry_cost.get())
            .max(limits.min_cost);
        let cycles_left = self.cycles_left.get().wrapping_sub(cost);
        self.cycles_left.set(cycles_left);
        (cycles_left as i64) < 0 && self.is_overdrawn_after_refund(limits, handler_cycles)
    }

    /// Gives back the part of a handler's time that is [exempt](Limits::exempt_cycles). Returns whether the budget is
    /// still overdrawn.
    #[cold]
    #[inline(never)]
    fn is_overdrawn_after_refund(&self, limits: &Limits, handler_cycles: u64) -> bool {
        let cycles_left = self
            .cycles_left
            .get()
            .wrapping_add(limits.exempt_cycles(handler_cycles));
        self.cycles_left.set(cycles_left);
        (cycles_left as i64) < 0
    }
}

/// Sets the cost of entering and leaving an interrupt, in cycles, that [`Budget::start`] assumes from now on.
pub(crate) fn set_measured_entry_cost(cycles: u64) {
    MEASURED_ENTRY_COST.store(cycles, Relaxed);
}
