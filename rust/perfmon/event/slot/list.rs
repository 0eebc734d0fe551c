// SPDX-License-Identifier: GPL-2.0-only
//! The slots of a context, in order.

use super::{
    calls::SavedCalls,
    room::SlotMemory,
    row::TurnOrder,
    slot::{LeaderIndex, Slot},
};
use crate::{
    event::event::Event,
    logic::{admission::OwnCounters, event_config::EventConfig},
    percpu::UserPagePtr,
};
use core::{
    ops::{Deref, DerefMut},
    ptr,
};
use kernel::{alloc::Flags, bindings, cpu::CpuId, prelude::*};

/// The slots of a context. A slot comes after that of its group's leader. Those that have the same counter agree
/// ([`Demand::agrees`](crate::logic::sharing::Demand::agrees)), or are of different CPUs.
pub(in crate::event) struct Slots {
    list: KVec<Slot>,
    /// The task that is counted; null if it is a CPU.
    pub(in crate::event) task: *mut bindings::task_struct,
    /// Some slots show in a page of the event that they count, or take turns.
    pub(super) has_pages_or_turns: bool,
    /// Some slots have a leader, or take turns.
    pub(super) has_groups: bool,
    /// Some slots are sampled.
    pub(super) has_sampled: bool,
    pub(super) turn_order: TurnOrder,
    pub(in crate::event) calls: SavedCalls,
    /// While the task begins to execute a program: the program is known to be one that its events may count. Has no
    /// meaning at other times.
    pub(in crate::event) may_record_new_program: bool,
}

impl Slots {
    /// Returns no slots, with room for `capacity`.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn new(capacity: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(capacity, flags)?,
            task: ptr::null_mut(),
            has_pages_or_turns: false,
            has_groups: false,
            has_sampled: false,
            turn_order: TurnOrder::NONE,
            calls: SavedCalls::new(),
            may_record_new_program: false,
        })
    }
}

impl Deref for Slots {
    type Target = KVec<Slot>;

    #[inline(always)]
    fn deref(&self) -> &KVec<Slot> {
        &self.list
    }
}

impl DerefMut for Slots {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut KVec<Slot> {
        &mut self.list
    }
}

impl Slots {
    /// Adds a slot, if there is room.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn add(&mut self, slot: Slot) -> Result {
        self.has_groups |= slot.leader != LeaderIndex::NONE || slot.event().config.takes_turns;
        self.has_pages_or_turns |= slot.event().config.takes_turns;
        self.turn_order.note_change(slot.event());
        self.has_sampled |= slot.is_sampled();
        self.list.push_within_capacity(slot).map_err(|_| ENOMEM)
    }

    /// Returns the slot of an event.
    #[inline(always)]
    pub(in crate::event) fn slot_of(&self, event: &Event) -> Option<&Slot> {
        self.iter().find(|slot| slot.is_of_event(event))
    }

    /// Returns the slots of the event's group, the leader's first.
    #[inline(always)]
    pub(in crate::event) fn group(&self, event: &Event) -> impl DoubleEndedIterator<Item = &Slot> {
        let index = self.iter().position(|slot| slot.is_of_event(event));
        let leader = index.map(|index| {
            let led_by = self.get(index).and_then(|slot| slot.leader.index());
            led_by.unwrap_or(index)
        });
        // A leader comes before those that it leads.
        let rest = leader.and_then(|leader| self.get(leader..)).unwrap_or(&[]);
        let led = leader.map_or(LeaderIndex::NONE, LeaderIndex::at);
        let first = rest.first().map(ptr::from_ref);
        rest.iter()
            .filter(move |slot| slot.leader == led || first == Some(ptr::from_ref(*slot)))
    }

    /// Returns whether the slot counts: its event is enabled, and so is its group's leader.
    #[inline(always)]
    pub(super) fn counts(&self, slot: &Slot) -> bool {
        let leader = || self.get(slot.leader.index()?);
        slot.is_enabled()
            && (slot.leader == LeaderIndex::NONE || leader().is_some_and(Slot::is_enabled))
    }

    /// Returns whether there is no room for one slot more.
    pub(in crate::event) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// Takes the memory for one slot more from `room`, as far as it has any. Leaves there the memory that is no
    /// longer used.
    pub(in crate::event) fn take_room(&mut self, room: &mut SlotMemory) {
        self.calls.take_room(&mut room.calls);
        if !self.is_full() || room.list.capacity() <= self.list.capacity() {
            return;
        }
        core::mem::swap(&mut self.list, &mut room.list);
        for slot in room.list.drain_all() {
            // There is more room than there was.
            let _ = self.list.push_within_capacity(slot);
        }
    }
}

/// Returns the counters that slots have, when an event with this config is to get one, for this CPU only or for any. Of
/// two CPUs' events of a task only one counts at a time, so they agree whatever they count.
pub(in crate::event) fn own_counters(
    slots: &Slots,
    config: &EventConfig,
    cpu: Option<CpuId>,
) -> OwnCounters {
    let mut own = OwnCounters::default();
    for slot in slots.iter().filter(|slot| !slot.counter().is_none()) {
        let event = slot.event();
        let agrees = |counter| {
            let demand = event.config.demand_on(counter);
            !slot.overlaps(cpu) || demand.agrees(config.demand_on(counter))
        };
        if event.config.takes_turns {
            own.add_turns(event.counters, agrees);
        } else {
            own.add(slot.counter(), agrees(slot.counter()));
        }
    }
    own
}

/// Removes the slots of an event. The siblings that it led are alone from now on. The windows are closed.
pub(in crate::event) fn remove(slots: &mut Slots, event: &Event) {
    while let Some(index) = slots.iter().position(|slot| slot.is_of_event(event)) {
        if let Ok(slot) = slots.remove(index) {
            slot.end();
        }
        slots.turn_order.note_removal(event, index);
        for slot in slots.iter_mut() {
            slot.leader = slot.leader.after_removal(index);
        }
    }
}

/// Removes the slots of the events for which `leaves` is true, as [`remove`] does.
pub(in crate::event) fn remove_where(slots: &mut Slots, leaves: impl Fn(&Event) -> bool) {
    while let Some(event) = slots.iter().map(Slot::event).find(|event| leaves(event)) {
        remove(slots, event);
    }
}

/// Makes the event's first slot show in its page. The windows are closed.
pub(in crate::event) fn set_page(slots: &mut Slots, event: &Event, page: UserPagePtr) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.is_of_event(event)) {
        slot.page = Some(page);
        slots.has_pages_or_turns = true;
    }
}

/// Removes all slots. The windows are closed.
pub(in crate::event) fn remove_all(slots: &mut Slots) {
    while let Some(slot) = slots.pop() {
        slot.end();
    }
}

/// Adds to `new`, the slots of a new task, those that it inherits of `slots`: for which `inherits` is true.
///
/// # Errors
///
/// ENOMEM.
pub(in crate::event) fn inherit(
    new: &mut Slots,
    slots: &Slots,
    inherits: impl Fn(&Event) -> bool,
    flags: Flags,
) -> Result {
    for slot in slots.iter().filter(|slot| inherits(slot.event())) {
        let leader = slot.leader.index().and_then(|index| {
            let leader = slots.get(index)?.event();
            // Mostly all are inherited, and it is at the same place.
            new.iter()
                .take(index + 1)
                .rposition(|slot| slot.is_of_event(leader))
        });
        if slot.records_calls() {
            new.calls.reserve(flags)?;
        }
        new.add(slot.inherited(leader))?;
    }
    if new.len() == slots.len() {
        // Their row is the same, so that tasks which live for less than a turn don't all begin with the same events.
        new.turn_order.copy_first(&slots.turn_order);
    }
    Ok(())
}
