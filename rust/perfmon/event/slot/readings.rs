// SPDX-License-Identifier: GPL-2.0-only
//! The readings of counters. Windows are opened and closed with these readings, for example at a
//! context switch.

use super::{list::Slots, slot::Slot};
use crate::{
    cpu::ThisCpu,
    logic::{counter::CounterId, evtsel::EventSelect},
    pmu,
};

/// The readings of one CPU's counters at one moment: each counter is read at most once.
pub(in crate::event) struct Readings {
    /// The time of the readings, in TSC cycles.
    now: u64,
    /// The counters that were read, as a mask.
    already_read: u64,
}

impl Readings {
    /// Returns the time of the readings, in TSC cycles.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns readings at the time `now`, in TSC cycles, with no counter read yet.
    #[inline(always)]
    pub(in crate::event) fn new(now: u64) -> Self {
        // `CounterId::NONE` counts as read, since its total never changes.
        Self {
            now,
            already_read: CounterId::NONE.bit(),
        }
    }

    /// Returns the total of the slot's counter. Reads the counter, unless these readings include it already.
    #[inline(always)]
    fn read_total(&mut self, here: ThisCpu<'_>, slot: &Slot) -> u64 {
        let value = here.percpu().value(slot.counter);
        if self.already_read & slot.counter.bit() != 0 {
            return value.total();
        }
        self.already_read |= slot.counter.bit();
        match value.read_total(here, slot.msr) {
            Ok(total) => total,
            Err(_) => self.mark_implausible(here, slot),
        }
    }

    /// Closes a window that is open. Returns the counter's total at its end.
    #[inline(always)]
    pub(super) fn close_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) -> u64 {
        slot.is_open = false;
        let total = self.read_total(here, slot);
        slot.add_window(total, self.now);
        total
    }

    /// Opens a window that is closed.
    #[inline(always)]
    pub(super) fn open_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) {
        let value = here.percpu().value(slot.counter);
        if !value.has_select(slot.select) {
            self.select_event(here, slot);
        }
        slot.start_total = self.read_total(here, slot);
        slot.start_time = self.now;
        slot.is_open = true;
    }

    /// Makes the counter count the slot's event, with the value of its extra register. Does nothing if the counter was
    /// tampered with and could not be set up anew, since another owner may use it.
    #[cold]
    #[inline(never)]
    fn select_event(&mut self, here: ThisCpu<'_>, slot: &Slot) {
        if here.percpu().tampered.get() & slot.counter.bit() != 0 {
            return;
        }
        let mut select = EventSelect::from_bits(slot.select);
        if let Some(extra) = slot.event().config.extra {
            select = select.without_extra_register();
            if pmu::extra::set_register(here, slot.counter, extra) {
                self.already_read &= !slot.counter.bit();
            }
            if here
                .percpu()
                .value(slot.counter)
                .has_select(select.stopped())
            {
                return;
            }
        }
        self.read_total(here, slot);
        here.pmu().change_event_select(here, slot.counter, select);
        self.already_read &= !slot.counter.bit();
    }

    /// Sets up anew the slots' counters that were tampered with. Skips counters on which windows of
    /// other contexts may be open, since the events of these windows may not be marked as broken
    /// yet: the next tick sets these counters up.
    #[cold]
    #[inline(never)]
    pub(super) fn set_up_tampered(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        slots.give_turns(here);
        for slot in slots.iter() {
            let percpu = here.percpu();
            let Some(select) = slot.event_select(percpu.core_kind()) else {
                continue;
            };
            if percpu.tampered.get() & !percpu.overlapping_counters.get() & slot.counter.bit() != 0
            {
                here.pmu().set_up_tampered(here, slot.counter, select);
                self.already_read &= !slot.counter.bit();
            }
        }
    }

    /// Marks the slot's event as broken and its counter as tampered with, since the register holds a value that can't
    /// have been counted. Returns the last plausible total. The next slot with the counter reads the register again, so
    /// that its event is marked, too.
    #[cold]
    #[inline(never)]
    fn mark_implausible(&mut self, here: ThisCpu<'_>, slot: &Slot) -> u64 {
        self.already_read &= !slot.counter.bit();
        slot.event().mark_broken();
        here.percpu().mark_tampered(slot.counter.bit());
        here.percpu().value(slot.counter).total()
    }
}
