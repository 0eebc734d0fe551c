// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Panther Cove and Coyote Cove.

use super::cache::{CacheTable, INVALID_EVENT, NO_EVENT};
use super::core_events::{Core, REFERENCE_CYCLES};
use super::extra::{frontend, unsupported};
use super::golden_cove;
use super::limit::{event_and_unit, event_number, event_range};

/// Panther Cove, and Coyote Cove, which has the same events.
pub(super) const PANTHER_COVE: Core = Core {
    extra_register_events: &[
        // The registers are MSR_OMR_0 to MSR_OMR_3.
        unsupported(event_and_unit(0x012a)),
        unsupported(event_and_unit(0x022a)),
        unsupported(event_and_unit(0x042a)),
        unsupported(event_and_unit(0x082a)),
        unsupported(event_and_unit(0x014f)),
        unsupported(event_and_unit(0x024f)),
        unsupported(event_and_unit(0x044f)),
        unsupported(event_and_unit(0x084f)),
        unsupported(event_and_unit(0x01d6)),
        unsupported(event_and_unit(0x02d6)),
        unsupported(event_and_unit(0x04d6)),
        unsupported(event_and_unit(0x08d6)),
        unsupported(event_and_unit(0x01cd)),
        frontend(0x02c6, 0x9),
        frontend(0x03c6, 0x7f_ff1f),
        frontend(0x40ad, 0xf),
        frontend(0x04c2, 0x8),
    ],
    limits: &[
        (event_number(0x20), 0xf),
        (event_number(0x79), 0xf),
        (event_and_unit(0x0275), 0xf),
        (event_and_unit(0x0176), 0xf),
        (event_and_unit(0x04a4), 0x1),
        (event_and_unit(0x08a4), 0x1),
        (event_and_unit(0x02cd), 0x3),
        (event_range(0xd0, 0xd1), 0xf),
        (event_number(0xd4), 0xf),
        (event_number(0xd6), 0xf),
        (event_number(0xdf), 0xf),
        (event_number(0xce), 0x1),
        (event_and_unit(0x01b1), 0x8),
        (event_and_unit(0x01b2), 0xf),
        (event_and_unit(0x02b2), 0xf),
        (event_and_unit(0x0847), 0xf),
        (event_and_unit(0x0446), 0xf),
        (event_and_unit(0x0846), 0xf),
        (event_and_unit(0x0148), 0xf),
    ],
    fixed_events: &[REFERENCE_CYCLES],
    cache_events: Some(&CACHE_TABLE),
    ..Core::EMPTY
};

const CACHE_TABLE: CacheTable = {
    let mut table = golden_cove::CACHE_TABLE;
    table[6] = [
        INVALID_EVENT,
        INVALID_EVENT,
        NO_EVENT,
        NO_EVENT,
        NO_EVENT,
        NO_EVENT,
    ];
    table
};
