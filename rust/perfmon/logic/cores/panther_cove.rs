// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Panther Cove and Coyote Cove.

use super::cache::{CacheTable, NONE, WRONG};
use super::golden_cove;
use super::limit::{event, range, unit};
use super::{Core, REFERENCE_CYCLES};

/// Panther Cove, and Coyote Cove, which has the same events.
pub(super) const PANTHER_COVE: Core = Core {
    extra_events: &[
        unit(0x012a),
        unit(0x022a),
        unit(0x042a),
        unit(0x082a),
        unit(0x014f),
        unit(0x024f),
        unit(0x044f),
        unit(0x084f),
        unit(0x01d6),
        unit(0x02d6),
        unit(0x04d6),
        unit(0x08d6),
        unit(0x01cd),
        unit(0x02c6),
        unit(0x03c6),
        unit(0x40ad),
        unit(0x04c2),
    ],
    limits: &[
        (event(0x20), 0xf),
        (event(0x79), 0xf),
        (unit(0x0275), 0xf),
        (unit(0x0176), 0xf),
        (unit(0x04a4), 0x1),
        (unit(0x08a4), 0x1),
        (unit(0x02cd), 0x3),
        (range(0xd0, 0xd1), 0xf),
        (event(0xd4), 0xf),
        (event(0xd6), 0xf),
        (event(0xdf), 0xf),
        (event(0xce), 0x1),
        (unit(0x01b1), 0x8),
        (unit(0x01b2), 0xf),
        (unit(0x02b2), 0xf),
        (unit(0x0847), 0xf),
        (unit(0x0446), 0xf),
        (unit(0x0846), 0xf),
        (unit(0x0148), 0xf),
    ],
    fixed_events: &[REFERENCE_CYCLES],
    cache: Some(&CACHE),
    ..Core::EMPTY
};

const CACHE: CacheTable = {
    let mut table = golden_cove::CACHE;
    table[6] = [WRONG, WRONG, NONE, NONE, NONE, NONE];
    table
};
