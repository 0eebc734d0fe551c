// SPDX-License-Identifier: GPL-2.0-only
//! The order in which the slots of a context take turns, and whether they need turns.

use crate::event::event::Event;

/// The order in which the slots of a context take turns: from the index `first` to the end, then from the beginning.
pub(super) struct TurnOrder {
    /// The index of the slot that gets a counter first.
    pub(super) first: usize,
    pub(super) need: TurnNeed,
    /// A group got no counters when turns were last given.
    pub(super) has_waiting_groups: bool,
}

/// The need for turns among the slots of a context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnNeed {
    /// No slot takes turns, or there are counters for all slots at once.
    NotNeeded,
    /// Slots were added or removed since the need was computed.
    Unknown,
    /// The counters are too few for all slots, if all slots are enabled and count on the same CPU.
    Needed,
}

impl TurnOrder {
    /// The order of a context in which no slot takes turns.
    pub(super) const NONE: Self = Self {
        first: 0,
        need: TurnNeed::NotNeeded,
        has_waiting_groups: false,
    };

    /// Notes that a slot of `event` was added or is removed.
    pub(super) fn note_change(&mut self, event: &Event) {
        if event.config.takes_turns {
            self.need = TurnNeed::Unknown;
        }
    }

    /// Notes that a slot was inserted at `index`, before other slots.
    pub(super) fn note_insertion(&mut self, index: usize) {
        if self.first >= index {
            self.first += 1;
        }
    }

    /// Notes that the slot of `event` at `index` was removed.
    pub(super) fn note_removal(&mut self, event: &Event, index: usize) {
        self.note_change(event);
        if self.first > index {
            self.first -= 1;
        }
    }

    /// Takes over the index [`first`](Self::first) of another order.
    pub(super) fn copy_first(&mut self, other: &Self) {
        self.first = other.first;
    }
}
