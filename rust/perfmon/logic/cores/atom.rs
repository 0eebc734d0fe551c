// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Bonnell, Silvermont, Goldmont, Goldmont Plus and Tremont.

use super::super::evtsel::EventSelect;
use super::cache::{
    instruction_row, read_only_row, read_write_row, CacheTable, INVALID_EVENT, NO_EVENT,
    NO_EVENT_ROW,
};
use super::core_events::Core;
use super::extra::{offcore_0, offcore_1, unsupported};
use super::limit::{event_and_unit, event_range};

/// Bonnell, and Saltwell, which has the same events.
pub(super) const BONNELL: Core = Core {
    cache_events: Some(&BONNELL_CACHE),
    ..Core::EMPTY
};

/// Silvermont and Airmont, and the cores of Knights Landing and Knights Mill.
pub(super) const SILVERMONT: Core = Core {
    // The two cores of a module share its registers of offcore responses (SDM volume 3B, "Off-core Response Event" of
    // Silvermont).
    extra_register_events: &[
        unsupported(event_and_unit(0x01b7)),
        unsupported(event_and_unit(0x02b7)),
    ],
    cache_events: Some(&SILVERMONT_CACHE),
    ..Core::EMPTY
};

pub(super) const GOLDMONT: Core = Core {
    extra_register_events: &[
        offcore_0(0x01b7, 0x76_0005_ffbf),
        offcore_1(0x02b7, 0x36_0005_ffbf),
    ],
    // SDM volume 3B, "Processor Event Based Sampling (PEBS)" of Goldmont
    precise_limits: &[(event_range(0x00, 0xff), 0x1)],
    cache_events: Some(&GOLDMONT_CACHE),
    ..Core::EMPTY
};

pub(super) const GOLDMONT_PLUS: Core = Core {
    precise_limits: &[],
    cache_events: Some(&GOLDMONT_PLUS_CACHE),
    ..GOLDMONT
};

pub(super) const TREMONT: Core = Core {
    extra_register_events: &[
        offcore_0(0x01b7, 1 << 63 | 0x000f_f0ff_ffff_9fff),
        offcore_1(0x02b7, 0x000f_f0ff_ffff_9fff),
    ],
    cache_events: Some(&TREMONT_CACHE),
    ..GOLDMONT_PLUS
};

const BONNELL_CACHE: CacheTable = [
    read_write_row([0x2140, NO_EVENT], [0x2240, NO_EVENT]),
    instruction_row(0x0380, 0x0280),
    read_write_row([0x4f29, 0x4129], [0x4f2a, 0x412a]),
    read_write_row([0x2140, 0x0508], [0x2240, 0x0608]),
    read_only_row(0x00c0, 0x0282),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];

/// PAGE_WALKS.I_SIDE_WALKS: with edge detection, the event of the cycles of page walks counts the walks.
const INSTRUCTION_PAGE_WALKS: u32 = EventSelect::new(0x05, 0x02).with_edge().stopped() as u32;

const SILVERMONT_CACHE: CacheTable = [
    read_write_row([NO_EVENT, 0x0104], [NO_EVENT, NO_EVENT]),
    instruction_row(0x0380, 0x0280),
    NO_EVENT_ROW,
    read_write_row([NO_EVENT, 0x0804], [NO_EVENT, NO_EVENT]),
    read_only_row(0x00c0, INSTRUCTION_PAGE_WALKS),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];

const GOLDMONT_CACHE: CacheTable = [
    read_write_row([0x81d0, NO_EVENT], [0x82d0, NO_EVENT]),
    instruction_row(0x0380, 0x0280),
    NO_EVENT_ROW,
    read_write_row([0x81d0, NO_EVENT], [0x82d0, NO_EVENT]),
    read_only_row(0x00c0, 0x0481),
    read_only_row(0x00c4, 0x00c5),
    NO_EVENT_ROW,
];

const GOLDMONT_PLUS_CACHE: CacheTable = {
    let mut table = GOLDMONT_CACHE;
    table[3] = read_write_row([0x81d0, 0x0e08], [0x82d0, 0x0e49]);
    table
};

/// The events of caches of all cores from Tremont to Arctic Wolf.
pub(super) const TREMONT_CACHE: CacheTable = {
    let mut table = GOLDMONT_PLUS_CACHE;
    table[4] = read_only_row(INVALID_EVENT, 0x0481);
    table
};
