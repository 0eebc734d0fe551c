// SPDX-License-Identifier: GPL-2.0-only
//! The 64-bit value of a counter on one CPU.

use super::Word;
use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        evtsel::EventSelect,
        extend64::{advance, offset, Width},
        msr::{Msr, MsrCell},
        plan::Step,
    },
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The 64-bit value of a counter on one CPU. [`crate::logic::extend64`] has the arithmetic.
///
/// A value changes only on its own CPU, where two kinds of code change it:
///
/// - Calls, in a task or an interrupt. They run one at a time, since they hold the ownership lock. They change `total`
///   by a compare-and-exchange, which fails if the handler has changed it meanwhile, and `offset` only while the
///   counter is not active.
/// - The overflow handler, which may interrupt a call between any two instructions. It changes `total`, and `offset`
///   when it loads the counter.
///
/// Only calls change `total_at_reset`; while the CPU is not used for counting, the holder of the ownership lock may
/// change it from any CPU.
///
/// ATOMICS: `total` and `offset` in [`Self::update`] pair with [`Self::update_in_nmi`] and [`Self::load`] in an NMI
/// on the same CPU.
pub(crate) struct CounterValue {
    /// The number of events since the counter was set up. Never decreases.
    total: Word,
    /// The value that the hardware counter was last loaded with, minus `total` at that time
    /// ([`offset`]).
    offset: Word,
    /// The mask of the hardware counter's [`Width`].
    mask: Word,
    /// The number of events from loading the hardware counter to its overflow ([`Width::load_distance`]).
    load_distance: Word,
    /// The total at the last reset. Programs get the total minus this number.
    total_at_reset: Word,
    /// The event select of the event that the counter counts, in the form of [`EventSelect::stopped`].
    select: Word,
    /// The expected control register, to detect tampering: the mask of the counter's own bits, their value while the
    /// counter runs, and their value while it is stopped.
    control: [Word; 3],
    /// The largest number of events that can be counted between two updates: [`Width::max_step`].
    max_step: Word,
    /// The MSR of the hardware counter, from the first setup on.
    register: MsrCell,
}

/// The error that a counter has advanced by more than it can have counted, because other software has written to it.
pub(crate) struct ImplausibleStep;

impl CounterValue {
    /// Begins a new value at 0, for a stopped counter that was loaded with `width.load_value()`.
    pub(crate) fn init(&self, counter: Msr, width: Width, select: EventSelect) {
        self.total.set(0);
        self.total_at_reset.set(0);
        self.continue_on_counter(counter, width, select);
    }

    /// Continues the value on a counter that is stopped and was loaded with `width.load_value()`.
    pub(crate) fn continue_on_counter(&self, counter: Msr, width: Width, select: EventSelect) {
        self.register.set(counter);
        self.select.set(select.stopped());
        self.mask.set(width.mask);
        self.max_step.set(width.max_step());
        self.load_distance.set(width.load_distance);
        self.offset
            .set(offset(width.load_value(), self.total.get()));
    }

    /// Caches the expected control register while running and while stopped, from the steps that start and stop the
    /// counter.
    pub(crate) fn set_expected_control(&self, start: &Step, stop: &Step) {
        let [own_bits, running, stopped] = &self.control;
        own_bits.set(!start.keep_mask);
        running.set(start.value);
        stopped.set(stop.value);
    }

    /// Prepares for the step `start`, which makes a running counter count another event. Until
    /// [`Self::finish_select_change`], the control register may hold the old or the new value.
    pub(crate) fn begin_select_change(&self, select: EventSelect, start: &Step) {
        let [_, running, stopped] = &self.control;
        stopped.set(running.get());
        compiler_fence(SeqCst);
        running.set(start.value);
        self.select.set(select.stopped());
    }

    /// Ends [`Self::begin_select_change`]. `stop` is the step that stops the counter.
    pub(crate) fn finish_select_change(&self, stop: &Step) {
        let [_, _, stopped] = &self.control;
        stopped.set(stop.value);
    }

    /// Returns whether the counter counts the event with this select, given as [`EventSelect::stopped`].
    #[inline(always)]
    pub(crate) fn has_select(&self, select: u64) -> bool {
        self.select.get() == select
    }

    /// Returns whether `control`, the value of an active counter's control register, is what the module wrote. The value
    /// of a stopped counter is accepted, too: an interrupt may come after the counter was stopped and before it is
    /// marked inactive.
    #[inline(always)]
    pub(crate) fn is_control_intact(&self, control: u64) -> bool {
        let [own_bits, running, stopped] = &self.control;
        let own_control = control & own_bits.get();
        own_control == running.get() || own_control == stopped.get()
    }

    /// Returns the MSR of the hardware counter, if it was ever set up.
    #[inline(always)]
    pub(crate) fn register(&self) -> Option<Msr> {
        self.register.get()
    }

    /// Returns the select of the event that the counter counts.
    #[inline]
    pub(crate) fn select(&self) -> EventSelect {
        EventSelect::from_bits(self.select.get())
    }

    #[inline(always)]
    pub(super) fn width(&self) -> Width {
        Width {
            mask: self.mask.get(),
            load_distance: self.load_distance.get(),
        }
    }

    /// Brings the total up to date with the hardware counter.
    ///
    /// # Errors
    ///
    /// [`ImplausibleStep`] if the counter has advanced by more events than it can have counted since the last update. The
    /// total is then not changed.
    #[inline(always)]
    pub(crate) fn update(&self, here: ThisCpu<'_>, counter: Msr) -> Result<(), ImplausibleStep> {
        self.read_total(here, counter).map(|_| ())
    }

    /// Brings the total up to date with the hardware counter, and returns it.
    ///
    /// # Errors
    ///
    /// [`ImplausibleStep`] if the counter has advanced by more events than it can have counted since the last update. The
    /// total is then not changed.
    #[inline(always)]
    pub(crate) fn read_total(
        &self,
        here: ThisCpu<'_>,
        counter: Msr,
    ) -> Result<u64, ImplausibleStep> {
        loop {
            let (total, offset) = (self.total.get(), self.offset.get());
            let raw = msr::read(here, counter);
            // If the handler has loaded the counter before the read, `raw` belongs to the new offset: start over. If
            // the handler loads it after this check, the handler adds to the total, so that the exchange fails, or it
            // computes the same total.
            if self.offset.get() != offset {
                continue;
            }
            let new = advance(total, offset, raw, self.mask.get());
            // The total stays as it was, so that all other users of the counter see the step, too.
            if new.wrapping_sub(total) > self.max_step.get() {
                return Err(ImplausibleStep);
            }
            if self.total.replace(total, new) {
                return Ok(new);
            }
        }
    }

    /// Brings the total up to date with the hardware counter, and returns it. To be called by the
    /// overflow handler, which nothing interrupts, or while the counter is paused. Does not check
    /// that the counter has advanced by a possible number of events.
    #[inline(always)]
    pub(crate) fn update_in_nmi(&self, here: ThisCpu<'_>, counter: Msr) -> u64 {
        let raw = msr::read(here, counter);
        let total = advance(self.total.get(), self.offset.get(), raw, self.mask.get());
        self.total.set(total);
        total
    }

    /// Returns an ID of the last load of the hardware counter. The ID changes with each load, unless nothing was
    /// counted in between.
    pub(crate) fn load_id(&self) -> u64 {
        self.offset.get()
    }

    /// Loads the hardware counter so that it overflows after `events` more events, at most half of its range. `total`
    /// must be the counter's total, and up to date. To be called for an inactive counter, or by the overflow handler.
    #[inline(always)]
    pub(crate) fn load(&self, here: ThisCpu<'_>, counter: Msr, events: u64, total: u64) {
        self.load_distance.set(events);
        let width = Width {
            mask: self.mask.get(),
            load_distance: events,
        };
        self.write(here, counter, width.load_value(), total);
    }

    /// Writes `raw` to the hardware counter. `total` must be the counter's total, and up to date.
    ///
    /// A counter that counts in kernel mode loses the events between the update of the total and this write: a few
    /// instructions of the handler, once after each load.
    #[inline(always)]
    fn write(&self, here: ThisCpu<'_>, counter: Msr, raw: u64, total: u64) {
        msr::write(here, counter, raw);
        self.offset.set(offset(raw, total));
    }

    /// Adds the events of `times` overflows, after each of which the processor itself has loaded the counter for
    /// `period` events (PEBS). Nothing else may change the value meanwhile.
    pub(crate) fn note_reloads(&self, times: u64, period: u64) {
        // The counter was 0 at the first overflow, so the total at that moment follows from the offset.
        let total_at_first_overflow = self
            .mask
            .get()
            .wrapping_add(1)
            .wrapping_sub(self.offset.get());
        let later_events = times.wrapping_sub(1).wrapping_mul(period);
        let total = total_at_first_overflow.wrapping_add(later_events);
        self.load_distance.set(period);
        self.total.set(total);
        self.offset.set(offset(self.width().load_value(), total));
    }

    /// Returns the value to load the counter with, so that it overflows after `events` events.
    pub(crate) fn load_value(&self, events: u64) -> u64 {
        Width {
            mask: self.mask.get(),
            load_distance: events,
        }
        .load_value()
    }

    /// Returns the number of events from loading the counter to its overflow.
    pub(crate) fn load_distance(&self) -> u64 {
        self.load_distance.get()
    }

    /// Returns the total as of the last update, including events before the last reset.
    #[inline(always)]
    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    /// Returns whether the hardware counter has overflowed since it was loaded.
    pub(crate) fn has_overflowed(&self, here: ThisCpu<'_>, counter: Msr) -> bool {
        self.width().has_overflowed(msr::read(here, counter))
    }

    /// Reloads the hardware counter, by a write to the MSR `counter`, if it has overflowed. Returns whether it had
    /// overflowed. The total must be up to date, and the counter must not be active.
    pub(crate) fn reload_if_overflowed(&self, here: ThisCpu<'_>, counter: Msr) -> bool {
        let width = self.width();
        // The counter is stopped, so it holds the value that the total was updated from.
        let raw = self.offset.get().wrapping_add(self.total()) & width.mask;
        if !width.has_overflowed(raw) {
            return false;
        }
        self.write(here, counter, width.reload_value(raw), self.total());
        true
    }

    /// Resets the value to 0, as of the last update.
    pub(crate) fn reset(&self) {
        self.total_at_reset.set(self.total.get());
    }

    /// Returns the value as of the last update: the events since the last reset.
    #[inline(always)]
    pub(crate) fn value(&self) -> u64 {
        self.total.get().wrapping_sub(self.total_at_reset.get())
    }
}
