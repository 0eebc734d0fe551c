// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Core 2.

use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS};
use super::limit::{event, range};
use super::Core;

pub(super) const CORE_2: Core = Core {
    limits: &[
        (event(0x10), 0x1),
        (range(0x11, 0x13), 0x2),
        (event(0x14), 0x1),
        (event(0x18), 0x1),
        (event(0x19), 0x2),
        (event(0xa1), 0x1),
        (event(0xc9), 0x1),
        (event(0xcb), 0x1),
    ],
    cache: Some(&CACHE),
    ..Core::EMPTY
};

const CACHE: CacheTable = [
    [0x0f40, 0x0140, 0x0f41, 0x0141, 0x104e, NONE],
    fetches(0x0080, 0x0081),
    reads_and_writes([0x4f29, 0x4129], [0x4f2a, 0x412a]),
    reads_and_writes([0x0f40, 0x0208], [0x0f41, 0x0808]),
    reads(0x00c0, 0x1282),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];
