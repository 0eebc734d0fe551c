// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Gracemont, Crestmont, Skymont, Darkmont and Arctic Wolf.

use super::atom::TREMONT_CACHE;
use super::core_events::{Core, REFERENCE_CYCLES};
use super::extra::{load_latency, offcore_0, offcore_1, snoop_0, snoop_1, unsupported};
use super::limit::event_and_unit;
use super::memory::{
    slow_loads, stores_with_latency, CRESTMONT_LOADS, CRESTMONT_STORES, GRACEMONT_LOADS,
    GRACEMONT_STORES,
};

pub(super) const GRACEMONT: Core = Core {
    extra_register_events: &[
        offcore_0(0x01b7, 1 << 63 | 0x0003_f03f_ffff_ffff),
        offcore_1(0x02b7, 0x0003_f03f_ffff_ffff),
        load_latency(0x05d0),
    ],
    precise_limits: &[
        (event_and_unit(0x05d0), 0x3),
        (event_and_unit(0x06d0), 0x3f),
    ],
    memory_events: &[&[
        slow_loads(0x05d0, &GRACEMONT_LOADS),
        stores_with_latency(0x06d0, &GRACEMONT_STORES),
    ]],
    has_instruction_latency: true,
    fixed_events: &[REFERENCE_CYCLES],
    cache_events: Some(&TREMONT_CACHE),
    ..Core::EMPTY
};

pub(super) const CRESTMONT: Core = Core {
    extra_register_events: &[
        offcore_0(0x01b7, 1 << 63 | 0x000f_f3ff_ffff_ffff),
        offcore_1(0x02b7, 0x000f_f3ff_ffff_ffff),
        load_latency(0x05d0),
        snoop_0(0x0127),
        snoop_1(0x0227),
    ],
    precise_limits: &[(event_and_unit(0x05d0), 0x3)],
    memory_events: &[&[
        slow_loads(0x05d0, &CRESTMONT_LOADS),
        stores_with_latency(0x06d0, &CRESTMONT_STORES),
    ]],
    ..GRACEMONT
};

pub(super) const SKYMONT: Core = Core {
    fixed_events: TOP_DOWN_EVENTS,
    ..CRESTMONT
};

/// Darkmont has the events of Skymont, and all counters can take precise samples of slow loads.
pub(super) const DARKMONT: Core = Core {
    precise_limits: &[],
    ..SKYMONT
};

pub(super) const ARCTIC_WOLF: Core = Core {
    extra_register_events: &[
        // The registers are MSR_OMR_0 to MSR_OMR_3.
        unsupported(event_and_unit(0x01b7)),
        unsupported(event_and_unit(0x02b7)),
        unsupported(event_and_unit(0x04b7)),
        unsupported(event_and_unit(0x08b7)),
        unsupported(event_and_unit(0x05d0)),
        snoop_0(0x0127),
        snoop_1(0x0227),
    ],
    limits: &[
        (event_and_unit(0x0175), 0x1),
        (event_and_unit(0x0275), 0x2),
        (event_and_unit(0x21d3), 0x1),
        (event_and_unit(0x22d3), 0x1),
    ],
    precise_limits: &[],
    memory_events: &[],
    ..SKYMONT
};

/// TOPDOWN_BAD_SPECULATION.ALL, TOPDOWN_FE_BOUND.ALL and TOPDOWN_RETIRING.ALL besides reference cycles.
const TOP_DOWN_EVENTS: &[(u16, u8)] = &[REFERENCE_CYCLES, (0x0073, 4), (0x019c, 5), (0x02c2, 6)];
