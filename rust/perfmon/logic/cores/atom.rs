// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Bonnell, Silvermont, Goldmont, Goldmont Plus and Tremont.

use super::super::evtsel::EventSelect;
use super::cache::{fetches, reads, reads_and_writes, CacheTable, NONE, NO_EVENTS, WRONG};
use super::limit::{unit, Events};
use super::Core;

/// Bonnell, and Saltwell, which has the same events.
pub(super) const BONNELL: Core = Core {
    cache: Some(&BONNELL_CACHE),
    ..Core::EMPTY
};

/// Silvermont and Airmont, and the cores of Knights Landing and Knights Mill.
pub(super) const SILVERMONT: Core = Core {
    extra_events: OFFCORE,
    cache: Some(&SILVERMONT_CACHE),
    ..Core::EMPTY
};

pub(super) const GOLDMONT: Core = Core {
    extra_events: OFFCORE,
    cache: Some(&GOLDMONT_CACHE),
    ..Core::EMPTY
};

pub(super) const GOLDMONT_PLUS: Core = Core {
    cache: Some(&GOLDMONT_PLUS_CACHE),
    ..GOLDMONT
};

pub(super) const TREMONT: Core = Core {
    cache: Some(&TREMONT_CACHE),
    ..GOLDMONT
};

const OFFCORE: &[Events] = &[unit(0x01b7), unit(0x02b7)];

const BONNELL_CACHE: CacheTable = [
    reads_and_writes([0x2140, NONE], [0x2240, NONE]),
    fetches(0x0380, 0x0280),
    reads_and_writes([0x4f29, 0x4129], [0x4f2a, 0x412a]),
    reads_and_writes([0x2140, 0x0508], [0x2240, 0x0608]),
    reads(0x00c0, 0x0282),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

/// PAGE_WALKS.I_SIDE_WALKS: the number of page walks, which is how often their cycles begin.
const INSTRUCTION_WALKS: u32 = EventSelect::new(0x05, 0x02).with_edge().stopped() as u32;

const SILVERMONT_CACHE: CacheTable = [
    reads_and_writes([NONE, 0x0104], [NONE, NONE]),
    fetches(0x0380, 0x0280),
    NO_EVENTS,
    reads_and_writes([NONE, 0x0804], [NONE, NONE]),
    reads(0x00c0, INSTRUCTION_WALKS),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const GOLDMONT_CACHE: CacheTable = [
    reads_and_writes([0x81d0, NONE], [0x82d0, NONE]),
    fetches(0x0380, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x81d0, NONE], [0x82d0, NONE]),
    reads(0x00c0, 0x0481),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const GOLDMONT_PLUS_CACHE: CacheTable = {
    let mut table = GOLDMONT_CACHE;
    table[3] = reads_and_writes([0x81d0, 0x0e08], [0x82d0, 0x0e49]);
    table
};

/// The events of caches of all cores from Tremont to Arctic Wolf.
pub(super) const TREMONT_CACHE: CacheTable = {
    let mut table = GOLDMONT_PLUS_CACHE;
    table[4] = reads(WRONG, 0x0481);
    table
};
