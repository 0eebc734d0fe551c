// SPDX-License-Identifier: GPL-2.0-only
//! The calls of a task that have not returned, between two windows.

use crate::{event::event::Event, percpu::BRANCH_WORDS};
use kernel::{alloc::Flags, prelude::*};

/// The calls of a task while its windows are closed.
pub(in crate::event) struct SavedCalls {
    /// The calls as [`lbr::save`](crate::pmu::lbr::save) puts them; empty if they are not known. Without room, no event
    /// of the task has wanted them.
    pub(super) words: KVec<u64>,
}

impl SavedCalls {
    /// Returns no calls, without room for any.
    pub(in crate::event) const fn new() -> Self {
        Self { words: KVec::new() }
    }

    /// Returns no calls, with room for them if the event records calls.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn with_room_for(event: &Event) -> Result<Self> {
        let mut new = Self::new();
        if event.records_calls() {
            new.reserve(GFP_KERNEL_ACCOUNT)?;
        }
        Ok(new)
    }

    /// Makes room for them.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn reserve(&mut self, flags: Flags) -> Result {
        if self.words.capacity() < BRANCH_WORDS {
            self.words.reserve(BRANCH_WORDS, flags)?;
        }
        Ok(())
    }

    /// Takes the room of others, unless it has some.
    pub(in crate::event) fn take_room(&mut self, others: &mut Self) {
        if self.words.capacity() == 0 {
            core::mem::swap(self, others);
        }
    }
}
