// SPDX-License-Identifier: GPL-2.0-only
//! The slots of a context, in order.

use super::{
    calls::Calls,
    slot::{bit, Slot},
};
use crate::{event::event::Event, percpu::UserPagePtr, pmu};
use core::{
    ops::{Deref, DerefMut},
    ptr,
};
use kernel::{alloc::Flags, bindings, prelude::*};

/// The slots of a context. A slot comes after that of its group's leader.
pub(in crate::event) struct Slots {
    list: KVec<Slot>,
    /// The task that is counted; null if it is a CPU.
    pub(in crate::event) task: *mut bindings::task_struct,
    /// Some slots show in a page of the event that they count.
    pub(super) has_pages: bool,
    /// Some slots have a leader.
    pub(super) has_groups: bool,
    /// Some slots are sampled.
    pub(super) has_sampled: bool,
    pub(in crate::event) calls: Calls,
    /// The program that the task is beginning to execute, if there is one, is known to be such that its events may stay. Of
    /// no meaning at other times.
    pub(in crate::event) shows_new_program: bool,
}

/// The events of a task or a CPU that take no counter, at most.
pub(in crate::event) const MAX_DUMMIES: usize = 8;

impl Slots {
    /// Returns no slots, with room for one for each counter and for [`MAX_DUMMIES`]: no task has more.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn new(flags: Flags) -> Result<Self> {
        let capacity = pmu::common().capabilities.counters().count_ones() as usize + MAX_DUMMIES;
        Ok(Self {
            list: KVec::with_capacity(capacity, flags)?,
            task: ptr::null_mut(),
            has_pages: false,
            has_groups: false,
            has_sampled: false,
            calls: Calls::new(),
            shows_new_program: false,
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
        self.has_groups |= slot.needed != 0;
        self.has_sampled |= slot.is_sampled();
        self.list.push_within_capacity(slot).map_err(|_| ENOMEM)
    }

    /// Returns the slot of an event.
    #[inline(always)]
    pub(in crate::event) fn slot_of(&self, event: &Event) -> Option<&Slot> {
        self.iter().find(|slot| slot.is_of(event))
    }

    /// Returns the slots of the event's group, the leader's first.
    #[inline(always)]
    pub(in crate::event) fn group(&self, event: &Event) -> impl Iterator<Item = &Slot> {
        let index = self.iter().position(|slot| slot.is_of(event));
        let leader = index.map(|index| match self.get(index) {
            Some(slot) if slot.needed != 0 => slot.needed.trailing_zeros() as usize,
            _ => index,
        });
        // A leader comes before those that it leads.
        let rest = leader.and_then(|leader| self.get(leader..)).unwrap_or(&[]);
        let needed = leader.map_or(0, bit);
        let mut first = true;
        rest.iter()
            .filter(move |slot| core::mem::take(&mut first) || slot.needed == needed)
    }
}

/// Returns how many slots have no counter.
pub(in crate::event) fn dummies(slots: &Slots) -> usize {
    let dummies = slots.iter().filter(|slot| slot.counter().is_none());
    dummies.count()
}

/// Returns the counters that slots use.
pub(in crate::event) fn counters(slots: &Slots) -> u64 {
    crate::logic::counter::bits(slots.iter().map(Slot::counter))
}

/// Removes the slots of an event. The siblings that it led are alone from now on. The windows are closed.
pub(in crate::event) fn remove(slots: &mut Slots, event: &Event) {
    while let Some(index) = slots.iter().position(|slot| slot.is_of(event)) {
        if let Ok(slot) = slots.remove(index) {
            slot.end();
        }
        for slot in slots.iter_mut() {
            // Those behind it have moved by one.
            slot.needed = if slot.needed > bit(index) {
                slot.needed >> 1
            } else {
                slot.needed & !bit(index)
            };
        }
    }
}

/// Makes the event's first slot show in its page. The windows are closed.
pub(in crate::event) fn set_page(slots: &mut Slots, event: &Event, page: UserPagePtr) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.is_of(event)) {
        slot.page = Some(page);
        slots.has_pages = true;
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
        let led_by = slots
            .get(slot.needed.trailing_zeros() as usize)
            .map(Slot::event);
        let leader = led_by.and_then(|leader| new.iter().position(|slot| slot.is_of(leader)));
        if slot.records_calls() {
            new.calls.reserve(flags)?;
        }
        new.add(slot.inherited(leader))?;
    }
    Ok(())
}
