// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Core 2.

use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, NO_EVENT, NO_EVENT_ROW,
};
use super::core_events::Core;
use super::limit::{event_number, event_range};

pub(super) const CORE_2: Core = Core {
    limits: &[
        (event_number(0x10), 0x1),
        (event_range(0x11, 0x13), 0x2),
        (event_number(0x14), 0x1),
        (event_number(0x18), 0x1),
        (event_number(0x19), 0x2),
        (event_number(0xa1), 0x1),
        (event_number(0xc9), 0x1),
        (event_number(0xcb), 0x1),
    ],
    cache_events: Some(&CACHE_TABLE),
    ..Core::EMPTY
};

const CACHE_TABLE: CacheTable = [
    [0x0f40, 0x0140, 0x0f41, 0x0141, 0x104e, NO_EVENT],
    instruction_row(0x0080, 0x0081),
    read_write_row([0x4f29, 0x4129], [0x4f2a, 0x412a]),
    read_write_row([0x0f40, 0x0208], [0x0f41, 0x0808]),
    read_only_row(0x00c0, 0x1282),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];
