// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! AMD's cores. [`event_limits`](super::super::event_limits) has the counters that can count an event.

use super::super::event_attr::{
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_REF_CPU_CYCLES,
    PERF_COUNT_HW_STALLED_CYCLES_BACKEND, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
};
use super::super::evtsel::EventSelect;
use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, INVALID_EVENT, NO_EVENT,
    NO_EVENT_ROW,
};
use super::core_events::Core;

/// All cores before Zen, including family 15h. Their events of the last level (LL) count accesses to the cache of level 2.
pub(super) const BEFORE_ZEN: Core = Core {
    hardware_events: &[
        (PERF_COUNT_HW_CACHE_REFERENCES, EventSelect::new(0x7d, 0x07)),
        (PERF_COUNT_HW_CACHE_MISSES, EventSelect::new(0x7e, 0x07)),
        (
            PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
            EventSelect::new(0xd0, 0),
        ),
        (
            PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
            EventSelect::new(0xd1, 0),
        ),
    ],
    cache_events: Some(&BEFORE_ZEN_CACHE),
    ..Core::EMPTY
};

pub(super) const ZEN_1: Core = Core {
    hardware_events: &[
        (
            PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
            EventSelect::new(0x87, 0x02),
        ),
        (
            PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
            EventSelect::new(0x87, 0x01),
        ),
    ],
    cache_events: Some(&ZEN_CACHE),
    ..Core::EMPTY
};

/// Zen 2 and 3.
pub(super) const ZEN_2: Core = Core {
    hardware_events: &[FRONTEND_STALLS],
    ..ZEN_1
};

/// Zen 4, 5 and 6.
pub(super) const ZEN_4: Core = Core {
    hardware_events: &[
        FRONTEND_STALLS,
        (PERF_COUNT_HW_REF_CPU_CYCLES, EventSelect::new(0x120, 0x01)),
    ],
    ..ZEN_1
};

const FRONTEND_STALLS: (u32, EventSelect) = (
    PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    EventSelect::new(0xa9, 0),
);

const BEFORE_ZEN_CACHE: CacheTable = [
    [0x0040, 0x0141, NO_EVENT, NO_EVENT, 0x0267, 0x0167],
    [
        0x0080,
        0x0081,
        INVALID_EVENT,
        INVALID_EVENT,
        0x014b,
        NO_EVENT,
    ],
    read_write_row([0x037d, 0x037e], [0x017f, NO_EVENT]),
    read_write_row([0x0040, 0x0746], [NO_EVENT, NO_EVENT]),
    read_only_row(0x0080, 0x0385),
    read_only_row(0x00c2, 0x00c3),
    read_only_row(0xb8e9, 0x98e9),
];

const ZEN_CACHE: CacheTable = [
    [0x0040, 0xc860, NO_EVENT, NO_EVENT, 0xff5a, NO_EVENT],
    instruction_row(0x0080, 0x0081),
    NO_EVENT_ROW,
    read_write_row([0xff45, 0xf045], [NO_EVENT, NO_EVENT]),
    read_only_row(0x0084, 0xff85),
    read_only_row(0x00c2, 0x00c3),
    read_only_row(NO_EVENT, NO_EVENT),
];
