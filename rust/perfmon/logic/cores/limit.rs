// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Limits: the general counters that can count some events, where not all can.

use super::super::evtsel::EventSelect;

/// The counters of an event without limits.
pub(in super::super) const ALL: u64 = u64::MAX;

/// Some numbers and unit masks of events.
pub(in super::super) struct Events {
    first: u8,
    last: u8,
    /// The bits of the unit mask that matter, and what they have to be.
    unit_bits: u8,
    unit_mask: u8,
}

/// Some events, and the counters that can count them.
pub(in super::super) type Limit = (Events, u64);

/// Returns the event numbers `first` to `last`.
pub(super) const fn range(first: u8, last: u8) -> Events {
    Events {
        first,
        last,
        unit_bits: 0,
        unit_mask: 0,
    }
}

/// Returns an event number.
pub(super) const fn event(number: u8) -> Events {
    range(number, number)
}

/// Returns an event number with a unit mask, in the order of the register.
pub(super) const fn unit(mask_and_number: u16) -> Events {
    let [number, unit_mask] = mask_and_number.to_le_bytes();
    Events {
        unit_bits: 0xff,
        unit_mask,
        ..event(number)
    }
}

/// Returns an event number with all unit masks that have these bits set, in the order of the register.
pub(super) const fn unit_bits(mask_and_number: u16) -> Events {
    let [number, unit_mask] = mask_and_number.to_le_bytes();
    Events {
        unit_bits: unit_mask,
        unit_mask,
        ..event(number)
    }
}

impl Events {
    /// Returns whether an event is among these.
    pub(in super::super) fn have(&self, select: EventSelect) -> bool {
        (self.first..=self.last).contains(&(select.event() as u8))
            && select.unit_mask() & self.unit_bits == self.unit_mask
    }
}
