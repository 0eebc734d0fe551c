// SPDX-License-Identifier: GPL-2.0-only
//! The calls of a task that have not returned, which the processor keeps in its branch records while a window is open
//! that wants them: between two windows they are here.

use super::{
    event::Event,
    slot::{Slot, Slots},
};
use crate::{cpu::ThisCpu, percpu::BRANCH_WORDS, pmu::lbr};
use kernel::{alloc::Flags, prelude::*};

/// The calls of a task while its windows are closed.
pub(super) struct Calls {
    /// As from [`lbr::save`]; empty if they are not known. Without room, no event of the task has wanted them.
    words: KVec<u64>,
}

impl Calls {
    /// Returns that they are not known.
    pub(super) const fn new() -> Self {
        Self { words: KVec::new() }
    }

    /// Returns that they are not known, with room for them if the event records calls.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn with_room_for(event: &Event) -> Result<Self> {
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
    pub(super) fn reserve(&mut self, flags: Flags) -> Result {
        if self.words.capacity() < BRANCH_WORDS {
            self.words.reserve(BRANCH_WORDS, flags)?;
        }
        Ok(())
    }

    /// Takes the room of others, unless it has some.
    pub(super) fn take_room(&mut self, others: &mut Self) {
        if self.words.capacity() == 0 {
            core::mem::swap(self, others);
        }
    }
}

/// Returns whether a window is open that wants them.
fn are_recorded(slots: &Slots) -> bool {
    // Most tasks have no such event: they don't pay for a look at each slot at every switch.
    slots.calls.words.capacity() != 0
        && slots
            .iter()
            .any(|slot| slot.is_open() && slot.records_calls())
}

/// Keeps the calls before windows are closed.
pub(super) fn save(here: ThisCpu<'_>, slots: &mut Slots) {
    if are_recorded(slots) {
        let words = &mut slots.calls.words;
        words.clear();
        // There is room for all.
        lbr::save(here, |branch| {
            for word in branch {
                let _ = words.push_within_capacity(word);
            }
        });
    }
}

/// Gives the calls back to the branch records, which are empty, after windows have been opened. If none wants them, the
/// task goes on with calls that are not seen.
pub(super) fn load(here: ThisCpu<'_>, slots: &mut Slots) {
    if are_recorded(slots) {
        lbr::load(here, &slots.calls.words);
    }
    slots.calls.words.clear();
}

/// Forgets the calls: the task has begun to execute another program.
pub(super) fn forget(here: Option<ThisCpu<'_>>, slots: &mut Slots) {
    if let Some(here) = here.filter(|_| are_recorded(slots)) {
        lbr::clear(here);
    }
    slots.calls.words.clear();
}

impl Event {
    /// Returns whether the branches of samples are calls that have not returned.
    fn records_calls(&self) -> bool {
        self.sampler.sampling.has_recorded_calls()
    }
}

impl Slot {
    /// [`Event::records_calls`]
    pub(super) fn records_calls(&self) -> bool {
        self.is_sampled() && self.event().records_calls()
    }
}
