// SPDX-License-Identifier: GPL-2.0-only
//! The order in which the slots of a context take turns.

use crate::event::event::Event;

/// The order in which the slots of a context take turns: from `first` on, and around.
pub(super) struct TurnOrder {
    /// The index of the slot that the row begins with.
    pub(super) first: usize,
    pub(super) need: TurnNeed,
    /// A group found no counters when the turns were given last.
    pub(super) has_waiting: bool,
}

/// The need for turns among the slots of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnNeed {
    /// None takes turns, or all have a counter at all times.
    None,
    /// Slots have come or gone since that was looked at.
    Unknown,
    /// There are too few counters for all, if all are enabled and meet.
    Some,
}

impl TurnOrder {
    /// Returns that no slot takes turns.
    pub(super) const NONE: Self = Self {
        first: 0,
        need: TurnNeed::None,
        has_waiting: false,
    };

    /// Notes that a slot of the event has come or goes.
    pub(super) fn note_change(&mut self, event: &Event) {
        if event.config.takes_turns {
            self.need = TurnNeed::Unknown;
        }
    }

    /// Notes that the slot at `index`, of the event, has gone.
    pub(super) fn note_removal(&mut self, event: &Event, index: usize) {
        self.note_change(event);
        if self.first > index {
            self.first -= 1;
        }
    }

    /// Makes the row begin where another one does.
    pub(super) fn copy_first(&mut self, other: &Self) {
        self.first = other.first;
    }
}
