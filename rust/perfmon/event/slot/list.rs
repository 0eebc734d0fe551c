// SPDX-License-Identifier: GPL-2.0-only
//! The slots of a context, in order.

use super::{
    saved_calls::SavedCalls,
    slot::{LeaderIndex, Slot},
    slot_memory::SlotMemory,
    turn_order::TurnOrder,
};
use crate::{
    event::event::Event,
    logic::{
        admission::OwnCounters,
        counter::{each_counter, CounterKind},
        event_config::EventConfig,
        extra_registers::ExtraValue,
    },
    percpu::UserPagePtr,
};
use core::{
    ops::{Deref, DerefMut},
    ptr,
};
use kernel::{alloc::Flags, bindings, cpu::CpuId, prelude::*};

/// The slots of a context. The slots of a group are next to each other, the leader's first. Slots with the same counter
/// count on different CPUs, or have demands that agree ([`Demand::agrees`](crate::logic::sharing::Demand::agrees)).
pub(in crate::event) struct Slots {
    list: KVec<Slot>,
    /// The task that is counted; null in the context of a CPU or a cgroup.
    pub(in crate::event) task: *mut bindings::task_struct,
    /// Some slots have a page, or [may wait](EventConfig::may_wait).
    pub(super) has_pages_or_waits: bool,
    /// Some slots have a leader, take turns, or have events that differ between kinds of cores.
    pub(super) has_groups_or_turns: bool,
    /// Some slots are sampled.
    pub(super) has_sampled_slots: bool,
    pub(super) turn_order: TurnOrder,
    pub(in crate::event) calls: SavedCalls,
    pub(in crate::event) exec: ExecStage,
}

/// The stage of an exec of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::event) enum ExecStage {
    /// Samples may show the task's program: the exec has succeeded, or there was none.
    Done,
    /// The exec has begun, and it is not known whether the events may count the new program, so samples show nothing of
    /// the program. After an exec that has failed, this stage lasts until the task's end.
    Begun,
    /// The exec has begun, and the events may count the new program: its mappings may be recorded.
    MayRecordMappings,
}

impl Slots {
    /// Returns an empty list with room for `capacity` slots.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(in crate::event) fn new(capacity: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(capacity, flags)?,
            task: ptr::null_mut(),
            has_pages_or_waits: false,
            has_groups_or_turns: false,
            has_sampled_slots: false,
            turn_order: TurnOrder::NONE,
            calls: SavedCalls::new(),
            exec: ExecStage::Done,
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
    /// Adds a slot after the other slots of its group, without allocating.
    ///
    /// # Errors
    ///
    /// ENOMEM if the list has no room.
    pub(in crate::event) fn add(&mut self, slot: Slot) -> Result {
        let index = self.index_after_group(slot.leader);
        let event = slot.event();
        let is_sampled = slot.is_sampled();
        let has_group_or_turns = slot.leader != LeaderIndex::NONE
            || event.config.takes_turns
            || !event.config.is_same_on_all_cpus;
        self.list.push_within_capacity(slot).map_err(|_| ENOMEM)?;
        self.has_groups_or_turns |= has_group_or_turns;
        self.has_pages_or_waits |= event.config.may_wait();
        self.has_sampled_slots |= is_sampled;
        let new_and_later_slots = self.list.get_mut(index..).unwrap_or(&mut []);
        new_and_later_slots.rotate_right(1);
        if let [_, later_slots @ ..] = new_and_later_slots {
            for slot in later_slots.iter_mut() {
                slot.leader = slot.leader.after_insertion(index);
            }
            if !later_slots.is_empty() {
                self.turn_order.note_insertion(index);
            }
        }
        self.turn_order.note_change(event);
        Ok(())
    }

    /// Returns the index after the slots of the group of `leader`; after all slots for [`LeaderIndex::NONE`].
    fn index_after_group(&self, leader: LeaderIndex) -> usize {
        let Some(leader_index) = leader.index() else {
            return self.len();
        };
        let from_leader = self.get(leader_index..).unwrap_or(&[]);
        // The search begins at the end, since a sibling is usually added to the last group.
        let last_sibling = from_leader.iter().rposition(|slot| slot.leader == leader);
        leader_index + last_sibling.unwrap_or(0) + 1
    }

    /// Returns the slot of an event.
    #[inline(always)]
    pub(in crate::event) fn slot_of(&self, event: &Event) -> Option<&Slot> {
        self.iter().find(|slot| slot.is_of_event(event))
    }

    /// Returns the slots of the event's group, the leader's slot first.
    #[inline(always)]
    pub(in crate::event) fn group(&self, event: &Event) -> &[Slot] {
        let index = self.iter().position(|slot| slot.is_of_event(event));
        index.map_or(&[], |index| self.group_at(index))
    }

    /// Returns the slots of the group that the slot at `index` is in, the leader's slot first.
    #[inline(always)]
    fn group_at(&self, index: usize) -> &[Slot] {
        let slot = self.get(index);
        let leader_index = slot.and_then(|slot| slot.leader.index()).unwrap_or(index);
        let from_leader = self.get(leader_index..).unwrap_or(&[]);
        let leader = LeaderIndex::new(leader_index);
        let siblings = from_leader.iter().skip(1);
        let sibling_count = siblings.take_while(|slot| slot.leader == leader).count();
        from_leader.get(..=sibling_count).unwrap_or(&[])
    }

    /// Returns the slots of each group.
    pub(in crate::event) fn groups(&self) -> impl Iterator<Item = &[Slot]> {
        let mut next = 0;
        core::iter::from_fn(move || {
            let group = self.group_at(next);
            next += group.len();
            (!group.is_empty()).then_some(group)
        })
    }

    /// Returns whether the slot is enabled, and its group's leader lets it count.
    #[inline(always)]
    pub(super) fn may_count(&self, slot: &Slot) -> bool {
        let leader = || self.get(slot.leader.index()?);
        slot.is_enabled()
            && (slot.leader == LeaderIndex::NONE || leader().is_some_and(Slot::lets_siblings_count))
    }

    /// Returns whether there is no room for one more slot.
    pub(in crate::event) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// Takes the memory for one more slot from `room`, if the list is full and `room` has such memory. Leaves the
    /// replaced memory in `room`, for the caller to free.
    pub(in crate::event) fn take_room(&mut self, room: &mut SlotMemory) {
        self.calls.take_room(&mut room.calls);
        if !self.is_full() || room.list.capacity() <= self.list.capacity() {
            return;
        }
        core::mem::swap(&mut self.list, &mut room.list);
        for slot in room.list.drain_all() {
            // The new list has more room than the old one, so this can't fail.
            let _ = self.list.push_within_capacity(slot);
        }
    }
}

/// Returns the counters that the slots have, and which of them a new event with `config` could share. The new event is to
/// count on `cpu`, or on all CPUs for `None`. Events that count a task on different CPUs never count at the same time, so
/// they can share any counter.
pub(in crate::event) fn own_counters(
    slots: &Slots,
    config: &EventConfig,
    cpu: Option<CpuId>,
) -> OwnCounters {
    let mut own_counters = OwnCounters::default();
    for slot in slots.iter().filter(|slot| !slot.counter().is_none()) {
        let event = slot.event();
        let can_share = |counter| {
            let demand = event.config.demand_on(counter);
            !slot.overlaps(cpu) || demand.agrees(config.demand_on(counter))
        };
        if event.config.takes_turns {
            let counters = event.counters();
            // The lowest counter is a general one, if the event may use any general counter. An
            // event has the same demand on all general counters.
            let can_share_general = each_counter(counters).next().is_none_or(can_share);
            own_counters.add_turns(counters, |counter| match counter.kind() {
                CounterKind::General(_) => can_share_general,
                CounterKind::Fixed(_) => can_share(counter),
            });
        } else {
            own_counters.add(slot.counter(), can_share(slot.counter()));
        }
    }
    own_counters
}

/// Returns the conflicts between the events of the slots and a new event that needs the value
/// `extra` in an extra register. The new event is to count on `cpu`, or on all CPUs for `None`.
pub(in crate::event) fn register_conflicts(
    slots: &Slots,
    extra: ExtraValue,
    cpu: Option<CpuId>,
) -> RegisterConflicts {
    let mut conflicts = RegisterConflicts::default();
    for slot in slots.iter().filter(|slot| slot.overlaps(cpu)) {
        let config = &slot.event().config;
        if config
            .extra
            .is_some_and(|other| extra.conflicts_with(other))
        {
            if config.takes_turns {
                conflicts.with_turns = true;
            } else {
                conflicts.always = true;
            }
        }
    }
    conflicts
}

/// The conflicts over the extra register that a new event needs: which sorts of events of the
/// context use the register with another value.
#[derive(Clone, Copy, Default)]
pub(in crate::event) struct RegisterConflicts {
    /// An event that uses another value keeps the register all the time.
    always: bool,
    /// An event that uses another value takes turns, so it has the register only in its turns.
    with_turns: bool,
}

impl RegisterConflicts {
    /// Returns whether these events exclude the new event. If `takes_turns` is true, the new event may share the
    /// register in turns, so only events that keep the register all the time exclude it.
    pub(in crate::event) const fn exclude(self, takes_turns: bool) -> bool {
        self.always || self.with_turns && !takes_turns
    }
}

/// Removes the slots of an event, whose windows must be closed. If the event led a group, its siblings have no leader
/// afterwards.
pub(in crate::event) fn remove(slots: &mut Slots, event: &Event) {
    remove_where(slots, |other| ptr::eq(other, event));
}

/// Removes the slots of the events for which `should_remove` is true, as [`remove`] does. The windows of these slots
/// must be closed.
pub(in crate::event) fn remove_where(slots: &mut Slots, should_remove: impl Fn(&Event) -> bool) {
    let Slots {
        list, turn_order, ..
    } = slots;
    // Interrupts may be off, so each slot is looked at only once.
    let mut removed_count = 0;
    let mut index = 0;
    // The leader of the slot's group before and after the removal.
    let mut leader = (LeaderIndex::NONE, LeaderIndex::NONE);
    list.retain(|slot| {
        let event = slot.event();
        let is_kept = !should_remove(event);
        if slot.leader == LeaderIndex::NONE {
            let new_leader = if is_kept {
                LeaderIndex::new(index - removed_count)
            } else {
                LeaderIndex::NONE
            };
            leader = (LeaderIndex::new(index), new_leader);
        } else {
            debug_assert!(slot.leader == leader.0);
            slot.leader = leader.1;
        }
        if !is_kept {
            slot.end();
            turn_order.note_removal(event, index - removed_count);
            removed_count += 1;
        }
        index += 1;
        is_kept
    });
}

/// Sets the page in which the event's first slot shows its window. Must be called with all windows closed.
pub(in crate::event) fn set_page(slots: &mut Slots, event: &Event, page: UserPagePtr) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.is_of_event(event)) {
        slot.page = Some(page);
        slots.has_pages_or_waits = true;
    }
}

/// Removes all slots, whose windows must be closed.
pub(in crate::event) fn remove_all(slots: &mut Slots) {
    while let Some(slot) = slots.pop() {
        slot.end();
    }
}

/// Adds inherited slots to `child_slots`, the slots of a new task: one for each of `parent_slots` for whose event
/// `inherits` is true.
///
/// # Errors
///
/// ENOMEM if there is no memory, or `child_slots` has no room.
pub(in crate::event) fn inherit(
    child_slots: &mut Slots,
    parent_slots: &Slots,
    inherits: impl Fn(&Event) -> bool,
    flags: Flags,
) -> Result {
    for slot in parent_slots.iter().filter(|slot| inherits(slot.event())) {
        let leader = slot.leader.index().and_then(|index| {
            let leader = parent_slots.get(index)?.event();
            // The leader's slot has the same index in the child if all slots before it are
            // inherited, which is usual. Otherwise it has a lower index.
            child_slots
                .iter()
                .take(index + 1)
                .rposition(|slot| slot.is_of_event(leader))
        });
        if slot.records_calls() {
            child_slots.calls.reserve(flags)?;
        }
        child_slots.add(slot.inherited_slot(leader))?;
    }
    if child_slots.len() == parent_slots.len() {
        // The child continues with the parent's turns. Otherwise all tasks that live for less than a turn would count the
        // same events.
        child_slots.turn_order.copy_first(&parent_slots.turn_order);
    }
    Ok(())
}
