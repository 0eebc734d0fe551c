// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Skylake and Ice Lake.

use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, INVALID_EVENT, NO_EVENT,
    NO_EVENT_ROW,
};
use super::core_events::Core;
use super::extra::{frontend, load_latency, offcore_0, offcore_1, ExtraEvents};
use super::limit::{event_and_unit, event_number, event_range, ALL_COUNTERS};
use super::memory::{loads_and_stores, slow_loads, stores, MemoryEvents, SKYLAKE_LOADS};

pub(super) const SKYLAKE: Core = Core {
    extra_register_events: &extra_register_events(0x3f_ffff_8fff),
    limits: &[
        (event_and_unit(0x01c0), 0x2),
        (event_range(0xd0, 0xd2), 0xf),
        (event_number(0xcd), 0xf),
        (event_number(0xc6), 0xf),
    ],
    memory_events: &[&[SLOW_LOADS, stores(0x22d0)], &loads_and_stores(0xd3)],
    cache_events: Some(&SKYLAKE_CACHE),
    ..Core::EMPTY
};

pub(super) const ICE_LAKE: Core = Core {
    extra_register_events: &extra_register_events(0x3f_ffff_bfff),
    limits: &[
        (event_range(0x03, 0x0a), 0xf),
        (event_range(0x1f, 0x28), 0xf),
        (event_number(0x32), 0xf),
        (event_range(0x48, 0x56), 0xf),
        (event_range(0x60, 0x8b), 0xf),
        (event_and_unit(0x04a3), ALL_COUNTERS),
        (event_and_unit(0x10a3), ALL_COUNTERS),
        (event_and_unit(0x14a3), ALL_COUNTERS),
        (event_number(0xa3), 0xf),
        (event_range(0xa8, 0xb0), 0xf),
        (event_range(0xb7, 0xbd), 0xf),
        (event_range(0xd0, 0xe6), 0xf),
        (event_number(0xef), 0xf),
        (event_range(0xf0, 0xf4), 0xf),
    ],
    memory_events: &[&[SLOW_LOADS], &loads_and_stores(0xd4)],
    // INST_RETIRED.PREC_DIST
    fixed_events: &[(0x01c0, 0)],
    cache_events: Some(&ICE_LAKE_CACHE),
    ..Core::EMPTY
};

/// MEM_TRANS_RETIRED.LOAD_LATENCY
const SLOW_LOADS: MemoryEvents = slow_loads(0x01cd, &SKYLAKE_LOADS);

/// Returns the events of both cores that need an extra register. `offcore` are the bits that the registers of offcore
/// responses have.
const fn extra_register_events(offcore: u64) -> [ExtraEvents; 4] {
    [
        offcore_0(0x01b7, offcore),
        offcore_1(0x01bb, offcore),
        load_latency(0x01cd),
        frontend(0x01c6, 0x7f_ff17),
    ]
}

const SKYLAKE_CACHE: CacheTable = [
    read_write_row([0x81d0, 0x0151], [0x82d0, NO_EVENT]),
    instruction_row(NO_EVENT, 0x0283),
    NO_EVENT_ROW,
    read_write_row([0x81d0, 0x0e08], [0x82d0, 0x0e49]),
    read_only_row(0x2085, 0x0e85),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];

const ICE_LAKE_CACHE: CacheTable = {
    let mut table = SKYLAKE_CACHE;
    table[4] = read_only_row(INVALID_EVENT, 0x0e85);
    table
};
