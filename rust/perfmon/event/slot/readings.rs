// SPDX-License-Identifier: GPL-2.0-only
//! The readings of counters, with which windows open and close.

use super::{list::Slots, slot::Slot};
use crate::{cpu::ThisCpu, logic::counter::CounterId};

/// The readings of counters on one CPU at one moment: each is read once.
pub(in crate::event) struct Readings {
    now: u64,
    /// The counters that were read since.
    read_counters: u64,
}

impl Readings {
    /// Returns the time.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns readings at the time `now`, with no counter read yet.
    #[inline(always)]
    pub(in crate::event) fn new(now: u64) -> Self {
        // What stands still need not be read.
        Self {
            now,
            read_counters: CounterId::NONE.bit(),
        }
    }

    /// Returns the total of the slot's counter.
    #[inline(always)]
    fn total(&mut self, here: ThisCpu<'_>, slot: &Slot) -> u64 {
        let value = here.percpu().value(slot.counter);
        if self.read_counters & slot.counter.bit() != 0 {
            return value.total();
        }
        self.read_counters |= slot.counter.bit();
        match value.read(here, slot.msr) {
            Ok(total) => total,
            Err(_) => mark_implausible(here, slot),
        }
    }

    /// Closes a window that is open. Returns the counter's total then.
    #[inline(always)]
    pub(super) fn close_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) -> u64 {
        slot.open = false;
        let total = self.total(here, slot);
        slot.add(total, self.now);
        total
    }

    /// Opens a window that is closed.
    #[inline(always)]
    pub(super) fn open_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) {
        let value = here.percpu().value(slot.counter);
        if !value.has_select(slot.select) {
            self.select(here, slot);
        }
        slot.start = self.total(here, slot);
        slot.start_time = self.now;
        slot.open = true;
    }

    /// Makes the counter count the slot's event. Leaves out a tampered counter that could not be set up anew: it is
    /// not ours any more.
    #[cold]
    #[inline(never)]
    fn select(&mut self, here: ThisCpu<'_>, slot: &Slot) {
        if here.percpu().tampered.get() & slot.counter.bit() != 0 {
            return;
        }
        self.total(here, slot);
        here.pmu().reselect(here, slot.counter, slot.event_select());
        self.read_counters &= !slot.counter.bit();
    }

    /// Sets up the tampered counters of the slots anew. Counters that other contexts have, too, stay as they are, and
    /// no event that has them is counted: other contexts may have windows open on them, which have yet to be marked.
    #[cold]
    #[inline(never)]
    pub(super) fn set_up_tampered(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        slots.give_turns(here);
        for slot in slots.iter() {
            let percpu = here.percpu();
            if percpu.tampered.get() & !percpu.overlapping.get() & slot.counter.bit() != 0 {
                here.pmu()
                    .set_up_tampered(here, slot.counter, slot.event_select());
                self.read_counters &= !slot.counter.bit();
            }
        }
    }
}

/// Marks that a counter holds what can't have been counted. Returns a total.
#[cold]
#[inline(never)]
fn mark_implausible(here: ThisCpu<'_>, slot: &Slot) -> u64 {
    slot.event().mark_broken();
    here.percpu().mark_tampered(slot.counter.bit());
    here.percpu().value(slot.counter).total()
}
