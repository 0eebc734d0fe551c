// SPDX-License-Identifier: GPL-2.0-only
//! The LBR call stack of a task: its calls that have not returned. While a window that records calls is open, the calls
//! are in the processor's branch records. Between two windows they are in memory
//! ([`SavedCalls`](super::saved_calls::SavedCalls)).

use super::list::Slots;
use crate::{cpu::ThisCpu, pmu::lbr};

/// Returns whether the call stack is in the branch records: an open window records calls.
fn is_recorded(slots: &Slots) -> bool {
    // If the capacity is 0, no event of the task records calls. Most tasks have no such events, and
    // a switch of such a task need not look at each slot.
    slots.calls.words.capacity() != 0
        && slots
            .iter()
            .any(|slot| slot.is_open() && slot.records_calls())
}

/// Saves the call stack to memory before windows are closed.
pub(super) fn save(here: ThisCpu<'_>, slots: &mut Slots) {
    if is_recorded(slots) {
        let words = &mut slots.calls.words;
        words.clear();
        // `words` has room for all records, so pushing can't fail.
        lbr::save_records(here, |branch| {
            for word in branch {
                let _ = words.push_within_capacity(word);
            }
        });
    }
}

/// Writes the saved call stack to the branch records, which must be empty, after windows have been opened. If no open
/// window records calls, the saved calls are discarded, since the task continues without being recorded.
pub(super) fn restore(here: ThisCpu<'_>, slots: &mut Slots) {
    if is_recorded(slots) {
        lbr::restore_records(here, &slots.calls.words);
    }
    slots.calls.words.clear();
}

/// Discards the call stack of a task that has begun to execute another program.
pub(in crate::event) fn discard(here: Option<ThisCpu<'_>>, slots: &mut Slots) {
    if let Some(here) = here.filter(|_| is_recorded(slots)) {
        lbr::clear_records(here);
    }
    slots.calls.words.clear();
}
