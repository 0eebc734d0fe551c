// SPDX-License-Identifier: GPL-2.0-only
//! The calls of a task that have not returned, which the processor keeps in its branch records while a window is open
//! that wants them: between two windows they are in memory ([`SavedCalls`](super::calls::SavedCalls)).

use super::list::Slots;
use crate::{cpu::ThisCpu, pmu::lbr};

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
pub(super) fn restore(here: ThisCpu<'_>, slots: &mut Slots) {
    if are_recorded(slots) {
        lbr::restore(here, &slots.calls.words);
    }
    slots.calls.words.clear();
}

/// Discards the calls: the task has begun to execute another program.
pub(in crate::event) fn discard(here: Option<ThisCpu<'_>>, slots: &mut Slots) {
    if let Some(here) = here.filter(|_| are_recorded(slots)) {
        lbr::clear(here);
    }
    slots.calls.words.clear();
}
