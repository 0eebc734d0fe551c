// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Skylake and Ice Lake.

use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS, WRONG};
use super::limit::{event, range, unit, Events, ALL};
use super::Core;

pub(super) const SKYLAKE: Core = Core {
    extra_events: EXTRA,
    limits: &[
        (unit(0x01c0), 0x2),
        (range(0xd0, 0xd2), 0xf),
        (event(0xcd), 0xf),
        (event(0xc6), 0xf),
    ],
    cache: Some(&SKYLAKE_CACHE),
    ..Core::EMPTY
};

pub(super) const ICE_LAKE: Core = Core {
    extra_events: EXTRA,
    limits: &[
        (range(0x03, 0x0a), 0xf),
        (range(0x1f, 0x28), 0xf),
        (event(0x32), 0xf),
        (range(0x48, 0x56), 0xf),
        (range(0x60, 0x8b), 0xf),
        (unit(0x04a3), ALL),
        (unit(0x10a3), ALL),
        (unit(0x14a3), ALL),
        (event(0xa3), 0xf),
        (range(0xa8, 0xb0), 0xf),
        (range(0xb7, 0xbd), 0xf),
        (range(0xd0, 0xe6), 0xf),
        (event(0xef), 0xf),
        (range(0xf0, 0xf4), 0xf),
    ],
    // INST_RETIRED.PREC_DIST
    fixed_events: &[(0x01c0, 0)],
    cache: Some(&ICE_LAKE_CACHE),
    ..Core::EMPTY
};

/// The events of both cores that need an extra register.
const EXTRA: &[Events] = &[unit(0x01b7), unit(0x01bb), unit(0x01cd), unit(0x01c6)];

const SKYLAKE_CACHE: CacheTable = [
    reads_and_writes([0x81d0, 0x0151], [0x82d0, NONE]),
    fetches(NONE, 0x0283),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0e08], [0x82d0, 0x0e49]),
    reads(0x2085, 0x0e85),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const ICE_LAKE_CACHE: CacheTable = {
    let mut table = SKYLAKE_CACHE;
    table[4] = reads(WRONG, 0x0e85);
    table
};
