// SPDX-License-Identifier: GPL-2.0-only
//! The LBR call stack of a task: its calls that have not returned, saved between two windows.

use crate::{event::event::Event, percpu::BRANCH_WORDS};
use kernel::{alloc::Flags, prelude::*};

/// The LBR call stack of a task while its windows are closed.
pub(in crate::event) struct SavedCalls {
    /// The calls in the layout of [`lbr::save_records`](crate::pmu::lbr::save_records); empty if they are not known.
    /// The capacity is 0 as long as no event of the task has recorded calls.
    pub(super) words: KVec<u64>,
}

impl SavedCalls {
    /// Returns an empty call stack without capacity.
    pub(in crate::event) const fn new() -> Self {
        Self { words: KVec::new() }
    }

    /// Returns an empty call stack, with capacity if the event records calls.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(in crate::event) fn with_room_for(event: &Event) -> Result<Self> {
        let mut new = Self::new();
        if event.records_calls() {
            new.reserve(GFP_KERNEL_ACCOUNT)?;
        }
        Ok(new)
    }

    /// Allocates the capacity for a whole call stack, unless `self` has it.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(in crate::event) fn reserve(&mut self, flags: Flags) -> Result {
        if self.words.capacity() < BRANCH_WORDS {
            self.words.reserve(BRANCH_WORDS, flags)?;
        }
        Ok(())
    }

    /// Takes the memory of `other`, unless `self` has memory.
    pub(in crate::event) fn take_room(&mut self, other: &mut Self) {
        if self.words.capacity() == 0 {
            core::mem::swap(self, other);
        }
    }
}
