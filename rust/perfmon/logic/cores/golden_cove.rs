// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Golden Cove, Raptor Cove and Redwood Cove.

use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS, WRONG};
use super::limit::{event, range, unit, Events, ALL};
use super::{Core, REFERENCE_CYCLES};

/// Golden Cove, and Raptor Cove, which has the same events.
pub(super) const GOLDEN_COVE: Core = Core {
    extra_events: &[
        unit(0x012a),
        unit(0x012b),
        unit(0x01cd),
        unit(0x01c6),
        unit(0x40ad),
        unit(0x04c2),
    ],
    limits: &[
        // Nearly all events below 0x90.
        (event(0x2e), ALL),
        (event(0x3c), ALL),
        (range(0x01, 0x8f), 0xf),
        (unit(0x01a3), 0xf),
        (unit(0x02a3), 0xf),
        (unit(0x05a3), 0xf),
        (unit(0x06a3), 0xf),
        (unit(0x08a3), 0xf),
        (unit(0x0ca3), 0xf),
        (unit(0x04a4), 0x1),
        (unit(0x08a4), 0x1),
        (unit(0x02cd), 0x1),
        (event(0xce), 0x1),
        (range(0xd0, 0xdf), 0xf),
    ],
    fixed_events: &[REFERENCE_CYCLES],
    cache: Some(&CACHE),
    ..Core::EMPTY
};

/// Redwood Cove, whose front-end events have other numbers than those of Golden Cove.
pub(super) const REDWOOD_COVE: Core = Core {
    extra_events: FROM_REDWOOD_COVE,
    ..GOLDEN_COVE
};

/// The events of Redwood, Lion and Cougar Cove that need an extra register.
pub(super) const FROM_REDWOOD_COVE: &[Events] = &[
    unit(0x012a),
    unit(0x012b),
    unit(0x01cd),
    unit(0x02c6),
    unit(0x03c6),
    unit(0x40ad),
    unit(0x04c2),
];

/// The events of caches of all cores from Golden Cove to Cougar Cove.
pub(super) const CACHE: CacheTable = [
    reads_and_writes([0x81d0, 0xe124], [0x82d0, NONE]),
    fetches(NONE, 0xe424),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0e12], [0x82d0, 0x0e13]),
    reads(WRONG, 0x0e11),
    reads(0x04c4, 0x04c5),
    NO_EVENTS,
];
