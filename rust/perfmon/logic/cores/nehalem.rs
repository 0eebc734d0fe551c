// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Nehalem and Westmere.

use super::super::event_attr::{
    PERF_COUNT_HW_STALLED_CYCLES_BACKEND, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
};
use super::super::evtsel::EventSelect;
use super::cache::{instruction_row, read_only_row, read_write_row, CacheTable, NO_EVENT_ROW};
use super::core_events::{cycles_without, Core};
use super::extra::unsupported;
use super::limit::{event_and_unit, event_number, event_range};

pub(super) const NEHALEM: Core = Core {
    // The threads of a core share its registers of offcore responses.
    extra_register_events: &[
        unsupported(event_and_unit(0x01b7)),
        unsupported(event_and_unit(0x100b)),
    ],
    limits: &[
        (event_range(0x40, 0x43), 0x3),
        (event_number(0x48), 0x3),
        (event_number(0x4e), 0x3),
        (event_number(0x51), 0x3),
        (event_number(0x63), 0x3),
    ],
    hardware_events: STALLS,
    cache_events: Some(&NEHALEM_CACHE),
    ..Core::EMPTY
};

pub(super) const WESTMERE: Core = Core {
    extra_register_events: &[
        unsupported(event_and_unit(0x01b7)),
        unsupported(event_and_unit(0x01bb)),
        unsupported(event_and_unit(0x100b)),
    ],
    limits: &[
        (event_number(0x51), 0x3),
        (event_number(0x60), 0x1),
        (event_number(0x63), 0x3),
        (event_number(0xb3), 0x1),
    ],
    cache_events: Some(&WESTMERE_CACHE),
    ..NEHALEM
};

const STALLS: &[(u32, EventSelect)] = &[
    // UOPS_ISSUED.ANY
    (
        PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
        cycles_without(0x0e, 0x01),
    ),
    // UOPS_EXECUTED.CORE_ACTIVE_CYCLES
    (
        PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
        cycles_without(0xb1, 0x3f),
    ),
];

const NEHALEM_CACHE: CacheTable = [
    [0x010b, 0x0151, 0x020b, 0x0251, 0x014e, 0x024e],
    instruction_row(0x0380, 0x0280),
    NO_EVENT_ROW,
    read_write_row([0x0f40, 0x0108], [0x0f41, 0x010c]),
    read_only_row(0x01c0, 0x20c8),
    read_only_row(0x00c4, 0x03e8),
    NO_EVENT_ROW,
];

const WESTMERE_CACHE: CacheTable = {
    let mut table = NEHALEM_CACHE;
    table[3] = read_write_row([0x010b, 0x0108], [0x020b, 0x010c]);
    table[4] = read_only_row(0x01c0, 0x0185);
    table
};
