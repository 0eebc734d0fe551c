// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Golden Cove, Raptor Cove and Redwood Cove.

use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS, WRONG};
use super::limit::{Limit, ALL, EXTRA_REGISTER};
use super::{Core, REFERENCE_CYCLES};

/// Golden Cove, and Raptor Cove, which has the same events.
pub(super) const GOLDEN_COVE: Core = Core {
    limits: &[
        Limit::unit(0x012a, EXTRA_REGISTER),
        Limit::unit(0x012b, EXTRA_REGISTER),
        Limit::unit(0x01cd, EXTRA_REGISTER),
        Limit::unit(0x01c6, EXTRA_REGISTER),
        Limit::unit(0x40ad, EXTRA_REGISTER),
        Limit::unit(0x04c2, EXTRA_REGISTER),
        // Nearly all events below 0x90.
        Limit::event(0x2e, ALL),
        Limit::event(0x3c, ALL),
        Limit::range(0x01, 0x8f, 0xf),
        Limit::unit(0x01a3, 0xf),
        Limit::unit(0x02a3, 0xf),
        Limit::unit(0x05a3, 0xf),
        Limit::unit(0x06a3, 0xf),
        Limit::unit(0x08a3, 0xf),
        Limit::unit(0x0ca3, 0xf),
        Limit::unit(0x04a4, 0x1),
        Limit::unit(0x08a4, 0x1),
        Limit::unit(0x02cd, 0x1),
        Limit::event(0xce, 0x1),
        Limit::range(0xd0, 0xdf, 0xf),
    ],
    fixed: &[REFERENCE_CYCLES],
    cache: Some(&CACHE),
    ..Core::UNKNOWN
};

/// The events of the front end have other numbers than Golden Cove's.
pub(super) const REDWOOD_COVE: Core = Core {
    limits: &[
        Limit::unit(0x012a, EXTRA_REGISTER),
        Limit::unit(0x012b, EXTRA_REGISTER),
        Limit::unit(0x01cd, EXTRA_REGISTER),
        Limit::unit(0x02c6, EXTRA_REGISTER),
        Limit::unit(0x03c6, EXTRA_REGISTER),
        Limit::unit(0x40ad, EXTRA_REGISTER),
        Limit::unit(0x04c2, EXTRA_REGISTER),
        // Nearly all events below 0x90.
        Limit::event(0x2e, ALL),
        Limit::event(0x3c, ALL),
        Limit::range(0x01, 0x8f, 0xf),
        Limit::unit(0x01a3, 0xf),
        Limit::unit(0x02a3, 0xf),
        Limit::unit(0x05a3, 0xf),
        Limit::unit(0x06a3, 0xf),
        Limit::unit(0x08a3, 0xf),
        Limit::unit(0x0ca3, 0xf),
        Limit::unit(0x04a4, 0x1),
        Limit::unit(0x08a4, 0x1),
        Limit::unit(0x02cd, 0x1),
        Limit::event(0xce, 0x1),
        Limit::range(0xd0, 0xdf, 0xf),
    ],
    ..GOLDEN_COVE
};

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
