// SPDX-License-Identifier: GPL-2.0-only
//! The turns that slots take ([`crate::logic::turns`]): which slots may open their windows, and on which counters.

use super::{
    list::Slots,
    slot::Slot,
    turn_order::{TurnNeed, TurnOrder},
};
use crate::{
    cpu::ThisCpu,
    event::event::Event,
    logic::{
        counter::CounterId,
        extra_registers::ExtraValue,
        sharing::Demand,
        turns::{self, Member},
    },
};

impl Slots {
    /// Returns whether a group waits for its turn, since it got no counters when turns were last given.
    pub(in crate::event) fn has_waiting_groups(&self) -> bool {
        self.turn_order.has_waiting_groups
    }

    /// Decides which slots have a turn, and gives them their counters. Must be called with all windows closed.
    pub(super) fn give_turns(&mut self, here: ThisCpu<'_>) {
        let (cpu, kind) = (here.percpu().cpu_number.get(), here.percpu().core_kind());
        let TurnOrder { first, need, .. } = self.turn_order;
        if need == TurnNeed::Unknown {
            let all_fit = turns::give_turns(self.as_mut_slice(), first, |_, _| true);
            self.turn_order.need = if all_fit {
                TurnNeed::NotNeeded
            } else {
                TurnNeed::Needed
            };
            self.turn_order.has_waiting_groups = false;
        }
        if self.turn_order.need == TurnNeed::Needed {
            let all_fit = turns::give_turns(self.as_mut_slice(), first, |slots, index| {
                let slot = slots.get(index);
                slot.is_some_and(|slot| {
                    let is_counted_here = slot.event().config.counts_on(kind);
                    // A closed leader may keep its counter until its slot is removed.
                    slot.lets_siblings_count() && slot.counts_on(cpu) && is_counted_here
                })
            });
            self.turn_order.has_waiting_groups = !all_fit;
        }
    }

    /// Makes the next group the first in the order. The caller then opens windows, which gives the turns anew.
    pub(in crate::event) fn advance_turn(&mut self) {
        self.turn_order.first = turns::next_first(self.as_slice(), self.turn_order.first);
    }

    /// Returns whether the group that the slot at index `leader` leads can have all its counters at once. Ends the
    /// turns of all slots to find out, so it must be called with all windows closed.
    pub(in crate::event) fn can_schedule_group(&mut self, leader: usize) -> bool {
        turns::group_fits(self.as_mut_slice(), leader)
    }

    /// Returns an event that takes turns, and one of `free_counters` that this event could use,
    /// too, if a new event can then have one of the counters `wanted`. Returns `None` if there is
    /// no such event.
    pub(in crate::event) fn find_event_to_widen(
        &self,
        wanted: u64,
        free_counters: u64,
    ) -> Option<(&Event, CounterId)> {
        let free_counters_of = |slot: &Slot| slot.event().config.counters() & free_counters;
        let (slot, counter) =
            turns::find_member_to_widen(self.as_slice(), wanted, free_counters_of)?;
        Some((slot.event(), counter))
    }

    /// Ends the waits of all slots.
    pub(super) fn end_waits(&mut self, now: u64) {
        self.iter_mut().for_each(|slot| slot.end_wait(now));
    }
}

impl Member for Slot {
    fn takes_turns(&self) -> bool {
        self.event().config.takes_turns
    }

    fn counters(&self) -> u64 {
        self.event().counters() & !CounterId::NONE.bit()
    }

    fn demand_on(&self, counter: CounterId) -> Demand {
        self.event().config.demand_on(counter)
    }

    fn extra(&self) -> Option<ExtraValue> {
        self.event().config.extra
    }

    fn leader(&self) -> Option<usize> {
        self.leader.index()
    }

    fn counter(&self) -> CounterId {
        self.counter
    }

    fn has_turn(&self) -> bool {
        self.has_turn
    }

    fn begin_turn(&mut self, counter: CounterId) {
        if self.counter != counter {
            self.set_counter(counter);
        }
        self.has_turn = true;
    }

    fn end_turn(&mut self) {
        self.has_turn = false;
    }
}
