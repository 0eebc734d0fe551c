// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Sandy Bridge, Ivy Bridge, Haswell and Broadwell.

use super::super::event_attr::{
    PERF_COUNT_HW_STALLED_CYCLES_BACKEND, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
};
use super::super::evtsel::EventSelect;
use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS};
use super::limit::{event, range, unit, unit_bits, Events};
use super::{cycles_without, Core};

pub(super) const SANDY_BRIDGE: Core = Core {
    extra_events: EXTRA,
    limits: &[
        (unit(0x04a3), 0xf),
        (unit(0x05a3), 0xf),
        (unit(0x02a3), 0x4),
        (unit(0x06a3), 0x4),
        (event(0x48), 0x4),
        (unit(0x01c0), 0x2),
        (event(0xcd), 0x8),
        (range(0xd0, 0xd3), 0xf),
    ],
    hardware_events: &[
        NOTHING_ISSUED,
        // UOPS_DISPATCHED.THREAD
        (
            PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
            cycles_without(0xb1, 0x01),
        ),
    ],
    cache: Some(&SANDY_BRIDGE_CACHE),
    ..Core::EMPTY
};

pub(super) const IVY_BRIDGE: Core = Core {
    extra_events: EXTRA,
    limits: &[
        (unit(0x0148), 0x4),
        (unit(0x0279), 0xf),
        (unit(0x019c), 0xf),
        (unit(0x02a3), 0xf),
        (unit(0x04a3), 0xf),
        (unit(0x05a3), 0xf),
        (unit(0x06a3), 0xf),
        (unit(0x08a3), 0x4),
        (unit(0x0ca3), 0x4),
        (unit(0x01c0), 0x2),
        (range(0xd0, 0xd3), 0xf),
    ],
    hardware_events: &[NOTHING_ISSUED],
    cache: Some(&IVY_BRIDGE_CACHE),
    ..Core::EMPTY
};

pub(super) const HASWELL: Core = Core {
    extra_events: EXTRA,
    limits: &[
        (unit(0x0148), 0x4),
        (unit(0x01c0), 0x2),
        (event(0xcd), 0x8),
        (unit(0x08a3), 0x4),
        (unit(0x0ca3), 0x4),
        (unit(0x04a3), 0xf),
        (range(0xd0, 0xd3), 0xf),
    ],
    cache: Some(&HASWELL_CACHE),
    ..Core::EMPTY
};

pub(super) const BROADWELL: Core = Core {
    limits: &[
        (unit(0x0148), 0x4),
        // Linux has this limit for precise events only, Intel's list of events has it for all events.
        (unit(0x01c0), 0x2),
        (unit_bits(0x08a3), 0x4),
        (range(0xd0, 0xd2), 0xf),
        (event(0xcd), 0xf),
    ],
    ..HASWELL
};

/// The events of all four cores that need an extra register.
const EXTRA: &[Events] = &[unit(0x01b7), unit(0x01bb), unit(0x01cd)];

/// UOPS_ISSUED.ANY
const NOTHING_ISSUED: (u32, EventSelect) = (
    PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    cycles_without(0x0e, 0x01),
);

const SANDY_BRIDGE_CACHE: CacheTable = [
    [0xf1d0, 0x0151, 0xf2d0, 0x0851, NONE, 0x024e],
    fetches(NONE, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0108], [0x82d0, 0x0149]),
    reads(0x1085, 0x0185),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const IVY_BRIDGE_CACHE: CacheTable = {
    let mut table = SANDY_BRIDGE_CACHE;
    table[3] = reads_and_writes([0x81d0, 0x8108], [0x82d0, 0x0149]);
    table
};

const HASWELL_CACHE: CacheTable = [
    reads_and_writes([0x81d0, 0x0151], [0x82d0, NONE]),
    fetches(NONE, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0108], [0x82d0, 0x0149]),
    reads(0x6085, 0x0185),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];
