// SPDX-License-Identifier: GPL-2.0-only
//! The state of the timer that watches a CPU's counters.

use super::Word;
use crate::logic::{
    counter::{CounterId, MAX_COUNTERS},
    throttle::Limits,
};

/// The state of the timer that watches a CPU's counters. All bits zero: the timer is stopped.
pub(crate) struct WatchState {
    /// The timer's mode while it runs: [`TIMER_TICKING`] or [`TIMER_SLOW`]. Otherwise 0.
    pub(crate) timer_mode: Word,
    /// The time of the last tick, or, before the first tick, the time at which the timer was
    /// started, in cycles of the time-stamp counter.
    last_tick: Word,
    /// Not 0 if the last tick was late, so that sampling stays suspended until the next tick.
    prolonged: Word,
    /// The counters that had overflowed at the last tick.
    pub(crate) overflowed_counters: Word,
    /// The [`CounterValue::load_id`](super::value::CounterValue::load_id) of each counter in `overflowed_counters` at
    /// the last tick.
    load_ids: [Word; MAX_COUNTERS],
}

/// Value of [`WatchState::timer_mode`]: the timer has the period of the kernel's tick.
pub(crate) const TIMER_TICKING: u64 = 1;
/// Value of [`WatchState::timer_mode`]: no counter is active, and the timer only reads a trace's
/// values, less often.
pub(crate) const TIMER_SLOW: u64 = 2;

impl WatchState {
    /// Notes that the timer is started with the mode [`TIMER_TICKING`] at the time `now`.
    pub(crate) fn start(&self, now: u64) {
        self.timer_mode.set(TIMER_TICKING);
        self.last_tick.set(now);
        self.prolonged.set(0);
        self.overflowed_counters.set(0);
    }

    /// Returns whether suspended sampling resumes at the tick at the time `now`. Returns false if the tick is late, so
    /// that sampling resumes only at the next tick: the interrupts of samples may have delayed this tick, and would
    /// delay the next one, too.
    pub(crate) fn resumes_sampling(&self, limits: &Limits, now: u64) -> bool {
        let elapsed = now.wrapping_sub(self.last_tick.get());
        self.last_tick.set(now);
        // Sampling stays suspended for at most one more tick, even if the frequency of the time-stamp counter is not
        // known.
        let is_prolonged = limits.is_tick_late(elapsed) && self.prolonged.get() == 0;
        self.prolonged.set(is_prolonged.into());
        !is_prolonged
    }

    /// Returns whether a counter that has overflowed had already overflowed at the last tick, and was not loaded since.
    /// Stores `load_id`, its [`CounterValue::load_id`](super::value::CounterValue::load_id), for the next tick.
    pub(crate) fn is_stuck(&self, counter: CounterId, load_id: u64) -> bool {
        let had_overflowed = self.overflowed_counters.get() & counter.bit() != 0;
        self.load_ids
            .get(counter.index())
            .is_some_and(|last_load_id| {
                let is_same_load = last_load_id.get() == load_id;
                last_load_id.set(load_id);
                had_overflowed && is_same_load
            })
    }
}
