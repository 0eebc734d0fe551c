// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Golden Cove, Raptor Cove and Redwood Cove.

use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, INVALID_EVENT, NO_EVENT,
    NO_EVENT_ROW,
};
use super::core_events::{Core, REFERENCE_CYCLES};
use super::extra::{frontend, load_latency, offcore_0, offcore_1, ExtraEvents};
use super::limit::{event_and_unit, event_number, event_range, Limit, ALL_COUNTERS};
use super::memory::{
    loads_and_stores, slow_loads, slow_loads_without_source, stores_with_latency, MemoryEvents,
    GOLDEN_COVE_LOADS, GOLDEN_COVE_STORES,
};

/// Golden Cove, and Raptor Cove, which has the same events.
pub(super) const GOLDEN_COVE: Core = Core {
    extra_register_events: &[
        offcore_0(0x012a, OFFCORE),
        offcore_1(0x012b, OFFCORE),
        load_latency(0x01cd),
        frontend(0x01c6, 0x7f_ff1f),
        frontend(0x40ad, 0x7),
        frontend(0x04c2, 0x8),
    ],
    limits: &[
        // Nearly all events below 0x90 are limited.
        (event_number(0x2e), ALL_COUNTERS),
        (event_number(0x3c), ALL_COUNTERS),
        (event_range(0x01, 0x8f), 0xf),
        (event_and_unit(0x01a3), 0xf),
        (event_and_unit(0x02a3), 0xf),
        (event_and_unit(0x05a3), 0xf),
        (event_and_unit(0x06a3), 0xf),
        (event_and_unit(0x08a3), 0xf),
        (event_and_unit(0x0ca3), 0xf),
        (event_and_unit(0x04a4), 0x1),
        (event_and_unit(0x08a4), 0x1),
        (event_and_unit(0x01cd), 0xfe),
        (event_and_unit(0x02cd), 0x1),
        (event_number(0xce), 0x1),
        (event_range(0xd0, 0xdf), 0xf),
    ],
    precise_limits: &[INSTRUCTIONS_NOT_ON_0],
    memory_events: &[
        &[slow_loads_without_source(0x01cd), SAMPLED_STORES],
        &loads_and_stores(0xd4),
    ],
    has_instruction_latency: true,
    fixed_events: &[REFERENCE_CYCLES],
    cache_events: Some(&CACHE_TABLE),
    ..Core::EMPTY
};

/// The limit of retired instructions with any unit mask: not general counter 0.
pub(super) const INSTRUCTIONS_NOT_ON_0: Limit = (event_number(0xc0), ALL_COUNTERS & !1);

/// Redwood Cove, whose front-end events have other numbers than the front-end events of Golden
/// Cove.
pub(super) const REDWOOD_COVE: Core = Core {
    extra_register_events: &extra_register_events(OFFCORE, 0x7),
    memory_events: &[
        &[slow_loads(0x01cd, &GOLDEN_COVE_LOADS), SAMPLED_STORES],
        &loads_and_stores(0xd4),
    ],
    ..GOLDEN_COVE
};

/// MEM_TRANS_RETIRED.STORE_SAMPLE
const SAMPLED_STORES: MemoryEvents = stores_with_latency(0x02cd, &GOLDEN_COVE_STORES);

/// The bits of the registers of offcore responses.
const OFFCORE: u64 = 0x3f_ffff_ffff;

/// Returns the events of Redwood, Lion and Cougar Cove that need an extra register. `offcore` are the bits that the
/// registers of offcore responses have, `mispredictions` the values for mispredicted branches.
pub(super) const fn extra_register_events(offcore: u64, mispredictions: u64) -> [ExtraEvents; 7] {
    [
        offcore_0(0x012a, offcore),
        offcore_1(0x012b, offcore),
        load_latency(0x01cd),
        frontend(0x02c6, 0x9),
        frontend(0x03c6, 0x7f_ff1f),
        frontend(0x40ad, mispredictions),
        frontend(0x04c2, 0x8),
    ]
}

/// The events of caches of all cores from Golden Cove to Cougar Cove.
pub(super) const CACHE_TABLE: CacheTable = [
    read_write_row([0x81d0, 0xe124], [0x82d0, NO_EVENT]),
    instruction_row(NO_EVENT, 0xe424),
    NO_EVENT_ROW,
    read_write_row([0x81d0, 0x0e12], [0x82d0, 0x0e13]),
    read_only_row(INVALID_EVENT, 0x0e11),
    read_only_row(0x04c4, 0x04c5),
    NO_EVENT_ROW,
];
