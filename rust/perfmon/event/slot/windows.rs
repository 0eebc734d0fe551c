// SPDX-License-Identifier: GPL-2.0-only
//! Opening and closing the windows of all slots of a context.

use super::{list::Slots, readings::Readings, sampling, slot::Slot, user_pages};
use crate::{
    cpu::{timestamp, ThisCpu},
    event::event::Event,
    pmu,
};
use kernel::cpu::CpuId;

impl Readings {
    /// Closes the windows that are open.
    #[inline(always)]
    pub(in crate::event) fn close_windows(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        if pmu::may_be_tampered(here) {
            mark_tampered(here, slots);
        }
        if slots.has_sampled_slots {
            sampling::close_windows(self, here, slots);
        } else {
            for slot in slots.iter_mut().filter(|slot| slot.is_open) {
                self.close_window(here, slot);
            }
        }
        if slots.has_pages_or_waits {
            // The waits end first, since the times in the pages include these waits.
            slots.end_waits(self.now());
            user_pages::show_closed_windows(here, slots);
        }
    }

    /// Opens the windows of all slots that may count now. Must be called with all windows closed.
    #[inline(always)]
    pub(in crate::event) fn open_windows(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        let percpu = here.percpu();
        if percpu.tampered.get() != 0 {
            self.set_up_tampered(here, slots);
        }
        if slots.has_groups_or_turns {
            self.open_with_groups_and_turns(here, slots);
        } else {
            for slot in slots.iter_mut() {
                if slot.is_enabled() && slot.counts_on(percpu.cpu_number.get()) {
                    self.open_window(here, slot);
                }
            }
        }
        if slots.has_sampled_slots {
            sampling::arm_slots(here, slots, self.now());
        }
        if slots.has_pages_or_waits {
            user_pages::show_open_windows(here, slots);
        }
    }
}

impl Readings {
    /// Opens windows in a context where some slots have leaders, take turns, or have events that differ between kinds of
    /// cores. Slots without a turn, or with an event that this CPU does not count, begin to wait.
    #[inline(never)]
    fn open_with_groups_and_turns(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        let (cpu, kind) = (here.percpu().cpu_number.get(), here.percpu().core_kind());
        slots.give_turns(here);
        for index in 0..slots.len() {
            let may_open = slots
                .get(index)
                .is_some_and(|slot| slots.may_count(slot) && slot.counts_on(cpu));
            if let Some(slot) = slots.get_mut(index).filter(|_| may_open) {
                if slot.has_turn && slot.prepare_for_kind(kind) {
                    self.open_window(here, slot);
                } else {
                    slot.begin_wait(self.now());
                }
            }
        }
    }
}

impl Slots {
    /// Enables or disables an event by the fast path. Returns false, and changes nothing, if the
    /// fast path is not possible: a slot of the context has a leader, a page or samples, takes
    /// turns, may wait for another reason, or has an event that differs between kinds of cores; a
    /// counter was tampered with; or the event has no slot here.
    #[inline(always)]
    pub(in crate::event) fn set_enabled(
        &mut self,
        here: ThisCpu<'_>,
        event: &Event,
        enabled: bool,
    ) -> bool {
        if self.has_groups_or_turns
            || self.has_pages_or_waits
            || self.has_sampled_slots
            || pmu::may_be_tampered(here) && pmu::tampered_counters(here) != 0
        {
            return false;
        }
        let Some(slot) = self.iter_mut().find(|slot| slot.is_of_event(event)) else {
            return false;
        };
        event.set_enabled(enabled);
        if slot.is_open != enabled {
            let mut readings = Readings::new(timestamp());
            if slot.is_open {
                readings.close_window(here, slot);
            } else if slot.counts_on(here.percpu().cpu_number.get()) {
                readings.open_window(here, slot);
            }
        }
        true
    }

    /// Returns whether a slot of the context is enabled on this CPU. On a CPU that is not used for
    /// counting, no window is open, but slots can be enabled.
    pub(in crate::event) fn is_enabled_here(&self, here: ThisCpu<'_>, slot: &Slot) -> bool {
        let percpu = here.percpu();
        slot.is_enabled_here()
            || percpu.brought_up.get() == 0 && self.should_count_on(slot, percpu.cpu_number.get())
    }

    /// Returns whether a slot of the context should count on `cpu`, whether or not that CPU can count it.
    fn should_count_on(&self, slot: &Slot, cpu: u64) -> bool {
        self.may_count(slot) && slot.counts_on(cpu)
    }

    /// Marks the events that should count on `cpu` as broken, since that CPU's counters can't be used.
    pub(in crate::event) fn mark_broken_on(&self, cpu: CpuId) {
        for slot in self.iter() {
            if self.should_count_on(slot, cpu.as_u32().into()) {
                slot.event().mark_broken();
            }
        }
    }
}

/// Brings the sums of all events up to date by closing all windows, and opens the windows that should be open now.
pub(in crate::event) fn refresh(here: ThisCpu<'_>, slots: &mut Slots, now: u64) {
    let mut readings = Readings::new(now);
    readings.close_windows(here, slots);
    if here.percpu().brought_up.get() != 0 {
        readings.open_windows(here, slots);
    }
}

/// Calls `f` while no window is open and the sums of all events are up to date, and then opens the windows that should be
/// open. `here` is the CPU that has the context loaded; `None` if no CPU has.
pub(in crate::event) fn with_windows_closed(
    here: Option<ThisCpu<'_>>,
    slots: &mut Slots,
    f: impl FnOnce(&mut Slots),
) {
    if let Some(here) = here {
        Readings::new(timestamp()).close_windows(here, slots);
    }
    f(slots);
    if let Some(here) = here {
        refresh(here, slots, timestamp());
    }
}

/// Gives each slot the present counter of its event. If the context is loaded on `here`, its
/// windows are closed during the change. Returns the number of slots whose counter has changed.
pub(in crate::event) fn update_counters(here: Option<ThisCpu<'_>>, slots: &mut Slots) -> usize {
    let count = slots.iter().filter(|slot| slot.has_other_counter()).count();
    if count != 0 {
        with_windows_closed(here, slots, |slots| {
            slots.iter_mut().for_each(Slot::update_counter);
        });
    }
    count
}

/// Marks as broken the events that have open windows on tampered counters: the registers of these
/// counters do not hold what the module wrote.
#[cold]
#[inline(never)]
fn mark_tampered(here: ThisCpu<'_>, slots: &Slots) {
    let tampered_counters = pmu::tampered_counters(here);
    for slot in slots.iter() {
        if slot.is_open && tampered_counters & slot.counter.bit() != 0 {
            slot.event().mark_broken();
        }
    }
}
