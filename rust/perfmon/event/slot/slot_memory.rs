// SPDX-License-Identifier: GPL-2.0-only
//! Memory for one more slot, allocated before the context is held, where nothing may sleep.

use super::{saved_calls::SavedCalls, slot::Slot};
use crate::event::event::Event;
use kernel::{alloc::flags::__GFP_NOWARN, prelude::*};

/// The largest number of slots of a context. A context switch looks at each slot.
pub(in crate::event) const MAX_SLOTS: usize = 1024;

/// The number of slots that a new context has room for.
pub(in crate::event) const INITIAL_SLOTS: usize = 8;

/// Memory that a context may need for one more slot.
pub(in crate::event) struct SlotMemory {
    /// An empty list, to replace the context's list if that is full. Its capacity is 0 until it is needed.
    pub(super) list: KVec<Slot>,
    /// A call stack with capacity, if the event records calls.
    pub(super) calls: SavedCalls,
}

impl SlotMemory {
    /// Returns the memory that a slot of `event` needs, without a list.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(in crate::event) fn for_event(event: &Event) -> Result<Self> {
        Ok(Self {
            list: KVec::new(),
            calls: SavedCalls::with_room_for(event)?,
        })
    }

    /// Allocates a list with room for twice as many slots as `slot_count`, the number of slots in a full list.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(in crate::event) fn grow(&mut self, slot_count: usize) -> Result {
        let capacity = (2 * slot_count).clamp(1, MAX_SLOTS);
        // The caller handles ENOMEM, which fragmented memory may cause, so the kernel's log needs no warning.
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        self.list = KVec::with_capacity(capacity, flags)?;
        Ok(())
    }
}
