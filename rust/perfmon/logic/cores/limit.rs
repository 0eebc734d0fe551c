// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Limits of events to some of the general counters.

use super::super::evtsel::EventSelect;

/// The counters of an event without limits.
pub(in super::super) const ALL_COUNTERS: u64 = u64::MAX;

/// A set of events, by number and unit mask.
pub(in super::super) struct Events {
    /// The lowest event number.
    first: u8,
    /// The highest event number.
    last: u8,
    /// The bits of the unit mask that are compared.
    unit_bits: u8,
    /// The value that the bits of `unit_bits` must have.
    unit_mask: u8,
}

/// A set of events, and the counters that can count them.
pub(in super::super) type Limit = (Events, u64);

/// Returns the events with the numbers `first` to `last`.
pub(super) const fn event_range(first: u8, last: u8) -> Events {
    Events {
        first,
        last,
        unit_bits: 0,
        unit_mask: 0,
    }
}

/// Returns the events with this number.
pub(super) const fn event_number(number: u8) -> Events {
    event_range(number, number)
}

/// Returns the event with this number and unit mask, laid out as in the register.
pub(super) const fn event_and_unit(mask_and_number: u16) -> Events {
    let [number, unit_mask] = mask_and_number.to_le_bytes();
    Events {
        unit_bits: 0xff,
        unit_mask,
        ..event_number(number)
    }
}

/// Returns the events with this number whose unit mask has all bits of the given mask. Number and mask are laid out as
/// in the register.
pub(super) const fn event_and_unit_bits(mask_and_number: u16) -> Events {
    let [number, unit_mask] = mask_and_number.to_le_bytes();
    Events {
        unit_bits: unit_mask,
        unit_mask,
        ..event_number(number)
    }
}

impl Events {
    /// Returns the event select of the first of these events. All bits besides number and unit mask
    /// come from `base`.
    pub(in super::super) const fn first_select(&self, base: EventSelect) -> EventSelect {
        base.with_event(self.first, self.unit_mask)
    }

    /// Returns whether the set has this event.
    pub(in super::super) fn contains(&self, select: EventSelect) -> bool {
        (self.first..=self.last).contains(&(select.event() as u8))
            && select.unit_mask() & self.unit_bits == self.unit_mask
    }
}
