// SPDX-License-Identifier: GPL-2.0-only
//! Memory for a slot, which is allocated before a context is held.

use super::{calls::SavedCalls, slot::Slot};
use crate::event::event::Event;
use kernel::{alloc::flags::__GFP_NOWARN, prelude::*};

/// The most events of a task or a CPU. A switch looks at each.
pub(in crate::event) const MAX_SLOTS: usize = 1024;

/// The slots that a new context has room for.
pub(in crate::event) const FEW_SLOTS: usize = 8;

/// Memory that a context may need for one slot more.
pub(in crate::event) struct SlotMemory {
    /// Empty.
    pub(super) list: KVec<Slot>,
    pub(super) calls: SavedCalls,
}

impl SlotMemory {
    /// Returns the memory that the event's slot needs besides its element of the list.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn for_event(event: &Event) -> Result<Self> {
        Ok(Self {
            list: KVec::new(),
            calls: SavedCalls::with_room_for(event)?,
        })
    }

    /// Adds memory for a list that is full with so many slots.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn grow(&mut self, slots: usize) -> Result {
        let capacity = (2 * slots).clamp(1, MAX_SLOTS);
        // Many events in a row may find memory in pieces, of which the kernel's log need not tell.
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        self.list = KVec::with_capacity(capacity, flags)?;
        Ok(())
    }
}
