// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Lion Cove and Cougar Cove.

use super::core_events::{Core, REFERENCE_CYCLES};
use super::golden_cove::{extra_register_events, CACHE_TABLE};
use super::limit::{event_and_unit, event_number, event_range, ALL_COUNTERS};
use super::memory::{slow_loads, stores_with_latency, LION_COVE_LOADS, LION_COVE_STORES};

/// Lion Cove, and Cougar Cove, which has the same events.
pub(super) const LION_COVE: Core = Core {
    extra_register_events: &extra_register_events(0xfff_ffff_ffff, 0xf),
    limits: &[
        (event_number(0x20), 0xf),
        (event_and_unit(0x0148), 0x4),
        (event_and_unit(0x0175), 0x4),
        (event_and_unit(0x08a3), 0x4),
        (event_and_unit(0x0ca3), 0x4),
        (event_and_unit(0x04a4), 0x1),
        (event_and_unit(0x08a4), 0x1),
        (event_and_unit(0x10a4), 0x8),
        (event_and_unit(0x01b1), 0x8),
        (event_and_unit(0x01cd), 0x3fc),
        (event_and_unit(0x02cd), 0x3),
        (event_and_unit(0x87d0), ALL_COUNTERS),
        (event_range(0xd0, 0xdf), 0xf),
    ],
    precise_limits: &[
        // Offcore responses.
        (event_and_unit(0x012a), 0x1),
        (event_and_unit(0x012b), 0x1),
    ],
    memory_events: &[&[
        slow_loads(0x01cd, &LION_COVE_LOADS),
        stores_with_latency(0x02cd, &LION_COVE_STORES),
    ]],
    has_instruction_latency: true,
    fixed_events: &[REFERENCE_CYCLES],
    cache_events: Some(&CACHE_TABLE),
    ..Core::EMPTY
};
