// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Sandy Bridge, Ivy Bridge, Haswell and Broadwell.

use super::super::event_attr::{
    PERF_COUNT_HW_STALLED_CYCLES_BACKEND, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
};
use super::super::evtsel::EventSelect;
use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, NO_EVENT, NO_EVENT_ROW,
};
use super::core_events::{cycles_without, Core};
use super::extra::{offcore_0, offcore_1, unsupported, ExtraEvents};
use super::limit::{event_and_unit, event_and_unit_bits, event_number, event_range};

pub(super) const SANDY_BRIDGE: Core = Core {
    extra_register_events: EXTRA_REGISTER_EVENTS,
    limits: &[
        (event_and_unit(0x04a3), 0xf),
        (event_and_unit(0x05a3), 0xf),
        (event_and_unit(0x02a3), 0x4),
        (event_and_unit(0x06a3), 0x4),
        (event_number(0x48), 0x4),
        (event_and_unit(0x01c0), 0x2),
        (event_number(0xcd), 0x8),
        (event_range(0xd0, 0xd3), 0xf),
    ],
    hardware_events: &[
        FRONTEND_STALLS,
        // UOPS_DISPATCHED.THREAD
        (
            PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
            cycles_without(0xb1, 0x01),
        ),
    ],
    cache_events: Some(&SANDY_BRIDGE_CACHE),
    ..Core::EMPTY
};

pub(super) const IVY_BRIDGE: Core = Core {
    extra_register_events: EXTRA_REGISTER_EVENTS,
    limits: &[
        (event_and_unit(0x0148), 0x4),
        (event_and_unit(0x0279), 0xf),
        (event_and_unit(0x019c), 0xf),
        (event_and_unit(0x02a3), 0xf),
        (event_and_unit(0x04a3), 0xf),
        (event_and_unit(0x05a3), 0xf),
        (event_and_unit(0x06a3), 0xf),
        (event_and_unit(0x08a3), 0x4),
        (event_and_unit(0x0ca3), 0x4),
        (event_and_unit(0x01c0), 0x2),
        (event_range(0xd0, 0xd3), 0xf),
    ],
    hardware_events: &[FRONTEND_STALLS],
    cache_events: Some(&IVY_BRIDGE_CACHE),
    ..Core::EMPTY
};

pub(super) const HASWELL: Core = Core {
    extra_register_events: EXTRA_REGISTER_EVENTS,
    limits: &[
        (event_and_unit(0x0148), 0x4),
        (event_and_unit(0x01c0), 0x2),
        (event_number(0xcd), 0x8),
        (event_and_unit(0x08a3), 0x4),
        (event_and_unit(0x0ca3), 0x4),
        (event_and_unit(0x04a3), 0xf),
        (event_range(0xd0, 0xd3), 0xf),
    ],
    cache_events: Some(&HASWELL_CACHE),
    ..Core::EMPTY
};

pub(super) const BROADWELL: Core = Core {
    limits: &[
        (event_and_unit(0x0148), 0x4),
        // Linux has this limit for precise events only, Intel's list of events has it for all events.
        (event_and_unit(0x01c0), 0x2),
        (event_and_unit_bits(0x08a3), 0x4),
        (event_range(0xd0, 0xd2), 0xf),
        (event_number(0xcd), 0xf),
    ],
    ..HASWELL
};

/// The events of all four cores that need an extra register.
const EXTRA_REGISTER_EVENTS: &[ExtraEvents] = &[
    offcore_0(0x01b7, OFFCORE),
    offcore_1(0x01bb, OFFCORE),
    unsupported(event_and_unit(0x01cd)),
];

/// The bits of the registers of offcore responses. Sandy Bridge and Ivy Bridge lack some of these
/// bits, except in servers.
const OFFCORE: u64 = 0x3f_ffff_8fff;

/// Cycles without UOPS_ISSUED.ANY.
const FRONTEND_STALLS: (u32, EventSelect) = (
    PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    cycles_without(0x0e, 0x01),
);

const SANDY_BRIDGE_CACHE: CacheTable = [
    [0xf1d0, 0x0151, 0xf2d0, 0x0851, NO_EVENT, 0x024e],
    instruction_row(NO_EVENT, 0x0280),
    NO_EVENT_ROW,
    read_write_row([0x81d0, 0x0108], [0x82d0, 0x0149]),
    read_only_row(0x1085, 0x0185),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];

const IVY_BRIDGE_CACHE: CacheTable = {
    let mut table = SANDY_BRIDGE_CACHE;
    table[3] = read_write_row([0x81d0, 0x8108], [0x82d0, 0x0149]);
    table
};

const HASWELL_CACHE: CacheTable = [
    read_write_row([0x81d0, 0x0151], [0x82d0, NO_EVENT]),
    instruction_row(NO_EVENT, 0x0280),
    NO_EVENT_ROW,
    read_write_row([0x81d0, 0x0108], [0x82d0, 0x0149]),
    read_only_row(0x6085, 0x0185),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];
