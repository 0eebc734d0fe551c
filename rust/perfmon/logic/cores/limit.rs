// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Limits: the general counters that can count some events, where not all can.

use super::super::evtsel::EventSelect;

/// The counters of an event without limits.
pub(in super::super) const ALL: u64 = u64::MAX;

/// Instead of counters: the event counts what a further register selects (offcore responses, loads of some latency,
/// the front end), which the module does not have.
pub(in super::super) const EXTRA_REGISTER: u64 = 0;

/// A limit on the events with some numbers and unit masks.
pub(in super::super) struct Limit {
    first: u8,
    last: u8,
    /// The bits of the unit mask that matter, and what they have to be.
    unit_bits: u8,
    unit_mask: u8,
    counters: u64,
}

impl Limit {
    /// Limits the event numbers `first` to `last`.
    pub(super) const fn range(first: u8, last: u8, counters: u64) -> Self {
        Self {
            first,
            last,
            unit_bits: 0,
            unit_mask: 0,
            counters,
        }
    }

    /// Limits an event number.
    pub(super) const fn event(number: u8, counters: u64) -> Self {
        Self::range(number, number, counters)
    }

    /// Limits an event number with a unit mask, in the order of the register.
    pub(super) const fn unit(mask_and_number: u16, counters: u64) -> Self {
        let [number, unit_mask] = mask_and_number.to_le_bytes();
        Self {
            unit_bits: 0xff,
            unit_mask,
            ..Self::event(number, counters)
        }
    }

    /// Limits an event number with all unit masks that have these bits set, in the order of the register.
    pub(super) const fn unit_bits(mask_and_number: u16, counters: u64) -> Self {
        let [number, unit_mask] = mask_and_number.to_le_bytes();
        Self {
            unit_bits: unit_mask,
            unit_mask,
            ..Self::event(number, counters)
        }
    }

    /// Returns the counters of the first limit that applies.
    pub(in super::super) fn find(limits: &[Self], select: EventSelect) -> Option<u64> {
        let applies = |limit: &&Self| {
            (limit.first..=limit.last).contains(&(select.event() as u8))
                && select.unit_mask() & limit.unit_bits == limit.unit_mask
        };
        limits.iter().find(applies).map(|limit| limit.counters)
    }
}
